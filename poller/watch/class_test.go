package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

func TestEveryStatusHasItsClass(t *testing.T) {
	aside := []int{400, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 431}
	for code := 300; code < 600; code++ {
		want := ClassTransient
		switch {
		case code == 401, code == 403:
			want = ClassRefused
		case code == 429:
			want = ClassBusy
		case slices.Contains(aside, code):
			want = ClassAside
		}
		if got := Classify(&listings.StatusError{Status: code}); got != want {
			t.Errorf("%d is %q, want %q", code, got, want)
		}
	}
}

func TestRetryAfterMakesA503BusyAndIsKeptInBounds(t *testing.T) {
	for after, want := range map[time.Duration]struct {
		means Class
		waits time.Duration
	}{
		0:                 {ClassTransient, 0},
		time.Millisecond:  {ClassBusy, time.Second},
		2 * time.Minute:   {ClassBusy, 2 * time.Minute},
		240 * time.Hour:   {ClassBusy, time.Hour},
		time.Duration(-1): {ClassTransient, 0},
	} {
		err := fmt.Errorf("asked: %w", &listings.StatusError{Status: 503, RetryAfter: after})
		if class, waits := Classify(err), RetryAfter(err); class != want.means || waits != want.waits {
			t.Errorf("503 with Retry-After %s is %q and waits %s, want %+v", after, class, waits, want)
		}
	}
}

func TestEveryErrorHasItsClass(t *testing.T) {
	broken := func(stage string) error { return &listings.TransportError{Stage: stage, Err: errors.New("x")} }
	for want, errs := range map[Class][]error{
		ClassNone:      {nil},
		ClassDown:      {broken(listings.StageDNS), broken(listings.StageDial), broken(listings.StageRefused), broken(listings.StageTLS)},
		ClassTransient: {broken(listings.StageTimeout), broken(listings.StageRead)},
		ClassDrift:     {&listings.RequestError{Err: &listings.DriftError{}}},
		ClassCanceled: {
			context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded), broken(listings.StageCanceled),
			&listings.TransportError{Stage: listings.StageDial, Err: context.Canceled},
		},
		ClassHalted:  {&listings.RequestError{Err: ErrHalted}},
		ClassWaiting: {&listings.RequestError{Err: &WaitError{}}},
		ClassAside:   {&listings.RequestError{Err: listings.ErrReference}, &listings.RequestError{Err: listings.ErrBodyTooLarge}},
		ClassFatal:   {errors.New("something else"), store.ErrUnknownOutcome, store.ErrNoSpace, store.ErrDamaged},
	} {
		for _, err := range errs {
			if got := Classify(err); got != want {
				t.Errorf("%v is %q, want %q", err, got, want)
			}
		}
	}
}
