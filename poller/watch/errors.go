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
	ClassDrift     Class = "drift"     // an answer that is not what it should be
	ClassCanceled  Class = "canceled"  // we are stopping
	ClassFatal     Class = "fatal"     // not the API's doing: the process ends
)

// ErrHalted is returned instead of a request for a scope that is halted.
var ErrHalted = errors.New("halted")

// rows is the one table of what errors mean; the first row that fits counts.
var rows = []struct {
	fits  func(error) bool
	means Class
}{
	{func(err error) bool { return err == nil }, ClassNone},
	{is[*WaitError], ClassWaiting},
	{isError(ErrHalted), ClassHalted},

	{Status(http.StatusUnauthorized, http.StatusForbidden), ClassRefused},
	{Status(http.StatusTooManyRequests), ClassBusy},
	{busy, ClassBusy},
	// What was asked does not please, whoever asks and however often: a reference that a firewall dislikes, a page too far.
	{Status(
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusGone, http.StatusLengthRequired, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable,
		http.StatusExpectationFailed, http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge,
	), ClassAside},
	{is[*listings.StatusError], ClassTransient}, // 5xx, redirects, and what nobody expects

	{stage(listings.StageCanceled), ClassCanceled},
	{stage(listings.StageDNS, listings.StageDial, listings.StageRefused, listings.StageTLS), ClassDown},
	{is[*listings.TransportError], ClassTransient}, // time-outs, resets, cut bodies

	{is[*listings.DriftError], ClassDrift},
	{isError(listings.ErrBodyTooLarge), ClassAside},
	{isError(listings.ErrReference), ClassAside},
	{isError(context.Canceled), ClassCanceled},
	{isError(context.DeadlineExceeded), ClassCanceled},
}

// Classify looks an error up in the table. What is not there is our own doing, or the store's.
func Classify(err error) Class {
	for _, row := range rows {
		if row.fits(err) {
			return row.means
		}
	}
	return ClassFatal
}

func is[T error](err error) bool {
	var wanted T
	return errors.As(err, &wanted)
}

func isError(wanted error) func(error) bool {
	return func(err error) bool { return errors.Is(err, wanted) }
}

func Status(codes ...int) func(error) bool {
	return func(err error) bool {
		var answer *listings.StatusError
		if !errors.As(err, &answer) {
			return false
		}
		for _, code := range codes {
			if answer.Status == code {
				return true
			}
		}
		return false
	}
}

// busy is a service that says when it wants to be asked again.
func busy(err error) bool {
	return Status(http.StatusServiceUnavailable)(err) && RetryAfter(err) > 0
}

func stage(stages ...string) func(error) bool {
	return func(err error) bool {
		var broken *listings.TransportError
		if !errors.As(err, &broken) {
			return false
		}
		for _, s := range stages {
			if broken.Stage == s {
				return true
			}
		}
		return errors.Is(broken.Err, context.Canceled) && stages[0] == listings.StageCanceled
	}
}

// WaitError is returned instead of a request for which it is too early. Polls share their workers, so they are put back
// into the schedule rather than waiting there.
type WaitError struct{ Until time.Time }

func (e *WaitError) Error() string { return "too early to ask" }

// RetryAfter is how long the API asked us to wait, in reasonable bounds; zero if it did not.
func RetryAfter(err error) time.Duration {
	var status *listings.StatusError
	if !errors.As(err, &status) || status.RetryAfter <= 0 {
		return 0
	}
	return min(max(status.RetryAfter, time.Second), LongestKeyWait)
}

// RefusedSize says whether the API refused the number of records that was asked for, or answered with more than we read.
func RefusedSize(err error) bool {
	return listings.IsRefusedSize(err) || errors.Is(err, listings.ErrBodyTooLarge)
}

// LongestKeyWait bounds how long a key waits, whatever Retry-After says.
const LongestKeyWait = time.Hour
