package poller_test

import (
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
