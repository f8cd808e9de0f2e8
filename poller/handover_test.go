package poller_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// takenOver lets another process start from a copy of the store.
func (w *world) takenOver() {
	w.halt()
	w.must(store.Adopt(filepath.Join(w.dir, "doorbell.db")))
	w.start()
}

func TestAHaltOfAnotherProcessIsTriedOnce(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		refuses := func(c sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: 403} }
		w.model.SetFault(refuses)
		w.pass(10 * time.Minute)
		before, asked := len(w.log("A100")), w.model.Requests(sandbox.Filter{})
		if h := w.status("A100").Halts; len(h) != 1 || h[0].Scope != events.ScopeAgency {
			t.Fatalf("halts: %+v", h)
		}
		w.takenOver()
		w.pass(2 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n != 1 {
			t.Errorf("%d requests of a refused agency after a takeover", n)
		}
		w.restart()
		w.pass(2 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n != 1 {
			t.Errorf("%d requests of a refused agency after a takeover and a restart", n)
		}
		w.wants(w.since("A100", before))

		var calls atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if calls.Add(1) == 1 { // says nothing of access
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.takenOver()
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessResumed)
		if got := w.since("A100", before)[0].body["cause"]; got != "retry_succeeded" {
			t.Errorf("the halt ended with %v", got)
		}
		w.model.SetFault(nil)
		w.must(func() error {
			_, err := w.model.AddContactRequest("A100", "a#1##", sandbox.ContactRequest{})
			return err
		}())
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before+1), events.TypeContactRequestCreated)
	})
}

func TestNoRequestBeginsWhileAnotherProcessMayWork(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		var forbidden atomic.Bool
		w.options.Allowed = func() bool { return !forbidden.Load() }
		w.start()
		w.pass(10 * time.Minute)
		asked := w.model.Requests(sandbox.Filter{})
		forbidden.Store(true)
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n > 0 {
			t.Errorf("%d requests", n)
		}
		forbidden.Store(false)
		w.pass(5 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n < 5 {
			t.Errorf("%d requests afterwards", n)
		}
	})
}
