package poller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings"
)

func TestWalksGetAThirdOfTheBudgetWhilePollsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		order, times := "", []time.Time{}
		for _, walk := range []bool{true, false} {
			for range 30 {
				all.Go(func() {
					if b.wait(ctx, walk) != nil {
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
		go b.run(ctx)
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

func TestTheClockIsBelievedWhenAnswersAgree(t *testing.T) {
	begin := time.Date(2026, 11, 20, 9, 0, 0, 300e6, time.UTC)
	hear := func(c *clock, skew time.Duration) {
		c.hear(listings.Envelope{Date: begin.Add(skew).Truncate(time.Second), Sent: begin.Add(-50 * time.Millisecond), Received: begin})
	}
	for _, x := range []struct {
		name  string
		skews []time.Duration
		known bool
		least time.Duration
		most  time.Duration
	}{
		{"none heard", nil, false, 0, 0},
		{"the same clock", []time.Duration{0, 0, 0}, true, 0, 0},
		{"behind is believed at once", []time.Duration{-5 * time.Minute}, false, -301 * time.Second, -299 * time.Second},
		{"ahead is not", []time.Duration{5 * time.Minute}, false, 0, 0},
		{"ahead, when three agree", []time.Duration{5 * time.Minute, 5 * time.Minute, 5 * time.Minute}, true, 299 * time.Second, 301 * time.Second},
		{"one odd answer", []time.Duration{10 * 24 * time.Hour, 0, 0, 0}, true, 0, 0},
		{"far ahead is bounded", []time.Duration{240 * time.Hour, 240 * time.Hour, 240 * time.Hour}, true, farAhead, farAhead},
		{"far behind is bounded", []time.Duration{-240 * time.Hour}, false, farBehind, farBehind},
	} {
		var c clock
		for _, s := range x.skews {
			hear(&c, s)
		}
		if c.known != x.known || c.skew < x.least || c.skew > x.most {
			t.Errorf("%s: known %t, skew %s", x.name, c.known, c.skew)
		}
	}
}

func TestEveryErrorHasAClass(t *testing.T) {
	status := func(code int) error { return &listings.StatusError{Status: code} }
	for _, x := range []struct {
		err  error
		want class
	}{
		{nil, classNone},
		{errHalted, classHalted},
		{&listings.RequestError{Err: errHalted}, classHalted},
		{&listings.RequestError{Err: &waitError{}}, classWaiting},
		{&listings.RequestError{Err: listings.ErrReference}, classAside},
		{&listings.RequestError{Err: listings.ErrBodyTooLarge}, classAside},
		{&listings.RequestError{Err: context.Canceled}, classCanceled},
		{&listings.DriftError{}, classDrift},
		{&listings.TransportError{Stage: listings.StageTimeout, Err: context.DeadlineExceeded}, classTransient},
		{&listings.TransportError{Stage: listings.StageRead, Err: context.Canceled}, classCanceled},
		{&listings.TransportError{Stage: listings.StageRefused}, classDown},
		{&listings.TransportError{Stage: listings.StageDNS}, classDown},
		{&listings.TransportError{Stage: listings.StageTLS}, classDown},
		{status(301), classTransient},
		{status(400), classAside},
		{status(401), classRefused},
		{status(403), classRefused},
		{status(404), classAside},
		{status(410), classAside},
		{status(414), classAside},
		{status(416), classAside},
		{status(422), classAside},
		{status(429), classBusy},
		{status(500), classTransient},
		{status(503), classTransient},
		{&listings.StatusError{Status: 503, RetryAfter: time.Second}, classBusy},
		{context.DeadlineExceeded, classCanceled},
	} {
		if got := classify(x.err); got != x.want {
			t.Errorf("%v is %q, want %q", x.err, got, x.want)
		}
	}
}
