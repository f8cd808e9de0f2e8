package poller

import (
	"context"
	"errors"
	"net/http"

	"doorbell/poller/listings"
)

// class is what an error means for what we do next.
type class string

const (
	classNone      class = ""
	classTransient class = "transient" // try again later, with patience
	classAside     class = "set aside" // this insertion or page alone waits
	classBusy      class = "busy"      // the API asks us to slow down: the key waits
	classDown      class = "down"      // nobody answers at the base URL: everything waits
	classRefused   class = "halt"      // 403 or 401: stop asking
	classHalted    class = "halted"    // we had stopped asking
	classWaiting   class = "waiting"   // it is too early to ask
	classDrift     class = "drift"     // an answer that is not what it should be
	classCanceled  class = "canceled"  // we are stopping
	classFatal     class = "fatal"     // not the API's doing: the process ends
)

// errHalted is returned instead of a request for a scope that is halted.
var errHalted = errors.New("halted")

// rows is the one table of what errors mean; the first row that fits counts.
var rows = []struct {
	fits  func(error) bool
	means class
}{
	{func(err error) bool { return err == nil }, classNone},
	{is[*waitError], classWaiting},
	{isError(errHalted), classHalted},

	{status(http.StatusUnauthorized, http.StatusForbidden), classRefused},
	{status(http.StatusTooManyRequests), classBusy},
	{busy, classBusy},
	// What was asked does not please, whoever asks and however often: a reference that a firewall dislikes, a page too far.
	{status(
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusGone, http.StatusLengthRequired, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable,
		http.StatusExpectationFailed, http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge,
	), classAside},
	{is[*listings.StatusError], classTransient}, // 5xx, redirects, and what nobody expects

	{stage(listings.StageCanceled), classCanceled},
	{stage(listings.StageDNS, listings.StageDial, listings.StageRefused, listings.StageTLS), classDown},
	{is[*listings.TransportError], classTransient}, // time-outs, resets, cut bodies

	{is[*listings.DriftError], classDrift},
	{isError(listings.ErrBodyTooLarge), classAside},
	{isError(listings.ErrReference), classAside},
	{isError(context.Canceled), classCanceled},
	{isError(context.DeadlineExceeded), classCanceled},
}

// classify looks an error up in the table. What is not there is our own doing, or the store's.
func classify(err error) class {
	for _, row := range rows {
		if row.fits(err) {
			return row.means
		}
	}
	return classFatal
}

func is[T error](err error) bool {
	var wanted T
	return errors.As(err, &wanted)
}

func isError(wanted error) func(error) bool {
	return func(err error) bool { return errors.Is(err, wanted) }
}

func status(codes ...int) func(error) bool {
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
	return status(http.StatusServiceUnavailable)(err) && retryAfter(err) > 0
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
