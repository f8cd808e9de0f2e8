package listings

import (
	"fmt"
	"time"
)

// Operation is one of the two operations of the API.
type Operation string

// The two operations.
const (
	OperationInsertions      Operation = "insertions"
	OperationContactRequests Operation = "contact_requests"
)

// Request says what was asked for, without how.
type Request struct {
	Operation Operation
	AgencyID  string
	Reference string // of contact requests
	Key       string // fingerprint of the key that is shown
}

// String names the request in errors: what of which agency.
func (r Request) String() string {
	if r.Reference == "" {
		return fmt.Sprintf("%s of agency %s", r.Operation, printable(r.AgencyID))
	}
	return fmt.Sprintf("%s of agency %s, insertion %s", r.Operation, printable(r.AgencyID), printable(r.Reference))
}

// printable keeps an identifier harmless in a log: quoted where it is odd, cut where it is long.
func printable(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "…"
	}
	if q := fmt.Sprintf("%+q", s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// Outcome is what came of a request, for metrics.
type Outcome struct {
	Status   int // 0 if there was no answer
	Err      error
	Duration time.Duration // without the time that Before took
}
