package poller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var paces = []float64{0.1, 0.7, 1, 5, 33, 99, 100, 101, 250, 999, 1000}

// holdWindows fails unless every window of time, from any request to any other, holds no more than may be sent in it. Where
// little lies between two requests, two may go together, but no second holds more.
func holdWindows(t *testing.T, perSecond float64, at []time.Time) {
	t.Helper()
	const rounding = 1e-6
	together := 0.0
	if perSecond > fastPace {
		together = 1
	}
	for i := range at {
		for j := i + 1; j < len(at); j++ {
			window := at[j].Sub(at[i])
			if may := perSecond*window.Seconds() + together; float64(j-i) > may+rounding {
				t.Fatalf("at %g a second: %d requests within %s", perSecond, j-i+1, window)
			}
			if window < time.Second && float64(j-i+1) > max(perSecond, 1) {
				t.Fatalf("at %g a second: %d requests within %s, less than one", perSecond, j-i+1, window)
			}
		}
	}
}

func every(perSecond float64) time.Duration { return time.Duration(float64(time.Second) / perSecond) }

// crowd lets walks and polls come and go at random for the budget, and the API throttle, until so many requests
// were granted. It returns when.
func crowd(b *budget, r *rand.Rand, requests int) (at []time.Time) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	d := alone(b)
	all.Go(func() { _ = d.run(ctx, nil) })
	var mu sync.Mutex
	wait := func(ctx context.Context, walk bool) {
		if d.wait(ctx, request(walk), nil) == nil {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
		}
	}
	every := every(b.ceiling)
	for begun := 0; begun < requests; {
		for range r.IntN(8) {
			walk, timeout := r.IntN(3) == 0, time.Duration(1+r.Int64N(int64(40*every)))
			begun++
			all.Go(func() {
				mine, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				wait(mine, walk)
			})
		}
		if r.IntN(40) == 0 {
			b.slow(time.Now())
		}
		time.Sleep(time.Duration(r.Int64N(int64(6 * every))))
	}
	time.Sleep(50 * every)
	stop()
	all.Wait()
	return at
}

func TestNoWindowOfTimeHoldsMoreThanTheBudget(t *testing.T) {
	for _, perSecond := range paces {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				began := time.Now()
				at := crowd(newBudget(perSecond), r, 250)
				if len(at) < 20 {
					t.Fatalf("at %g a second: only %d requests in %s", perSecond, len(at), time.Since(began))
				}
				// A process before this one may have sent a request just before its end.
				holdWindows(t, perSecond, append([]time.Time{began}, at...))
			})
		}
	}
}

// paced lets a budget grant so many requests to who always wants more, while every timer fires late as a function says. It
// needs no time.
func paced(b *budget, requests int, late func() time.Duration) (at []time.Time) {
	now := time.Now()
	for len(at) < requests {
		if wait := b.until(now); wait > 0 {
			now = now.Add(wait + late())
			continue
		}
		if b.take(now) {
			at = append(at, now)
		}
	}
	return at
}

func TestATimerThatFiresLateIsNotMadeUpByABurst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, perSecond := range paces {
		every := every(perSecond)
		for name, late := range map[string]func() time.Duration{
			"now and then by much": func() time.Duration {
				if r.IntN(20) == 0 {
					return 30 * every
				}
				return 0
			},
			"always by a little": func() time.Duration { return time.Duration(r.Int64N(int64(every))) },
			"at random":          func() time.Duration { return time.Duration(r.ExpFloat64() * float64(every)) },
		} {
			t.Run(fmt.Sprintf("%g a second, %s", perSecond, name), func(t *testing.T) {
				holdWindows(t, perSecond, paced(newBudget(perSecond), 750, late))
			})
		}
	}
}

func TestTimersThatFireLateCostLittleOfTheBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	late := func() time.Duration { return time.Duration(r.Int64N(int64(time.Millisecond))) }
	for _, perSecond := range paces {
		at := paced(newBudget(perSecond), 3000, late)
		if got := float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds(); got < 0.94*perSecond {
			t.Errorf("at %g a second, with timers late by up to 1 ms: %.1f", perSecond, got)
		}
	}
}

func TestTheBudgetIsHalvedForTenMinutesAfterAThrottledAnswer(t *testing.T) {
	for _, perSecond := range paces {
		b := newBudget(perSecond)
		now := time.Now().Add(time.Hour)
		for after, want := range map[time.Duration]float64{0: 0.5, 10*time.Minute - 1: 0.5, 10 * time.Minute: 1} {
			b.slow(now.Add(-time.Second))
			b.slow(now)
			if got := b.effective(now.Add(after)); got != want*perSecond {
				t.Errorf("%g a second, %s after two throttled answers: %g", perSecond, after, got)
			}
		}
	}
}

func TestAThrottledAnswerCountsForTheNextRequest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, perSecond := range paces {
		now := time.Now()
		b := newBudget(perSecond)
		last, may := now, 0.0 // what the effective budget has let through since the last request
		for n := 0; n < 2000; {
			if r.IntN(50) == 0 {
				b.slow(now)
			}
			left := b.effective(now)
			if wait := b.until(now); wait > 0 {
				step := min(wait, time.Duration(1+r.Int64N(int64(wait)))) // it is throttled while it waits
				may += b.effective(now.Add(step)) * step.Seconds()
				now = now.Add(step)
				continue
			}
			if perSecond > fastPace {
				may++
			}
			if may < 1-1e-6 {
				t.Fatalf("at %g a second, of which %g are left: two requests within %s", perSecond, left, now.Sub(last))
			}
			b.take(now)
			last, may = now, 0
			n++
		}
	}
}

// wait blocks until one request may be sent, or ctx is done, and counts it.
func (b *budget) wait(ctx context.Context) error {
	for {
		now := time.Now()
		d := b.until(now)
		if d == 0 && b.take(now) {
			return nil
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

func TestACrashLoopSpendsNoMoreThanTheBudget(t *testing.T) {
	for _, perSecond := range []float64{0.1, 5, 1000} {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 1))
			var at []time.Time
			for range 60 {
				ctx, crash := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(4*every(perSecond)))))
				b := newBudget(perSecond)
				for b.wait(ctx) == nil {
					at = append(at, time.Now())
				}
				crash()
			}
			if len(at) < 30 || !slices.IsSortedFunc(at, time.Time.Compare) {
				t.Fatalf("%d requests", len(at))
			}
			holdWindows(t, perSecond, at)
		})
	}
}
