package check

import (
	"errors"
	"slices"
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
	for id, text := range map[string]string{"A100": "halted", "B200": "halted", "C300": "halted otherwise"} {
		a := Agency{AgencyID: id}
		a.says(LevelFail, text, watch.Advice(map[string]string{"halted": "key_rejected"}[text], id, ""))
		c.report.Agencies = append(c.report.Agencies, a)
	}
	slices.SortFunc(c.report.Agencies, func(a, b Agency) int { return strings.Compare(a.AgencyID, b.AgencyID) })
	c.accessLines()
	both, one := c.report.Lines[0].Remedy, c.report.Lines[1].Remedy
	if !strings.HasSuffix(both, "run for each of them: doorbell resume AGENCY") || !strings.HasSuffix(one, "run: doorbell resume C300") {
		t.Errorf("%q\n%q", both, one)
	}
}
