package poller

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"doorbell/store"
)

// patience is the back-off of one thing that fails: an insertion, an operation of an agency, a key, the base URL. It
// counts failures in a row and says when to try again; after a failure requests go one at a time, until one succeeds.
//
// Answers come in another order than their questions were sent. What was sent before the last failure says nothing about
// what came after it: it neither ends the back-off nor lengthens it. Safe for concurrent use. A nil one has not failed.
type patience struct {
	mu       sync.Mutex
	delays   *backoff.ExponentialBackOff // made at the first failure: most things never fail
	first    time.Duration
	longest  time.Duration
	failures int
	since    time.Time // the first of them
	failedAt time.Time
	until    time.Time
	probe    time.Time // when the one that may try was let go; zero: nobody was
	last     string    // what failed last
}

func newPatience(first, longest time.Duration) *patience {
	return &patience{first: first, longest: longest}
}

// delay is how long to wait after one more failure. The caller holds p.mu.
func (p *patience) delay() time.Duration {
	if p.delays == nil {
		p.delays = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(min(p.first, p.longest)),
			backoff.WithMaxInterval(p.longest),
			backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(0.2),
			backoff.WithMaxElapsedTime(0), // never give up
		)
	}
	return p.delays.NextBackOff()
}

// failed counts a failure of what, of a request that was sent at a moment, and returns when to try again.
func (p *patience) failed(what string, sent, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 && !sent.After(p.failedAt) {
		return p.until
	}
	if p.failures == 0 {
		p.since = now
	}
	p.failures++
	p.last, p.failedAt, p.probe = what, now, time.Time{}
	p.until = now.Add(p.delay())
	return p.until
}

// begged counts a failure of who says when to come back, after wait, whatever the back-off says; zero: nothing was said. An
// answer that was under way when another one begged may only lengthen the wait.
func (p *patience) begged(sent, now time.Time, wait time.Duration) {
	p.mu.Lock()
	underWay := p.failures > 0 && !sent.After(p.failedAt)
	p.mu.Unlock()
	p.failed("", sent, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(wait); wait > 0 && (!underWay || until.After(p.until)) {
		p.until = until
	}
}

// succeeded ends the back-off, and says whether it did.
func (p *patience) succeeded(sent time.Time) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 || !sent.After(p.failedAt) {
		return false
	}
	p.failures, p.since, p.until, p.failedAt, p.probe, p.last = 0, time.Time{}, time.Time{}, time.Time{}, time.Time{}, ""
	p.delays = nil
	return true
}

// manyFailures bounds how far a restored back-off is wound forward; it is at its longest long before.
const manyFailures = 32

// restore goes on where a process before this one was. A moment that is implausibly far away, because a clock jumped, is
// not waited for.
func (p *patience) restore(t store.Trouble, now time.Time, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Failures <= 0 || p.failures > 0 && !t.Until.After(p.until) {
		return
	}
	p.delays = nil
	p.failures, p.since, p.failedAt, p.probe, p.last = t.Failures, t.Since, now, time.Time{}, t.Last
	if t.Until.Before(now) { // the failure was before that; what was answered since is news
		p.failedAt = t.Until
	}
	for range min(t.Failures, manyFailures) {
		p.delay()
	}
	if p.until = t.Until; p.until.After(now.Add(longest)) {
		p.until = now.Add(longest)
	}
}

// trouble is what a restart must know; without failures there is none.
func (p *patience) trouble(scope, name string) (t store.Trouble, failing bool) {
	if p == nil {
		return store.Trouble{Scope: scope, Name: name}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return store.Trouble{
		Scope: scope, Name: name, Failures: p.failures, Since: p.since.UTC().Round(0), Until: p.until.UTC().Round(0), Last: p.last,
	}, p.failures > 0
}

// admit says whether a request may go now, and if not, how long to wait before asking again. Whoever is admitted must
// report: failed, succeeded or dismissed.
func (p *patience) admit(now time.Time) (ticket time.Time, wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case now.Before(p.until):
		return ticket, p.until.Sub(now), false
	case p.failures == 0:
		return ticket, 0, true
	case !p.probe.IsZero():
		return ticket, time.Second, false
	}
	p.probe = now
	return now, 0, true
}

// valid says whether who was admitted with a ticket still is: nothing has failed since, or the ticket is the one try.
func (p *patience) valid(ticket time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures == 0 || !ticket.IsZero() && p.probe.Equal(ticket)
}

// failedSince says whether something has failed since a moment, and until when to wait then.
func (p *patience) failedSince(moment time.Time) (until time.Time, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until, p.failures > 0 && p.failedAt.After(moment)
}

// release gives back the ticket of a request that was not sent.
func (p *patience) release(ticket time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe.Equal(ticket) {
		p.probe = time.Time{}
	}
}

// dismissed ends a try that told nothing, of a request that was sent, or would have been, at a moment.
func (p *patience) dismissed(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probe.IsZero() && !sent.Before(p.probe) {
		p.probe = time.Time{}
	}
}

// state returns the failures in a row, what failed last and when the next try is due.
func (p *patience) state() (failures int, last string, until time.Time) {
	if p == nil {
		return 0, "", time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures, p.last, p.until
}
