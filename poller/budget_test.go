package poller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
)

var paces = []float64{0.1, 0.7, 1, 5, 33, 99, 100, 101, 250, 999, 1000}

func every(perSecond float64) time.Duration { return time.Duration(float64(time.Second) / perSecond) }

// holdWindows fails unless every window of time, from any request to any other, holds no more than
// may be sent in it.
func holdWindows(t *testing.T, perSecond float64, at []time.Time) {
	t.Helper()
	const rounding = 1e-6
	for i := range at {
		for j := i + 1; j < len(at); j++ {
			window := at[j].Sub(at[i])
			if may := perSecond * window.Seconds(); float64(j-i) > may+rounding {
				t.Fatalf("at %g a second: %d requests within %s", perSecond, j-i+1, window)
			}
			if window < time.Second && float64(j-i+1) > max(perSecond, 1) {
				t.Fatalf("at %g a second: %d requests within %s, less than one", perSecond, j-i+1, window)
			}
		}
	}
}

// TestALateTimerIsNotMadeUpForByABurst lets every timer fire late. A small delay costs little.
func TestALateTimerIsNotMadeUpForByABurst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, perSecond := range paces {
		every := every(perSecond)
		for name, late := range map[string]func() time.Duration{
			"occasionally by much": func() time.Duration { return 30 * every * time.Duration(r.IntN(20)/19) },
			"always by a little":   func() time.Duration { return time.Duration(r.Int64N(int64(every))) },
			"at random":            func() time.Duration { return time.Duration(r.ExpFloat64() * float64(every)) },
			"by up to 1 ms":        func() time.Duration { return time.Duration(r.Int64N(int64(time.Millisecond))) },
		} {
			t.Run(fmt.Sprintf("%g a second, %s", perSecond, name), func(t *testing.T) {
				now := time.Now()
				b := newBudget(perSecond)
				at := []time.Time{now} // a process before this one may have sent a request just before its end
				for len(at) < 750 {
					if wait := b.until(now); wait > 0 {
						now = now.Add(wait + late())
					} else if b.take(now) {
						at = append(at, now)
					}
				}
				holdWindows(t, perSecond, at)
				got := float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
				if name == "by up to 1 ms" && perSecond <= 100 && got < 0.94*perSecond {
					t.Errorf("%.1f a second", got)
				}
			})
		}
	}
}

func TestTheBudgetIsHalvedForTenMinutesAfterAThrottledResponse(t *testing.T) {
	for _, perSecond := range paces {
		now := time.Now().Add(time.Hour)
		b := newBudget(perSecond)
		b.slow(now.Add(-time.Second))
		b.slow(now)
		for after, want := range map[time.Duration]float64{0: 0.5, 10*time.Minute - 1: 0.5, 10 * time.Minute: 1} {
			if got := b.effective(now.Add(after)); got != want*perSecond {
				t.Errorf("%g a second, %s after two throttled responses: %g", perSecond, after, got)
			}
		}
	}
}

// TestPollsThatStartLateMakeNoBurst lets polls that were chosen come to their first request only
// after a second, as on a machine that was stopped. No more of them are chosen meanwhile: what is
// chosen late is chosen well.
func TestPollsThatStartLateMakeNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 5
		d := newDispatcher(newBudget(perSecond), schedule.Options{Rate: perSecond, Interval: time.Minute}, &heartbeat{})
		for n := range 20 {
			d.schedule.Add("A100", fmt.Sprint(n), time.Time{}, time.Time{}, time.Now())
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		release, chosen, admitted := make(chan struct{}), make(chan struct{}, 20), make(chan time.Time, 20)
		go d.run(ctx, func(turn schedule.Turn) {
			chosen <- struct{}{}
			go func() {
				<-release
				r := listings.Request{Operation: listings.OperationContactRequests, AgencyID: turn.Agency, Reference: turn.Reference}
				_ = d.wait(ctx, r, func(now time.Time) error {
					admitted <- now
					return nil
				})
			}()
		})
		time.Sleep(1100 * time.Millisecond)
		if len(chosen) != 1 {
			t.Errorf("%d polls were chosen at the same time", len(chosen))
		}
		close(release)
		time.Sleep(time.Minute)
		var at []time.Time
		for len(admitted) > 0 {
			at = append(at, <-admitted)
		}
		if len(at) != 20 {
			t.Fatalf("%d requests", len(at))
		}
		holdWindows(t, perSecond, at)
	})
}

// TestARequestIsAdmittedWhenItIsSent halts the scope of requests that wait for their turns.
func TestARequestIsAdmittedWhenItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(newBudget(1), schedule.Options{Rate: 1, Interval: time.Minute}, &heartbeat{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.run(ctx, func(schedule.Turn) {})
		var halted, sent atomic.Int64
		for range 5 {
			go d.wait(ctx, listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100"}, func(time.Time) error {
				if halted.Load() > 0 {
					return watch.ErrHalted
				}
				sent.Add(1)
				return nil
			})
		}
		time.Sleep(2500 * time.Millisecond)
		if halted.Store(1); sent.Load() != 2 {
			t.Fatalf("%d were sent in two turns", sent.Load())
		}
		if time.Sleep(time.Minute); sent.Load() != 2 {
			t.Errorf("%d were sent after the halt", sent.Load()-2)
		}
	})
}
