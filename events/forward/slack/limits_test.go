package slack_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
)

func TestEveryKindOfMessageIsWithinTheLimits(t *testing.T) {
	for _, k := range kinds(t) {
		if err := checkMessage(render(t, k)); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// rounds adds numbers of requests, and requests of one person and of many with each text: go test ./events/forward/slack -rounds 2.
var rounds = flag.Int("rounds", 1, "2: the worst texts also in messages of 2 and 20 requests, of one person and of many")

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) {
	sizes := []int{1, 60}
	if *rounds > 1 {
		sizes = append(sizes, 2, 20)
	}
	for i, piece := range forwardtest.Worst {
		for k, n := range sizes {
			text := strings.Repeat(piece, 20_000/n/len(piece))
			for _, same := range []bool{true, false} {
				if *rounds == 1 && same != ((i+k)%2 == 0) {
					continue // each way with every other text
				}
				requests := forwardtest.WorstRequests(t, text, n, same)
				for _, people := range []slack.People{slack.Short, slack.Full} {
					check(t, fmt.Sprintf("%d requests of %.20q", n, piece), people, requests)
				}
			}
			check(t, fmt.Sprintf("%d halts of %.20q", n, piece), slack.Short, forwardtest.WorstAlerts(t, text, n))
		}
	}
}

func check(t *testing.T, name string, people slack.People, list []events.Event) {
	t.Helper()
	body, err := slack.Render(people, forward.Delivery{Events: list})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if err := checkMessage(body); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func TestNobodyIsMissingInAList(t *testing.T) {
	// The longest list that the pipeline makes, every text as long as it can be.
	for _, piece := range forwardtest.Worst {
		text := strings.Repeat(piece, 1_000/len(piece))
		for _, same := range []bool{true, false} {
			var list []events.Event
			for i := range 20 {
				e := forwardtest.Request(t, func(p *events.ContactRequestCreated) {
					p.Contact.FirstName, p.Contact.LastName = fmt.Sprintf("Person%c", 'A'+i), text
					p.Insertion.Title = text
				})
				if !same {
					e.Reference = fmt.Sprint(i)
				}
				list = append(list, e)
			}
			body := string(render(t, kind{"list", slack.Full, forward.Delivery{Events: list}}))
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
	if body := string(render(t, kind{"list", slack.Short, forward.Delivery{Events: list}})); !strings.Contains(body, "… + 30 (doorbell events ls)") {
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
		body, err := slack.Render(slack.Short, forward.Delivery{Events: []events.Event{e}})
		if err != nil || !strings.Contains(string(body), string(e.Type)) || strings.Contains(string(body), "Nora") {
			t.Errorf("%s, alone: %v: %s", name, err, body)
		}
		beside := good
		if message.IsAlert(e.Type) {
			beside = forwardtest.Example(t, events.TypeWatchStale)
		}
		check(t, name, slack.Short, []events.Event{e, beside})
	}
}

// FuzzRender: whatever stands in an event, and whichever JSON, the message is one that Slack takes and that steers nothing.
func FuzzRender(f *testing.F) {
	for _, k := range events.Types {
		f.Add(string(k), []byte(forwardtest.Example(f, k).Data), "<!channel>", "A100", true, uint8(1))
	}
	for _, w := range forwardtest.Worst {
		f.Add("contact_request.created", []byte(forwardtest.Example(f, events.TypeContactRequestCreated).Data), strings.Repeat(w, 200), w, false, uint8(20))
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte, text, agency string, full bool, n uint8) {
		people := slack.Short
		if full {
			people = slack.Full
		}
		e := events.Event{
			ID: text, Type: events.Type(kind), AgencyID: agency, Reference: text, Data: data,
			Time: time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC),
		}
		d := forward.Delivery{Events: []events.Event{e}, Test: n%7 == 0}
		for i := range n % 22 {
			e.Data = forwardtest.Fill(data, text, int(i))
			d.Events = append(d.Events, e)
		}
		if body, err := slack.Render(people, d); err == nil {
			if err := checkMessage(body); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
		}
	})
}
