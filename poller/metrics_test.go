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

func TestLatencyFiguresCoverTheNewestOfADay(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	var l latencies
	random := rand.New(rand.NewPCG(1, 2))
	var all []float64
	for n := range mostLatencies + 5000 { // more than are kept, over 22 hours
		seconds := math.Exp(5 + 1.5*random.NormFloat64())
		all = append(all, seconds)
		l.add(time.Duration(seconds*float64(time.Second)), now.Add(-time.Duration(mostLatencies+5000-n)*5*time.Second))
	}
	all = all[5000:]
	slices.Sort(all)
	f := latencyOf(l.lastDay(now))
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-3*want }
	if f.ContactRequests != mostLatencies || !near(f.MedianSeconds, all[mostLatencies/2-1]) || !near(f.P95Seconds, all[mostLatencies*95/100-1]) {
		t.Errorf("%+v", f)
	}
	if f := latencyOf(l.lastDay(now.Add(24 * time.Hour))); f != (Latency{}) {
		t.Errorf("after 24 hours: %+v", f)
	}
	l.add(-time.Hour, now.Add(24*time.Hour))
	if f := latencyOf(l.lastDay(now.Add(25 * time.Hour))); f != (Latency{ContactRequests: 1}) {
		t.Errorf("one from the future: %+v", f)
	}
}

func TestOutcomesAreFewWhateverTheServiceAnswers(t *testing.T) {
	names := map[string]bool{}
	for status := -1000; status < 2000; status++ {
		names[outcome(listings.Outcome{Status: status, Err: &listings.StatusError{Status: status}})] = true
	}
	if len(names) > 70 || !names["403"] || !names["4xx"] || !names["other"] {
		t.Errorf("%d names", len(names))
	}
	cut := &listings.TransportError{Stage: listings.StageRead, Err: errors.New("cut")}
	if got := outcome(listings.Outcome{Status: 200, Err: fmt.Errorf("x: %w", cut)}); got != "read" {
		t.Errorf("a cut response is %s", got)
	}
}
