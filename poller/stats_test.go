package poller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"doorbell/poller/listings"
)

func TestAHistogramCountsWhatTookNoLongerThanEachBound(t *testing.T) {
	var c histogram
	bounds := []float64{1, 10}
	if h := c.export(bounds); h.Count != 0 || len(h.Buckets) != 2 {
		t.Errorf("nothing is %+v", h)
	}
	for _, d := range []time.Duration{-time.Minute, time.Second, time.Second + 1, 10 * time.Second, 11 * time.Second} {
		c.add(bounds, d)
	}
	h := c.export(bounds)
	if want := []Bucket{{1, 2}, {10, 4}}; h.Count != 5 || !slices.Equal(h.Buckets, want) || h.Seconds < 23 || h.Seconds > 23.1 {
		t.Errorf("%+v", h)
	}
}

func TestOutcomesAreFewWhateverTheServiceAnswers(t *testing.T) {
	names := map[string]bool{}
	for status := -1000; status < 100_000; status++ {
		names[outcome(listings.Outcome{Status: status, Err: &listings.StatusError{Status: status}})] = true
	}
	for n := range 1000 {
		names[outcome(listings.Outcome{Err: &listings.TransportError{Stage: fmt.Sprint("stage", n)}})] = true
	}
	if len(names) > 70 || !names["403"] || !names["4xx"] || !names["other"] {
		t.Errorf("%d names", len(names))
	}
	cut := listings.Outcome{Status: 200, Err: fmt.Errorf("x: %w", &listings.TransportError{Stage: listings.StageRead, Err: errors.New("cut")})}
	if got := outcome(cut); got != "read" {
		t.Errorf("a cut answer is %s", got)
	}
}
