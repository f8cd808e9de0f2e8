package poller

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

// dispatcher decides what is sent: it waits for a token of the budget, then chooses the request
// that gets it, and sends that immediately if it is admitted. It chooses as late as possible, so as
// to know as much as possible.
//
// Pages of walks, further requests of a poll and retries wait here, in order. Polls are chosen from
// the schedule when there is a token, unless too many are under way; the token is for the first
// request of the one that is chosen, so the dispatcher waits for that. While polls wait, walks get
// at most every third request. An insertion that a person has named goes before all of these,
// though never for two requests in a row.
type dispatcher struct {
	budget   *budget
	schedule *schedule.Schedule
	nudge    chan struct{} // there may be something to do
	started  chan struct{} // the chosen poll has sent its first request, or has ended
	alive    *heartbeat
	full     func() bool // the store has no room for what a response may bring

	mu       sync.Mutex
	pages    []*waiter     // of walks
	requests []*waiter     // further ones of polls, and retries
	polls    int           // sent since the last page
	underWay int           // polls of the schedule
	chosen   schedule.Turn // of the poll that is to send its first request now
	wasNamed bool          // the last turn was of an insertion that a person has named
}

// waiter is a request that waits to be sent.
type waiter struct {
	request listings.Request
	admit   func(time.Time) error
	granted chan error
}

const (
	mostPolls = 64          // under way at once; polls that hang back off by themselves
	roomEvery = time.Second // how often a full store is checked for room
	startsIn  = time.Second // how long nothing else is sent for a poll that was chosen
)

func newDispatcher(b *budget, o schedule.Options, alive *heartbeat) *dispatcher {
	d := &dispatcher{
		budget: b, nudge: make(chan struct{}, 1), started: make(chan struct{}, 1), alive: alive,
		full: func() bool { return false },
	}
	o.Changed = d.poke
	d.schedule = schedule.New(o, time.Now())
	return d
}

// poke wakes the dispatcher if it is idle.
func (d *dispatcher) poke() { wake(d.nudge) }

