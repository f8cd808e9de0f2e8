package watch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doorbell/poller/listings"
)

// Class is what an error means for what we do next.
type Class string

const (
	ClassNone      Class = ""
	ClassTransient Class = "transient" // back off, then try again
	ClassAside     Class = "set aside" // this insertion or page alone waits
	ClassBusy      Class = "busy"      // the API asks us to slow down: the key waits
	ClassDown      Class = "down"      // the base URL does not answer: everything waits
	ClassRefused   Class = "halt"      // 403 or 401: stop asking
	ClassHalted    Class = "halted"    // we had stopped asking
	ClassWaiting   Class = "waiting"   // it is too early to ask
	ClassDrift     Class = "drift"     // a response that is not what it should be
	ClassCanceled  Class = "canceled"  // we are stopping
	ClassFatal     Class = "fatal"     // not the API's doing: the process ends
)

// ErrHalted is returned instead of a request for a scope that is halted.
var ErrHalted = errors.New("halted")

// Classify is the one place that says what an error means. What is not there is our own doing, or
// the store's.
func Classify(err error) Class {
	if err == nil {
		return ClassNone
	}
	var waits *WaitError
	var answer *listings.StatusError
	var broken *listings.TransportError
	var drift *listings.DriftError
	switch {
	case errors.As(err, &waits):
		return ClassWaiting
	case errors.Is(err, ErrHalted):
		return ClassHalted
	case errors.As(err, &answer):
		return classOfStatus(answer)
	case errors.As(err, &broken):
		return classOfBreak(broken)
	case errors.As(err, &drift):
		return ClassDrift
	case errors.Is(err, listings.ErrBodyTooLarge), errors.Is(err, listings.ErrReference):
		return ClassAside
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ClassCanceled
	}
	return ClassFatal
}

func classOfStatus(answer *listings.StatusError) Class {
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ClassRefused
	case http.StatusTooManyRequests:
		return ClassBusy
	case http.StatusServiceUnavailable:
		if RetryAfter(answer) > 0 {
			return ClassBusy
		}
	// The request itself is refused, however often it is sent: a reference that a firewall
	// dislikes, a page too far. Any other status may be about all requests.
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusConflict, http.StatusGone, http.StatusLengthRequired,
		http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusRequestedRangeNotSatisfiable, http.StatusExpectationFailed,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return ClassAside
	}
	return ClassTransient // 5xx, redirects, and what is unexpected
}

func classOfBreak(broken *listings.TransportError) Class {
	if broken.Stage == listings.StageCanceled || errors.Is(broken.Err, context.Canceled) {
		return ClassCanceled
	}
	switch broken.Stage {
	case listings.StageDNS, listings.StageDial, listings.StageRefused, listings.StageTLS:
		return ClassDown
	}
	return ClassTransient // time-outs, resets, cut bodies
}

// WaitError is returned instead of a request for which it is too early. Polls share their workers,
// so they are put back into the schedule rather than waiting there.
type WaitError struct{ Until time.Time }

func (e *WaitError) Error() string { return "too early to ask" }

// RetryAfter is how long the API asked us to wait, in reasonable bounds; zero if it did not.
func RetryAfter(err error) time.Duration {
	status, is := errors.AsType[*listings.StatusError](err)
	if !is || status.RetryAfter <= 0 {
		return 0
	}
	return min(max(status.RetryAfter, time.Second), LongestKeyWait)
}

// RefusedSize says whether the API refused the number of records that was asked for, or answered
// with more than we read.
func RefusedSize(err error) bool {
	return listings.IsRefusedSize(err) || errors.Is(err, listings.ErrBodyTooLarge)
}

// LongestKeyWait bounds how long a key waits, whatever Retry-After says.
const LongestKeyWait = time.Hour
