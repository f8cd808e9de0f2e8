package slack_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
)

// rounds adds numbers of requests, and requests of one person and of many with each text: go test ./events/forward/slack -rounds 2.
var rounds = flag.Int("rounds", 1, "2: the worst texts also in messages of 2 and 20 requests, of one person and of many")

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) { chat.Limits(t, *rounds) }

func check(t *testing.T, name string, full bool, list []events.Event) {
	t.Helper()
	if err := checkMessage(slack.Render(full, forward.Delivery{Events: list})); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func TestNobodyIsMissingInAList(t *testing.T) {
	for _, piece := range forwardtest.Worst {
		for _, same := range []bool{true, false} {
			body := string(chat.Body(t, true, forward.Delivery{Events: forwardtest.Crowd(t, piece, same)}))
			for i := range 20 {
				if who := fmt.Sprintf("Person%c", 'A'+i); !strings.Contains(body, who) {
					t.Errorf("%.20q, one insertion %v: %s is missing", piece, same, who)
				}
			}
		}
	}
}

func TestAListThatIsTooLongSaysSo(t *testing.T) {
	var list []events.Event
	for i := range 50 {
		e := forwardtest.Request(t, func(*events.ContactRequestCreated) {})
		e.Reference = fmt.Sprint(i)
		list = append(list, e)
	}
	if body := string(chat.Body(t, false, forward.Delivery{Events: list})); !strings.Contains(body, "… + 30 (doorbell events ls)") {
		t.Error(body)
	}
}

func TestWhatCannotBeReadIsShownAsFarAsItIsKnown(t *testing.T) {
	good := forwardtest.Example(t, events.TypeContactRequestCreated)
	broken := good
	broken.Data = json.RawMessage(`{"contact": "Nora Beispiel"}`)
	later := good
	later.Type = "insertion.exploded"
	alert := forwardtest.Example(t, events.TypeWatchStale)
	alert.Type = "watch.exploded"
	for name, e := range map[string]events.Event{"broken": broken, "of a later version": later, "an alert of a later version": alert} {
		body := slack.Render(false, forward.Delivery{Events: []events.Event{e}})
		if !strings.Contains(string(body), string(e.Type)) || strings.Contains(string(body), "Nora") {
			t.Errorf("%s, alone: %s", name, body)
		}
		beside := good
		if message.IsAlert(e.Type) {
			beside = forwardtest.Example(t, events.TypeWatchStale)
		}
		check(t, name, false, []events.Event{e, beside})
	}
}

func FuzzRender(f *testing.F) { chat.Fuzz(f, append([]string{"<!channel>"}, forwardtest.Worst...)...) }
