package poller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

func TestWalksGetAThirdOfTheBudgetWhilePollsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := alone(newBudget(10))
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		order, times := "", []time.Time{}
		for _, walk := range []bool{true, false} {
			for range 30 {
				all.Go(func() {
					if d.wait(ctx, request(walk), nil) != nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					times = append(times, time.Now())
					order += map[bool]string{true: "w", false: "p"}[walk]
				})
			}
		}
		synctest.Wait()
		all.Go(func() { _ = d.run(ctx, nil) })
		time.Sleep(3050 * time.Millisecond)
		synctest.Wait()
		mu.Lock()
		if want := "ppwppwppwppwppwppwppwppwppwppw"; order != want {
			t.Errorf("granted %s, want %s", order, want)
		}
		for i := 1; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d < 100*time.Millisecond {
				t.Errorf("two requests within %s, at 10 a second", d)
			}
		}
		mu.Unlock()
		stop()
		all.Wait()
	})
}

// alone is a dispatcher without a schedule.
func alone(b *budget) *dispatcher {
	return newDispatcher(b, schedule.Options{}, new(heartbeat))
}

func request(walk bool) listings.Request {
	if walk {
		return listings.Request{Operation: listings.OperationInsertions}
	}
	return listings.Request{Operation: listings.OperationContactRequests, Reference: "a#1##"}
}
