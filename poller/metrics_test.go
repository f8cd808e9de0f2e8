package poller

import (
	"errors"
	"fmt"
	"testing"

	"doorbell/poller/listings"
)

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
