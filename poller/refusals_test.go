package poller_test

import (
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
)

// refusedUnderWay is a world in which A100 halts while polls of its insertions are under way, which are refused half a
// minute later. The API grants everything again.
func refusedUnderWay(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Delay: 25 * time.Second, Status: 403}
			}
			return nil
		})
		w.askNow()
		w.must(w.model.UnlinkKey(testKey, "A100"))
		w.askNow()
		if s := w.status("A100"); s.State != "halted" {
			t.Fatalf("status: %+v", s)
		}
		w.model.SetFault(nil)
		w.model.AddKey(testKey, "A100")
		test(w)
	})
}

// askNow lets A100 be walked, and polls of all its insertions begin.
func (w *world) askNow() {
	w.t.Helper()
	_, err := w.poller.PollNow("A100")
	w.must(err)
	w.pass(2 * time.Second)
}

// wellAgain wants that the halt that was told first is over, and that every insertion is polled.
func (w *world) wellAgain(cause string) {
	w.t.Helper()
	id := map[string]int{}
	for _, reference := range []string{"a#1##", "a#2##", "a#3##", "a#4##"} {
		id[w.write("A100", reference, 0)] = 1
	}
	w.pass(10 * time.Minute)
	list := w.since("A100", 1)
	if h, r := count(list, events.TypeAccessHalted), count(list, events.TypeAccessResumed); h != 1 || r != 1 {
		w.t.Fatalf("%d halts and %d resumes, want 1 and 1: %v", h, r, list)
	}
	if list[0].body["scope"] != "agency" || list[1].body["cause"] != cause {
		w.t.Errorf("%v, %v", list[0].body, list[1].body)
	}
	got := announced(list)
	for one := range id {
		if got[one] != 1 {
			w.t.Errorf("a lead is told %d times", got[one])
		}
	}
}

func TestARefusalOfBeforeTheEndOfAHaltHaltsNoInsertionUnderAnotherKey(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		w.pass(time.Minute)
		w.model.AddKey(newKey, "A100")
		w.options.Agencies = []poller.AgencyKeys{keyed("A100", newKey)}
		w.restart()
		w.wellAgain("key_changed")
	})
}

func TestARefusalThatWasUnderWayAtTheEndOfAHaltHaltsNothing(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		if n, err := w.poller.Resume("A100", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		w.wellAgain("operator")
	})
}
