package poller

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// budget spends the requests per second that we may send to the base URL, over all keys and for everything. It is a
// ceiling: requests are spaced evenly, without bursts, so that no window of time ever holds more. That counts across
// restarts too: the first request waits as if the process before had sent one just before its end. While polls wait, walks
// get at most every third request.
type budget struct {
	ceiling float64       // requests per second
	every   time.Duration // between two requests
	slack   time.Duration // how much of a delay is made up; less than every

	mu    sync.Mutex
	last  time.Time // when the last one was granted, or was due if it was late and that is made up
	polls []waiter
	walks []waiter

	favored map[string]bool // agencies whose next page goes before all polls

	turn   int // polls granted in a row while a walk waited
	spent  uint64
	minute lastMinute // of what was spent
	wake   chan struct{}

	slowed time.Time // when the API asked us to slow down last
	factor float64   // of the ceiling that was left then
	pleas  float64   // share of the last answers that asked for it, smoothed
}

// shortSpacing is what a sleeping goroutine keeps well. Where less lies between two requests, every timer that fires late
// would cost much of the budget, so as much as one interval is made up, never more: two requests may then go together.
// The pace is one request a second less, so that no second ever holds more than it may.
const shortSpacing = 10 * time.Millisecond

func newBudget(perSecond float64) *budget {
	b := &budget{ceiling: perSecond, every: interval(perSecond), last: time.Now(), wake: make(chan struct{}, 1)}
	b.favored = map[string]bool{}
	if b.every < shortSpacing {
		b.slack, b.every = b.every, interval(perSecond-1)
	}
	return b
}

func interval(perSecond float64) time.Duration {
	return time.Duration(math.Ceil(float64(time.Second) / perSecond))
}

// waiter is a request that waits to be sent, of an agency where that matters.
type waiter struct {
	agency  string
	granted chan struct{}
}

// wait blocks until the caller may send one request, or ctx is done.
func (b *budget) wait(ctx context.Context, walk bool) error { return b.waitAs(ctx, walk, "") }

// waitAs is wait for a request of an agency.
func (b *budget) waitAs(ctx context.Context, walk bool, agencyID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	if !walk && b.atOnce() {
		b.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	q := &b.polls
	if walk {
		q = &b.walks
	}
	*q = append(*q, waiter{agencyID, granted})
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

// atOnce grants a poll where one is due and nobody waits: then there is nothing to decide. The caller holds b.mu.
func (b *budget) atOnce() bool {
	if len(b.polls)+len(b.walks) > 0 {
		return false
	}
	now := time.Now()
	if now.Before(b.last.Add(b.spacing(now))) {
		return false
	}
	b.turn++
	b.spend(now)
	return true
}

// leave takes a waiter out of its queue.
func (b *budget) leave(granted chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range []*[]waiter{&b.polls, &b.walks} {
		*q = slices.DeleteFunc(*q, func(w waiter) bool { return w.granted == granted })
	}
}

// run grants until ctx is done. Who gets the next request is decided at the moment it is free, not before.
func (b *budget) run(ctx context.Context) error {
	for {
		now := time.Now()
		if wait := b.until(now); wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			continue // the API may have asked to slow down meanwhile
		}
		if b.grant(now) {
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Where the API asks for patience, the ceiling is halved, and comes back to its whole height within a minute after it asked last.
// A few pleas cost half of it at the most: their key has waited as well. Where more than fewPleas of the answers are one, what is
// sent is too much for the API, and it is halved again and again, down to leastFactor.
const (
	leastFactor  = 1.0 / 16
	fewPleas     = 0.15
	recoversOver = time.Minute
	pleasOver    = 32 // answers that the share of pleas is smoothed over
)

// answered counts an answer, good or not, that asked for patience or did not.
func (b *budget) answered(plea bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pleas -= b.pleas / pleasOver
	if plea {
		b.pleas += 1.0 / pleasOver
	}
}

// slow halves what may be sent. Answers to requests that were sent before the last time say nothing new.
func (b *budget) slow(sent, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sent.After(b.slowed) {
		return
	}
	least := leastFactor
	if b.pleas <= fewPleas {
		least = min(b.share(now), 0.5)
	}
	b.factor = max(b.share(now)/2, least)
	b.slowed = now
}

// resume goes on where the process before had been asked for patience and had no good answer since.
func (b *budget) resume(now time.Time) {
	if b.effective(now) == b.ceiling {
		b.slow(now, now)
	}
}

// share is the part of the ceiling that may be spent now. The caller holds b.mu.
func (b *budget) share(now time.Time) float64 {
	if b.slowed.IsZero() {
		return 1
	}
	return min(b.factor+(1-b.factor)*float64(now.Sub(b.slowed))/float64(recoversOver), 1)
}

// effective is how many requests per second may be sent now: the ceiling, or less where the API asked for patience.
func (b *budget) effective(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ceiling * b.share(now)
}

// spacing is the time between two requests. The caller holds b.mu.
func (b *budget) spacing(now time.Time) time.Duration {
	return time.Duration(float64(b.every) / b.share(now))
}

// until is how long it is to the next request.
func (b *budget) until(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last.Add(b.spacing(now)).Sub(now)
}

// grant lets one of those who wait go, if there is one. The caller has waited until it is due.
func (b *budget) grant(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.polls
	if b.bringForward() || len(b.walks) > 0 && (len(b.polls) == 0 || b.turn >= 2) {
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
	close((*q)[0].granted)
	*q = (*q)[1:]
	b.spend(now)
	return true
}

// spend counts a request that is granted now. The caller holds b.mu.
func (b *budget) spend(now time.Time) {
	b.spent++
	b.minute.add(now)
	b.last = b.last.Add(b.spacing(now))
	if made := now.Add(-b.slack); b.last.Before(made) {
		b.last = made
	}
}

// count is the number of requests granted so far.
func (b *budget) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// lately is the number of requests granted in the last minute.
func (b *budget) lately(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.minute.sum(now)
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

// favor lets the next request of the agency's walk go before all polls, once: the one that waits, or the one that comes.
func (b *budget) favor(agencyID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.favored[agencyID] = true
}

// bringForward puts the request of a favored walk before all others that wait, if there is one. The caller holds b.mu.
func (b *budget) bringForward() bool {
	n := slices.IndexFunc(b.walks, func(w waiter) bool { return b.favored[w.agency] })
	if n < 0 {
		return false
	}
	w := b.walks[n]
	delete(b.favored, w.agency)
	b.walks = slices.Insert(slices.Delete(b.walks, n, n+1), 0, w)
	return true
}
