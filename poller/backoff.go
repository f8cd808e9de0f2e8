package poller

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"doorbell/poller/watch"
)

// backoff is a watch.Backoff that all share whom it makes wait. A nil one has not failed.
type backoff struct {
	mu sync.Mutex
	is watch.Backoff
}

func newBackoff(first, longest time.Duration) *backoff {
	return &backoff{is: watch.NewBackoff(first, longest)}
}

func (b *backoff) state() watch.Backoff {
	return b.change(func(b watch.Backoff) watch.Backoff { return b })
}

func (b *backoff) change(to func(watch.Backoff) watch.Backoff) watch.Backoff {
	if b == nil {
		return watch.Backoff{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.is = to(b.is)
	return b.is
}

// failed counts a failure, and returns when to try again.
func (b *backoff) failed(what string, sent, now time.Time) time.Time {
	return b.change(func(b watch.Backoff) watch.Backoff { return b.Failed(what, sent, now) }).Until
}

// succeeded says whether a success has ended the back-off.
func (b *backoff) succeeded(sent time.Time) (ended bool) {
	b.change(func(b watch.Backoff) watch.Backoff {
		after := b.Succeeded(sent)
		ended = after.Failures < b.Failures
		return after
	})
	return ended
}

func (b *backoff) try(now time.Time) {
	b.change(func(b watch.Backoff) watch.Backoff { return b.Probed(now) })
}

func (b *backoff) dismissed(sent time.Time) {
	b.change(func(b watch.Backoff) watch.Backoff { return b.Dismissed(sent) })
}

// keyBackoff is what a key waits for, by its fingerprint.
func (p *Poller) keyBackoff(name string) *backoff {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[name] == nil {
		p.keys[name] = newBackoff(time.Second, watch.LongestKeyWait)
	}
	return p.keys[name]
}

// jitter spreads an interval by a tenth, so that agencies do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + rand.N(d/10+1)
}

// operationLimit is how many different insertions must fail in a row before the whole operation backs off.
const operationLimit = 3

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
