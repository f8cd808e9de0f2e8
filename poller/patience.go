package poller

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// patience is the back-off of one thing that fails: an insertion, an operation of an agency, the base URL. It counts
// failures in a row and says when to try again. Safe for concurrent use.
type patience struct {
	mu       sync.Mutex
	delays   *backoff.ExponentialBackOff
	failures int
	until    time.Time
	probing  bool
	last     string // what failed last
}

func newPatience(first, longest time.Duration) *patience {
	return &patience{delays: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0), // never give up
	)}
}

// failed counts a failure of what and returns the moment of the next try.
func (p *patience) failed(what string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = false
	p.last = what
	p.failures++
	p.until = now.Add(p.delays.NextBackOff())
	return p.until
}

// notBefore makes the next try wait at least until t.
func (p *patience) notBefore(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.After(p.until) {
		p.until = t
	}
}

// succeeded ends the back-off and says whether there was one.
func (p *patience) succeeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.failures > 0
	p.failures, p.until, p.probing, p.last = 0, time.Time{}, false, ""
	p.delays.Reset()
	return was
}

// admit says whether a request may go now, and if not, how long to wait before asking again. After a failure requests go
// one at a time, until one succeeds.
func (p *patience) admit(now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case now.Before(p.until):
		return p.until.Sub(now), false
	case p.failures == 0:
		return 0, true
	case p.probing:
		return time.Second, false
	}
	p.probing = true
	return 0, true
}

// dismissed ends a probe that told nothing.
func (p *patience) dismissed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = false
}

// state returns the failures in a row, what failed last and when the next try is due.
func (p *patience) state() (failures int, last string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures, p.last, p.until
}
