package poller_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// Every page of every walk is asked for with one size, whether it is the default or a configured one.
func TestEveryWalkAsksForOneSize(t *testing.T) {
	for configured, want := range map[int]string{0: "100", 30: "30"} {
		t.Run(want, func(t *testing.T) {
			rendering := sandbox.Flat()
			rendering.MaxPageSize = 1000
			inWorld(t, sandbox.Options{}, rendering, []string{"A100"}, func(w *world) {
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
				w.options.PageSize = configured
				w.start()
				w.pass(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				slices.Sort(sizes)
				if got := slices.Compact(sizes); len(got) != 1 || got[0] != want {
					t.Errorf("asked for %v, want %s", got, want)
				}
			})
		})
	}
}
