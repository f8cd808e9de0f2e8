package poller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
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

func TestEveryErrorHasAClass(t *testing.T) {
	status := func(code int) error { return &listings.StatusError{Status: code} }
	for _, x := range []struct {
		err  error
		want watch.Class
	}{
		{nil, watch.ClassNone},
		{watch.ErrHalted, watch.ClassHalted},
		{&listings.RequestError{Err: watch.ErrHalted}, watch.ClassHalted},
		{&listings.RequestError{Err: &watch.WaitError{}}, watch.ClassWaiting},
		{&listings.RequestError{Err: listings.ErrReference}, watch.ClassAside},
		{&listings.RequestError{Err: listings.ErrBodyTooLarge}, watch.ClassAside},
		{&listings.RequestError{Err: context.Canceled}, watch.ClassCanceled},
		{&listings.DriftError{}, watch.ClassDrift},
		{&listings.TransportError{Stage: listings.StageTimeout, Err: context.DeadlineExceeded}, watch.ClassTransient},
		{&listings.TransportError{Stage: listings.StageRead, Err: context.Canceled}, watch.ClassCanceled},
		{&listings.TransportError{Stage: listings.StageRefused}, watch.ClassDown},
		{&listings.TransportError{Stage: listings.StageDNS}, watch.ClassDown},
		{&listings.TransportError{Stage: listings.StageTLS}, watch.ClassDown},
		{status(301), watch.ClassTransient},
		{status(400), watch.ClassAside},
		{status(401), watch.ClassRefused},
		{status(403), watch.ClassRefused},
		{status(404), watch.ClassAside},
		{status(410), watch.ClassAside},
		{status(414), watch.ClassAside},
		{status(416), watch.ClassAside},
		{status(422), watch.ClassAside},
		{status(429), watch.ClassBusy},
		{status(500), watch.ClassTransient},
		{status(503), watch.ClassTransient},
		{&listings.StatusError{Status: 503, RetryAfter: time.Second}, watch.ClassBusy},
		{context.DeadlineExceeded, watch.ClassCanceled},
	} {
		if got := watch.Classify(x.err); got != x.want {
			t.Errorf("%v is %q, want %q", x.err, got, x.want)
		}
	}
}
