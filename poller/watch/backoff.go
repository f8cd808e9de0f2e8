package watch

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff is how one thing fails: an insertion, an operation of an agency, a key, the base URL. It
// counts failures in a row and says when to try again. It is a value: what a response makes of it
// is another one.
//
// Answers come in another order than their questions were sent. What was sent before the last
// failure says nothing about what came after it: it neither ends the back-off nor lengthens it.
type Backoff struct {
	first, longest time.Duration

	Failures int       // in a row
	Since    time.Time // the first of them
	Until    time.Time // nothing is asked before
	Last     string    // what failed last

	failedAt time.Time
}

// NewBackoff has not failed. It waits for first after one failure, and for longest after many.
func NewBackoff(first, longest time.Duration) Backoff { return Backoff{first: first, longest: longest} }

// Failed is the back-off after a failure of what, of a request that was sent at a moment.
func (b Backoff) Failed(what string, sent, now time.Time) Backoff {
	if b.underWay(sent) {
		return b
	}
	if b.Failures == 0 {
		b.Since = now
	}
	b.Failures++
	b.Last, b.failedAt = what, now
	b.Until = now.Add(Delay(b.first, b.longest, b.Failures))
	return b
}

// underWay says whether what was sent at a moment was on its way at the last failure.
func (b Backoff) underWay(sent time.Time) bool { return b.Failures > 0 && !sent.After(b.failedAt) }

// Throttled is the back-off after a 429 or 503, which wins where it says how long to wait; zero: it
// does not. A response that was under way at another one may only lengthen the wait.
func (b Backoff) Throttled(sent, now time.Time, wait time.Duration) Backoff {
	underWay := b.underWay(sent)
	b = b.Failed("", sent, now)
	if until := now.Add(wait); wait > 0 && (!underWay || until.After(b.Until)) {
		b.Until = until
	}
	return b
}

// Succeeded is the back-off after a success: over, unless that was under way at the last failure.
func (b Backoff) Succeeded(sent time.Time) Backoff {
	if b.underWay(sent) {
		return b
	}
	return NewBackoff(b.first, b.longest)
}

// Wait is how long a request must wait before it may go; zero: it may go now.
func (b Backoff) Wait(now time.Time) time.Duration { return max(b.Until.Sub(now), 0) }

// Delay is how long to wait after a number of failures in a row: twice as long each time, up to the
// longest, and a fifth more or less.
func Delay(first, longest time.Duration, failures int) (d time.Duration) {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(first, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0), // never give up
	)
	for range min(failures, 32) { // it is at its longest long before
		d = b.NextBackOff()
	}
	return d
}
