package poller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
