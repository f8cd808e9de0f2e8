package poller_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// noneForms are ways to say that an insertion has no contact requests, and responses that are of no use.
var noneForms = map[string]sandbox.Fault{
	"404": {Status: 404}, "no body": {Body: []byte(" ")},
	"a list that is null":      {Body: []byte(`{"results":null}`)},
	"a list that is an {}":     {Body: []byte(`{"results":{}}`)},
	"an empty list":            {Body: []byte(`{"results":[]}`)},
	"a bare list":              {Body: []byte(`[]`)},
	"an envelope of OData":     {Body: []byte(`{"@odata.context":"x","@odata.count":0,"value":[]}`)},
	"drift":                    {Body: []byte(`{"message":"Guten Tag"}`)},
	"422":                      {Status: 422},
	"a page that says sorry":   {Body: []byte(`<html>Wartung</html>`)},
	"400":                      {Status: 400},
	"an error with status 200": {Body: []byte(`{"error":"no rows"}`)},
}

func TestAnyNewLeadIsAnnouncedWithinTwoMinutesWhateverFormNoneHas(t *testing.T) {
	for name, form := range noneForms {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				with := map[string]bool{}
				for n := range 60 {
					r := fmt.Sprintf("a#%d##", n)
					w.publish("A100", r)
					if with[r] = n%10 == 0; with[r] {
						w.write("A100", r, 10*24*time.Hour)
					}
				}
				w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
					if c.Operation == sandbox.OperationContactRequests && !with[c.Reference] {
						return &form
					}
					return nil
				})
				w.start()
				w.pass(5 * time.Minute)
				var ids []string
				for n := 0; n < 60; n += 10 {
					ids = append(ids, w.write("A100", fmt.Sprintf("a#%d##", n), 0))
				}
				first := form.Status != 422 && form.Status != 400 && !strings.Contains(name, "drift") && !strings.Contains(name, "sorry") && !strings.Contains(name, "error")
				if first { // the first one where there was none
					w.model.SetFault(nil)
					ids = append(ids, w.write("A100", "a#7##", 0))
				}
				w.pass(2 * time.Minute)
				got := announced(w.log("A100"))
				for _, id := range ids {
					if got[id] != 1 {
						t.Errorf("%s was announced %d times", id, got[id])
					}
				}
				if len(got) != len(ids) {
					t.Errorf("%d announced, want %d", len(got), len(ids))
				}
			})
		})
	}
}

func TestARouteThatHasNothingFromOneDayOnIsReportedAndLosesNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.write("A100", "a#1##", 24*time.Hour)
		w.options.PollInterval = 5 * time.Minute
		w.start()
		w.pass(20 * time.Minute)
		n := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Status: http.StatusNotFound}
			}
			return nil
		})
		w.pass(30 * time.Minute)
		w.wants(w.since("A100", n))
		id, other := w.write("A100", "a#1##", 0), w.write("A100", "a#2##", 0)
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", n), events.TypeWatchStale)
		w.model.SetFault(nil)
		w.pass(20 * time.Minute)
		list := w.since("A100", n)
		got := announced(list)
		if got[id] != 1 || got[other] != 1 || len(list) != 4 || count(list, events.TypeWatchRecovered) != 1 {
			t.Errorf("%v", list)
		}
	})
}

func TestWhereNothingWasEverSeenOneEventSaysSo(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Status: http.StatusNoContent}
			}
			return nil
		})
		w.start()
		w.pass(3 * time.Hour)
		w.restart()
		w.pass(3 * time.Hour)
		list := w.log("A100")
		if w.wants(list, events.TypeWatchBaselined, events.TypeWatchGapDetected); list[1].body["reason"] != "only_none" {
			t.Errorf("%v", list[1].body)
		}
		w.model.SetFault(nil)
		id := w.write("A100", "a#1##", 0)
		w.pass(5 * time.Minute)
		if got := w.since("A100", 2); len(got) != 1 || announced(got)[id] != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestARenamedInsertionBringsItsLeadsAlongSilently(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		set := map[string]string{}
		w.publish("A100", "a#1##", "a#2##")
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation != sandbox.OperationContactRequests {
				return nil
			}
			return &sandbox.Fault{Body: []byte(`{"items":[` + set[c.Reference] + `]}`)}
		})
		w.start()
		w.pass(10 * time.Minute)
		lead := func(id int, reference string) string {
			return fmt.Sprintf(`{"id":%d,"createdAt":"2000-01-01T00:10:0%dZ","propertyReferenceId":%q,"lastName":"A-zq7","message":"x"}`, id, id, reference)
		}
		set["a#1##"] = lead(2, "a#1##") + "," + lead(1, "a#1##")
		w.pass(5 * time.Minute)
		n := len(w.log("A100"))
		w.must(w.model.Withdraw("A100", "a#1##"))
		set["A#1##"], set["a#1##"] = strings.ReplaceAll(set["a#1##"], "a#1##", "A#1##"), ""
		w.publish("A100", "A#1##")
		w.pass(30 * time.Minute)
		set["A#1##"] = lead(3, "A#1##") + "," + set["A#1##"]
		w.pass(5 * time.Minute)
		if got := announced(w.since("A100", n)); len(got) != 1 || got["3"] != 1 {
			t.Errorf("announced %v, want the third one alone", got)
		}
	})
}

func TestANewFlatWithMoreLeadsThanAServerShowsIsOneGap(t *testing.T) {
	for name, order := range map[string]func(string, string, []kept){"in order": nil, "in no order": func(_, _ string, l []kept) { honest("createdAt", "asc", l) }} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				h := &hostile{most: 50, order: order}
				h.take(w)
				w.publish("A100", "a#1##")
				w.start()
				w.pass(10 * time.Minute)
				w.publish("A100", "a#2##")
				live := h.add("a#2##", 120, 0)
				w.pass(2 * time.Hour)
				w.restart()
				w.pass(2 * time.Hour)
				h.judge(w, live)
				if gaps := gapsOf(w.log("A100")); len(gaps) != 1 || gaps[0].body["reason"] != "window_full" {
					t.Errorf("%v", gaps)
				}
			})
		})
	}
}

func TestAClockThatWasAheadAtTheFirstStartLosesNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{written: ahead(-72 * time.Hour)} // ours is three days ahead
		h.take(w)
		w.publish("A100", "a#1##", "a#2##")
		h.add("a#1##", 12, 10*24*time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		live := append(h.add("a#1##", 2, 0), h.add("a#2##", 2, 0)...)
		w.pass(10 * time.Minute)
		w.restart()
		live = append(live, h.add("a#2##", 1, 0)...)
		w.pass(10 * time.Minute)
		h.judge(w, live)
		if got := announced(w.log("A100")); len(got) != len(live) {
			t.Errorf("%d of %d announced", len(got), len(live))
		}
	})
}
