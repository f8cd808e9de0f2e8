package poller

import (
	"context"
	"sync"
	"time"
)

// budget spends the requests per second that we may send to the base URL, over all keys and for everything. It is a
// ceiling: requests are spaced evenly, without bursts, so that no window of time ever holds more. While polls wait,
// walks get at most every third request.
type budget struct {
	every time.Duration

	mu    sync.Mutex
	polls []chan struct{}
	walks []chan struct{}
	turn  int // polls granted in a row while a walk waited
	spent uint64
	wake  chan struct{}

	slowed time.Time // when the API asked us to slow down last
	factor float64   // of the ceiling that was left then
}

func newBudget(perSecond float64) *budget {
	return &budget{every: time.Duration(float64(time.Second) / perSecond), wake: make(chan struct{}, 1)}
}

// wait blocks until the caller may send one request, or ctx is done.
func (b *budget) wait(ctx context.Context, walk bool) error {
	granted := make(chan struct{})
	b.mu.Lock()
	if walk {
		b.walks = append(b.walks, granted)
	} else {
		b.polls = append(b.polls, granted)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		b.leave(granted)
		return ctx.Err()
	}
}

// leave takes a waiter out of its queue.
func (b *budget) leave(granted chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range []*[]chan struct{}{&b.polls, &b.walks} {
		for i, w := range *q {
			if w == granted {
				*q = append((*q)[:i:i], (*q)[i+1:]...)
				return
			}
		}
	}
}

// run grants until ctx is done. Who gets the next request is decided at the moment it is free, not before.
func (b *budget) run(ctx context.Context) error {
	for {
		if !b.grant() {
			select {
			case <-b.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := sleep(ctx, b.spacing(time.Now())); err != nil {
			return err
		}
	}
}

// Where the API asks for patience, the ceiling is halved, down to a sixteenth, and comes back to its whole height within
// ten minutes at the most.
const (
	leastFactor  = 1.0 / 16
	recoversOver = 10 * time.Minute
)

// slow halves what may be sent. Answers to requests that were sent before the last time say nothing new.
func (b *budget) slow(sent, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sent.After(b.slowed) {
		return
	}
	b.factor = max(b.share(now)/2, leastFactor)
	b.slowed = now
}

// share is the part of the ceiling that may be spent now. The caller holds b.mu.
func (b *budget) share(now time.Time) float64 {
	if b.slowed.IsZero() {
		return 1
	}
	return min(b.factor+float64(now.Sub(b.slowed))/float64(recoversOver), 1)
}

// spacing is the time between two requests.
func (b *budget) spacing(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(float64(b.every) / b.share(now))
}

func (b *budget) grant() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.polls
	if len(b.walks) > 0 && (len(b.polls) == 0 || b.turn >= 2) {
		q = &b.walks
	}
	if len(*q) == 0 {
		return false
	}
	if q == &b.walks {
		b.turn = 0
	} else {
		b.turn++
	}
	close((*q)[0])
	*q = (*q)[1:]
	b.spent++
	return true
}

// count is the number of requests granted so far.
func (b *budget) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

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
