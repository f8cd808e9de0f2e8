package poller

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doorbell/poller/listings"
)

func latencyAt(l latencies, at time.Time) Latency { return latencyOf(l.lastDay(at)) }

func TestLatencyFiguresAreThoseOfWhatWasCounted(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var l latencies
	if f := latencyAt(l, now); f != (Latency{}) {
		t.Errorf("of nothing: %+v", f)
	}
	var all []float64
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 5000 {
		seconds := math.Exp(5 + 1.5*random.NormFloat64())
		all = append(all, seconds)
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
	near("the median", f.MedianSeconds, all[2499], 1e-3)
	near("the 95th percentile", f.P95Seconds, all[4749], 1e-3)
}

// TestOnlyTheNewestLatenciesOfADayCount counts too many of them, and odd ones.
func TestOnlyTheNewestLatenciesOfADayCount(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var l latencies
	for n := range mostLatencies + 5 {
		l.add(time.Duration(n)*time.Second, now)
	}
	if kept := l.lastDay(now); len(kept) != mostLatencies || kept[0] != 5 {
		t.Errorf("%d, from %g on", len(kept), kept[0])
	}
	if f := latencyAt(l, now.Add(24*time.Hour)); f.ContactRequests != 0 {
		t.Errorf("after 24 hours: %+v", f)
	}
	for _, d := range []time.Duration{math.MinInt64, -time.Hour, 0, 1, time.Second, math.MaxInt64} {
		l.add(d, now.Add(24*time.Hour))
	}
	if f := latencyAt(l, now.Add(47*time.Hour)); f.ContactRequests != 6 || f.MedianSeconds > 1 || f.MedianSeconds < 0 {
		t.Errorf("the next day: %+v", f)
	}
}

func TestOutcomesAreFewWhateverTheServiceAnswers(t *testing.T) {
	names := map[string]bool{}
	for status := -1000; status < 2000; status++ {
		names[outcome(listings.Outcome{Status: status, Err: &listings.StatusError{Status: status}})] = true
	}
	for n := range 1000 {
		names[outcome(listings.Outcome{Err: &listings.TransportError{Stage: fmt.Sprint("stage", n)}})] = true
	}
	if len(names) > 70 || !names["403"] || !names["4xx"] || !names["other"] {
		t.Errorf("%d names", len(names))
	}
	cut := &listings.TransportError{Stage: listings.StageRead, Err: errors.New("cut")}
	if got := outcome(listings.Outcome{Status: 200, Err: fmt.Errorf("x: %w", cut)}); got != "read" {
		t.Errorf("a cut response is %s", got)
	}
}
