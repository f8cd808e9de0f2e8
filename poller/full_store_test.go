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

func TestAFullStoreStopsPollingAndLosesNothing(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		h := store.NewHousekeeping(store.HousekeepingOptions{Store: w.store, Retention: 1000 * time.Hour, Max: 1 << 20})
		ctx, cancel := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		w.pass(10 * time.Minute)
		written := map[string]bool{}
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
		ring(100) // 100 × 20 kB, and they are not published
		if !h.Space().Full {
			t.Fatalf("%+v and nobody waits", h.Space())
		}
		requests := w.model.Requests(sandbox.Filter{})
		ring(60)
		if n := w.model.Requests(sandbox.Filter{}) - requests; n > 0 {
			t.Errorf("%d requests in an hour of which nothing can be remembered", n)
		}
		for range 40 { // now they are published
			w.log("A100") // before it is trimmed
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
		told := announced(w.log("A100"))
		for id := range written {
			if told[id] != 1 {
				t.Errorf("%s was announced %d times", id, told[id])
			}
		}
		cancel()
		w.must(<-ended)
	})
}
