package check

import (
	"errors"
	"strings"
	"testing"

	"doorbell/poller/listings"
)

func TestAFailureNamesNoInsertion(t *testing.T) {
	t.Parallel()
	r := listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100", Reference: "geheim#1##"}
	for _, err := range []error{
		&listings.StatusError{Request: r, Status: 403, Body: listings.BodyChallenge},
		&listings.TransportError{Request: r, Stage: listings.StageRefused, Err: errors.New("refused")},
		&listings.DriftError{Request: r, Expected: "a", Found: "b"}, &listings.RequestError{Request: r, Err: listings.ErrReference}, errors.New("geheim"),
	} {
		if text, _ := explain(err); strings.Contains(text, "geheim") || text == "" {
			t.Errorf("%T: %q", err, text)
		}
	}
}
