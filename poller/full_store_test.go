package poller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

func TestAStoreThatHoldsAllThatItMayStopsTheAskingAndLosesNothing(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		h := store.NewHousekeeping(store.HousekeepingOptions{Store: w.store, Retention: 1000 * time.Hour, Max: 1 << 20})
		ctx, cancel := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		w.pass(10 * time.Minute)
		written, told := map[string]bool{}, map[string]uint64{} // told by which sequence
		ring := func(minutes int) {
			for range minutes {
				id, err := w.model.AddContactRequest("A100", "a#1##", sandbox.ContactRequest{
					CreatedAt: time.Now(), Message: strings.Repeat("Guten Tag ", 1000),
				})
				w.must(err)
				written[id] = true
				w.pass(time.Minute)
			}
		}
		ring(100) // 100 × 20 kB, and nobody takes them
		if !h.Space().Full {
			t.Fatalf("%+v and nobody waits", h.Space())
		}
		turns := func() (n uint64) {
			for _, turns := range w.status("A100").Freshness.Turns {
				n += turns
			}
			return n
		}
		requests, given := w.model.Requests(sandbox.Filter{}), turns()
		ring(60)
		if n := w.model.Requests(sandbox.Filter{}) - requests; n > 0 {
			t.Errorf("%d requests in an hour of which nothing can be remembered", n)
		}
		if n := turns() - given; n > 0 {
			t.Errorf("%d polls were begun that had to wait, and lost their turn", n)
		}
		for range 40 { // now somebody takes them
			for _, e := range w.log("A100") {
				if e.Type == events.TypeContactRequestCreated {
					id := e.body["contactRequestId"].(string)
					if told[id] != 0 && told[id] != e.Sequence {
						t.Errorf("%s was announced twice", id)
					}
					told[id] = e.Sequence
				}
			}
			last, err := w.store.LastPosition()
			w.must(err)
			w.must(w.store.Acknowledge(events.Cursor{Position: last}, nil))
			w.pass(time.Minute)
		}
		if h.Space().Full {
			t.Errorf("%+v, and nobody asks", h.Space())
		}
		if n := count(w.log("A100"), events.TypeWatchStale); n > 0 {
			t.Error("what is not asked is called stale")
		}
		for id := range written {
			if told[id] == 0 {
				t.Errorf("%s was not announced", id)
			}
		}
		cancel()
		w.must(<-ended)
	})
}
