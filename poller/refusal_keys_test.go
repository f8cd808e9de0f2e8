package poller_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

func TestARefusalUnderAKeyIsForgottenWhenTheInsertionWasAnsweredUnderAnother(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.model.AddKey(newKey, "A100")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			switch {
			case c.Operation == sandbox.OperationInsertions:
				return &sandbox.Fault{Status: 500} // no walk decides
			case c.Reference == "a#1##":
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(time.Minute)
		w.model.SetFault(nil)
		for _, key := range []string{newKey, testKey} {
			w.options.Agencies = []poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(key)}}
			w.restart()
			w.pass(time.Hour)
		}
		if n := count(w.log("A100"), events.TypeAccessHalted); n > 0 {
			t.Errorf("%d halts because of what another key was answered an hour ago: %v", n, w.since("A100", 1))
		}
	})
}

// TestADeadKeyIsBlamedOnNoAgency deactivates the one key of many agencies: each of them has been answered well a moment before.
func TestADeadKeyIsBlamedOnNoAgency(t *testing.T) {
	ids := make([]string, 200)
	if raced {
		ids = ids[:40]
	}
	for n := range ids {
		ids[n] = fmt.Sprintf("A%d", n)
	}
	inWorld(t, sandbox.Options{}, sandbox.Flat(), ids, func(w *world) {
		for _, id := range ids {
			w.publish(id, "a#1##", "a#2##")
		}
		w.options.RequestsPerSecond = 50
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		for _, id := range ids {
			halted := w.since(id, 1)
			w.wants(halted, events.TypeAccessHalted)
			if got := halted[0].body["probableReason"]; got != "key_rejected" {
				t.Errorf("%s: %v, %v", id, got, halted[0].body["evidence"])
			}
			if n := w.lists(id, "", 403); n != 1 {
				t.Errorf("%s was asked for %d times although refused", id, n)
			}
		}
	})
}

// TestAHaltWhoseReasonIsNotKnownYetIsInForceAndToldAfterARestart stops the process while the event waits for what another
// agency is answered.
func TestAHaltWhoseReasonIsNotKnownYetIsInForceAndToldAfterARestart(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"another is answered": func(w *world) { w.pass(3 * time.Minute) },
		"a person resumes": func(w *world) {
			w.model.AddKey(testKey, "A100") // else it is refused once more
			if n, err := w.poller.Resume("A100", ""); n != 1 || err != nil {
				w.t.Fatal(n, err)
			}
			w.pass(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
				w.publish("A100", "a#1##")
				w.publish("B200", "b#1##")
				w.start()
				w.pass(10 * time.Minute)
				var hang atomic.Bool
				w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
					if c.AgencyID == "B200" && hang.Load() {
						return &sandbox.Fault{Delay: 20 * time.Second}
					}
					return nil
				})
				hang.Store(true)
				w.must(w.model.UnlinkKey(testKey, "A100"))
				for len(w.status("A100").Halts) == 0 {
					w.pass(100 * time.Millisecond)
				}
				if told := w.since("A100", 1); len(told) > 0 {
					t.Fatalf("told before anything was known: %v", told)
				}
				asked := w.model.Requests(sandbox.Filter{AgencyID: "A100"})
				w.restart()
				hang.Store(false)
				then(w)
				told := w.since("A100", 1)
				if len(told) == 0 || told[0].Type != events.TypeAccessHalted || count(told, events.TypeAccessHalted) != 1 {
					t.Fatalf("%v", told)
				}
				if name == "another is answered" {
					if told[0].body["probableReason"] != "agency_not_linked" {
						t.Errorf("%v", told[0].body)
					}
					if n := w.model.Requests(sandbox.Filter{AgencyID: "A100"}); n != asked {
						t.Errorf("%d requests for a halted agency", n-asked)
					}
				} else if told[1].Type != events.TypeAccessResumed {
					t.Errorf("%v", told)
				}
			})
		})
	}
}
