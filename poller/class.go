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

// classify is the one table of what errors mean.
func classify(err error) class {
	var status *listings.StatusError
	var transport *listings.TransportError
	var drift *listings.DriftError
	var early *waitError
	switch {
	case err == nil:
		return classNone
	case errors.As(err, &early):
		return classWaiting
	case errors.Is(err, errHalted):
		return classHalted
	case errors.As(err, &status):
		return classifyStatus(status)
	case errors.As(err, &transport):
		return classifyTransport(transport)
	case errors.As(err, &drift):
		return classDrift
	case errors.Is(err, listings.ErrBodyTooLarge):
		return classAside
	case errors.Is(err, listings.ErrReference):
		return classAside
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return classCanceled
	}
	return classFatal
}

func classifyStatus(e *listings.StatusError) class {
	switch e.Status {
	case http.StatusForbidden, http.StatusUnauthorized:
		return classRefused
	case http.StatusTooManyRequests:
		return classBusy
	case http.StatusServiceUnavailable:
		if e.RetryAfter > 0 {
			return classBusy
		}
		return classTransient
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusRequestURITooLong,
		http.StatusUnprocessableEntity, http.StatusRequestedRangeNotSatisfiable:
		return classAside
	}
	return classTransient
}

func classifyTransport(e *listings.TransportError) class {
	if errors.Is(e.Err, context.Canceled) {
		return classCanceled
	}
	switch e.Stage {
	case "dial", "refused", "dns", "tls":
		return classDown
	}
	return classTransient
}
