package check

import (
	"errors"
	"strings"
	"testing"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

func TestAFailureNamesNoInsertion(t *testing.T) {
	t.Parallel()
	r := listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100", Reference: "geheim#1##"}
	for _, err := range []error{
		&listings.StatusError{Request: r, Status: 403, Body: listings.BodyChallenge},
		&listings.TransportError{Request: r, Stage: listings.StageRefused, Err: errors.New("refused")},
		&listings.DriftError{Request: r, Expected: "a", Found: "b"}, &listings.RequestError{Request: r, Err: listings.ErrReference}, errors.New("geheim"),
	} {
		if f := failureOf(err); strings.Contains(f.text, "geheim") || f.text == "" {
			t.Errorf("%T: %q", err, f.text)
		}
	}
}

func TestWhatEndsSeveralHaltsIsNotToldOfOneAgencyAlone(t *testing.T) {
	c := &checker{report: newReport()}
	for _, id := range []string{"A100", "B200"} {
		c.share(LevelFail, id, "halted", watch.Advice("key_rejected", id, ""))
	}
	c.share(LevelFail, "C300", "halted otherwise", watch.Advice("unknown", "C300", ""))
	c.accessLines()
	both, one := c.report.Lines[0].Remedy, c.report.Lines[1].Remedy
	if !strings.HasSuffix(both, "run for each of them: doorbell resume AGENCY") || !strings.HasSuffix(one, "run: doorbell resume C300") {
		t.Errorf("%q\n%q", both, one)
	}
}
