package poller

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func latencyAt(l latencies, at time.Time) Latency { return latencyOf(l.lastDay(at)) }

func TestLatencyFiguresAreThoseOfWhatWasCounted(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var l latencies
	if f := latencyAt(l, now); f != (Latency{}) {
		t.Errorf("of nothing: %+v", f)
	}
	var all []float64
	sum, one, five := 0.0, 0.0, 0.0
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 5000 {
		seconds := math.Exp(5 + 1.5*random.NormFloat64())
		all = append(all, seconds)
		sum += seconds
		if seconds <= 60 {
			one++
		}
		if seconds <= 300 {
			five++
		}
		l.add(time.Duration(seconds*float64(time.Second)), now.Add(-time.Duration(n)*16*time.Second)) // over 22 hours
	}
	slices.Sort(all)
	f := latencyAt(l, now)
	near := func(what string, got, want, by float64) {
		t.Helper()
		if math.Abs(got-want) > by*want {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("the number", float64(f.ContactRequests), 5000, 0)
	near("the mean", f.MeanSeconds, sum/5000, 1e-4)
	near("the median", f.MedianSeconds, all[2499], 1e-3)
	near("the 95th percentile", f.P95Seconds, all[4749], 1e-3)
	near("the share within a minute", f.WithinOneMinute, one/5000, 1e-3)
	near("the share within five", f.WithinFiveMinutes, five/5000, 1e-3)
}

func TestLatencyIsForgottenAfterADay(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var l latencies
	l.add(time.Hour, now)
	if f := latencyAt(l, now.Add(23*time.Hour)); f.ContactRequests != 1 {
		t.Errorf("after 23 hours: %+v", f)
	}
	if f := latencyAt(l, now.Add(24*time.Hour)); f.ContactRequests != 0 {
		t.Errorf("after 24 hours: %+v", f)
	}
	l.add(time.Minute, now.Add(24*time.Hour)) // in the place of the first
	if f := latencyAt(l, now.Add(24*time.Hour)); f.ContactRequests != 1 || f.MeanSeconds != 60 {
		t.Errorf("the next day: %+v", f)
	}
}

func TestNoLatencyIsTooOdd(t *testing.T) {
	now := time.Now()
	var l latencies
	for _, d := range []time.Duration{math.MinInt64, -time.Hour, 0, 1, time.Second, math.MaxInt64} {
		l.add(d, now)
	}
	if f := latencyAt(l, now); f.ContactRequests != 6 || f.MedianSeconds > 1 || f.MeanSeconds < 0 {
		t.Errorf("%+v", f)
	}
}

func TestTheNewestLatenciesOfADayAreKept(t *testing.T) {
	now := time.Now()
	var l latencies
	for n := range mostLatencies + 5 {
		l.add(time.Duration(n)*time.Second, now)
	}
	if kept := l.lastDay(now); len(kept) != mostLatencies || kept[0] != 5 {
		t.Errorf("%d, from %g on", len(kept), kept[0])
	}
}
