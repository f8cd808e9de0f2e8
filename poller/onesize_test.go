package poller_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// Every page of every walk is asked for with one size.
func TestEveryWalkAsksForOneSize(t *testing.T) {
	inWorld(t, sandbox.Options{}, inPages(1000), []string{"A100"}, func(w *world) {
		for n := range 130 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		var mu sync.Mutex
		var sizes []string
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, c.Query.Get("pageSize"))
			return nil
		}))
		w.start()
		w.pass(10 * time.Minute) // five walks
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(sizes)
		if got := slices.Compact(sizes); len(got) != 1 || got[0] != "100" {
			t.Errorf("asked for %v, want 100", got)
		}
	})
}
