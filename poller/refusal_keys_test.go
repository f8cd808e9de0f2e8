package poller_test

import (
	"fmt"
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
	ids := make([]string, 50**rounds)
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
		reasons := map[any]int{}
		for _, id := range ids {
			halted := w.since(id, 1)
			w.wants(halted, events.TypeAccessHalted)
			reasons[halted[0].body["probableReason"]]++
			if n := w.lists(id, "", 403); n != 1 {
				t.Errorf("%s was asked for %d times although refused", id, n)
			}
		}
		if reasons["key_rejected"] != len(ids)-1 || reasons["unknown"] != 1 { // the first one
			t.Errorf("%v", reasons)
		}
	})
}