// wait blocks until the request is to be sent now, or ctx is done. Its error is that of admit,
// which is called immediately before and must not block.
func (d *dispatcher) wait(ctx context.Context, r listings.Request, admit func(time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{request: r, admit: admit, granted: make(chan error, 1)}
	d.enqueue(w)
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := d.queueOf(w)
	if n := slices.Index(*queue, w); n >= 0 {
		*queue = slices.Delete(*queue, n, n+1)
		return ctx.Err()
	}
	return <-w.granted // it was decided at the same moment
}

// queueOf is where a request waits.
func (d *dispatcher) queueOf(w *waiter) *[]*waiter {
	if w.request.Operation == listings.OperationInsertions {
		return &d.pages
	}
	return &d.requests
}

// enqueue has a request wait, unless it is the first one of the poll that was chosen: that has the
// token, which is spent now.
func (d *dispatcher) enqueue(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	turn := schedule.Turn{Agency: w.request.AgencyID, Reference: w.request.Reference}
	if turn == d.chosen {
		w.granted <- d.send(w, time.Now())
		d.unchoose(turn)
		return
	}
	queue := d.queueOf(w)
	*queue = append(*queue, w)
	d.poke()
}

// run sends until ctx is done. begin starts a poll that was chosen from the schedule, without
// waiting for it. The poll calls end when it is over.
func (d *dispatcher) run(ctx context.Context, begin func(schedule.Turn)) error {
	for ctx.Err() == nil {
		d.alive.beat()
		if d.full() {
			_ = sleep(ctx, roomEvery)
			continue
		}
		now := time.Now()
		if wait := d.budget.until(now); wait > 0 {
			_ = sleep(ctx, min(wait, time.Minute)) // the API may have asked to slow down meanwhile
			continue
		}
		switch t, sent, wait := d.choose(now); {
		case sent:
		case t != schedule.None:
			begin(t)
			_ = await(ctx, d.started, startsIn)
			d.mu.Lock()
			d.unchoose(t)
			d.mu.Unlock()
		case wait == 0 || wait > time.Minute:
			_ = await(ctx, d.nudge, time.Minute)
		default:
			_ = await(ctx, d.nudge, wait)
		}
	}
	return ctx.Err()
}

// choose spends the token: it sends a waiting request, or returns a turn of the schedule. If there
// is neither, it returns how long to wait; zero: the time is unknown.
func (d *dispatcher) choose(now time.Time) (t schedule.Turn, sent bool, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	room := d.underWay < mostPolls
	if d.wasNamed = room && !d.wasNamed; d.wasNamed {
		t = d.schedule.NextNudge(now)
		d.wasNamed = t != schedule.None
	}
	switch {
	case d.wasNamed:
	case len(d.pages) > 0 && d.polls >= 2:
		d.grant(&d.pages, now)
		return t, true, 0
	case len(d.requests) > 0:
		d.grant(&d.requests, now)
		return t, true, 0
	case room:
		t, wait = d.schedule.Next(now)
	}
	switch {
	case t != schedule.None:
		d.underWay++
		d.chosen = t
	case len(d.pages) > 0:
		d.grant(&d.pages, now)
		return t, true, 0
	}
	return t, false, wait
}

// grant ends the wait of the first request of a queue. The caller holds d.mu, as does that of send
// and of unchoose.
func (d *dispatcher) grant(queue *[]*waiter, now time.Time) {
	w := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	w.granted <- d.send(w, now)
}

// send spends the token on a request if that is admitted.
func (d *dispatcher) send(w *waiter, now time.Time) error {
	if err := w.admit(now); err != nil {
		return err
	}
	d.budget.take(now)
	if d.polls++; w.request.Operation == listings.OperationInsertions {
		d.polls = 0
	}
	return nil
}

// unchoose ends the wait for the chosen poll, if it still is the one.
func (d *dispatcher) unchoose(t schedule.Turn) {
	if d.chosen == t {
		d.chosen = schedule.None
		wake(d.started)
	}
}

// end ends a poll that was chosen from the schedule.
func (d *dispatcher) end(t schedule.Turn) {
	d.mu.Lock()
	d.unchoose(t) // it did not come to a request
	d.underWay--
	d.mu.Unlock()
	d.poke()
}

// urge has insertions polled soon whose records have changed, because a change may accompany a
// contact request. If more than a twentieth of all records change in a walk, that is no such sign.
func (w *walk) urge(changed []string) {
	w.a.mu.Lock()
	left := (w.a.known+19)/20 - w.edits
	w.a.mu.Unlock()
	w.edits += len(changed)
	w.a.p.schedule.Urge(w.a.id, changed[:min(max(left, 0), len(changed))]...)
}

// budget limits the requests per second to the base URL, for all keys and operations together. It
// is a ceiling: requests are spaced evenly, so that no window of time ever contains more. That
// includes restarts: the first request waits as if the process before had sent one just before it
// ended.
//
// A token is taken at the moment of sending, never ahead: a timer that fires late delays everything
// after it, and makes no burst.
type budget struct {
	ceiling float64 // requests per second

	mu      sync.Mutex
	limiter *rate.Limiter
	spent   uint64
	minute  lastMinute // of what was spent

	slowed time.Time // when the API last asked us to slow down
}

func newBudget(perSecond float64) *budget {
	b := &budget{ceiling: perSecond, limiter: rate.NewLimiter(rate.Limit(perSecond), 1)}
	b.limiter.Allow()
	return b
}

// until returns how long to wait before a request may be sent; zero: now.
func (b *budget) until(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setPace(now)
	missing := 1 - b.limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	// Rounded up, so that no two requests come too close.
	return time.Duration(missing/float64(b.limiter.Limit())*float64(time.Second)) + 1
}

// take spends a token on a request, and reports whether there was one.
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

// setPace sets the limiter to the share of the ceiling that may be spent now. The caller holds
// b.mu.
func (b *budget) setPace(now time.Time) {
	b.limiter.SetLimitAt(now, rate.Limit(b.ceiling*b.share(now)))
}

// slowFor is how long the rate is halved after the API asked us to slow down.
const slowFor = 10 * time.Minute

// slow halves what may be sent for a while, because the API asked for it.
func (b *budget) slow(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slowed = now
	b.setPace(now)
}

// share returns the part of the ceiling that may be spent now. The caller holds b.mu.
func (b *budget) share(now time.Time) float64 {
	if b.slowed.IsZero() || now.Sub(b.slowed) >= slowFor {
		return 1
	}
	return 0.5
}

// effective returns how many requests per second may be sent now: the ceiling, or less if the API
// throttles.
func (b *budget) effective(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ceiling * b.share(now)
}

// count returns the number of requests sent so far.
func (b *budget) count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// lately returns the number of requests sent in the last minute.
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
