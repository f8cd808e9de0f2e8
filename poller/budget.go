package poller

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// budget holds the requests per second that we may send to the base URL, over all keys and for everything. It is a ceiling:
// requests are spaced evenly, so that no window of time ever holds more. That counts across restarts too: the first request
// waits as if the process before had sent one just before its end.
//
// A token is taken at the moment of sending, never ahead: a timer that fires late moves all that follows, and makes no burst.
type budget struct {
	ceiling float64 // requests per second
	pace    float64 // of the limiter, while the API does not throttle

	mu      sync.Mutex
	limiter *rate.Limiter
	spent   uint64
	minute  lastMinute // of what was spent

	slowed    time.Time // when the API asked us to slow down last
	factor    float64   // of the ceiling that was left then
	throttled float64   // share of the last answers that asked for it, smoothed
}

// Above so many requests a second, timers that fire late would cost much of the budget. So two requests may go together there, which
// makes up for one late timer; the pace is one request a second less, so that no second ever holds more than the ceiling.
const fastPace = 100

func newBudget(perSecond float64) *budget {
	b := &budget{ceiling: perSecond, pace: perSecond}
	burst := 1
	if perSecond > fastPace {
		b.pace, burst = perSecond-1, 2
	}
	b.limiter = rate.NewLimiter(rate.Limit(b.pace), burst)
	b.limiter.AllowN(time.Now(), burst)
	return b
}

// wait blocks until one request may be sent, or ctx is done, and counts it. It is for who sends one after the other.
func (b *budget) wait(ctx context.Context) error {
	for {
		now := time.Now()
		d := b.until(now)
		if d == 0 && b.take(now) {
			return nil
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

// until is how long it is until a request may be sent; zero: now.
func (b *budget) until(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setPace(now)
	return untilToken(b.limiter, now)
}

// untilToken is how long it is until a limiter has a token. It is rounded up, so that no two requests come too close.
func untilToken(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/float64(l.Limit())*float64(time.Second)) + 1
}

// take counts a request that is sent now, and says whether it may be.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limiter.AllowN(now, 1) {
		return false
	}
	b.spent++
	b.minute.add(now)
	return true
}

// setPace lets the limiter give what the API stands. The caller holds b.mu.
func (b *budget) setPace(now time.Time) {
	b.limiter.SetLimitAt(now, rate.Limit(b.pace*b.share(now)))
}

// Where the API throttles (429, or 503), the ceiling is halved, and comes back to its whole height within a minute after the last
// such answer. A few of them cost half of it at the most: their key has waited as well. Where they are more than tolerated of all,
// what is sent is too much for the API, and the ceiling is halved again and again, down to leastFactor.
const (
	leastFactor  = 1.0 / 16
	tolerated    = 0.15
	recoversOver = time.Minute
	smoothedOver = 32 // answers
)

// answered counts an answer, good or not, that was throttled or was not.
func (b *budget) answered(throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.throttled -= b.throttled / smoothedOver
	if throttled {
		b.throttled += 1.0 / smoothedOver
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
	if b.throttled <= tolerated {
		least = min(b.share(now), 0.5)
	}
	b.factor = max(b.share(now)/2, least)
	b.slowed = now
	b.setPace(now)
}

// resume goes on where the process before was throttled and had no good answer since.
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

// effective is how many requests per second may be sent now: the ceiling, or less where the API throttles.
func (b *budget) effective(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ceiling * b.share(now)
}

// count is the number of requests sent so far.
func (b *budget) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// lately is the number of requests sent in the last minute.
func (b *budget) lately(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.minute.sum(now)
}

// lastMinute counts requests by the second. The zero value has counted none.
type lastMinute [60]struct {
	second int64
	count  int
}

func (m *lastMinute) add(now time.Time) {
	s := &m[now.Unix()%60]
	if s.second != now.Unix() {
		s.second, s.count = now.Unix(), 0
	}
	s.count++
}

func (m *lastMinute) sum(now time.Time) (n int) {
	for _, s := range m {
		if age := now.Unix() - s.second; age >= 0 && age < 60 {
			n += s.count
		}
	}
	return n
}
