package poller

import (
	"context"
	"slices"
	"sync"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

// dispatcher decides what is sent: it waits for a token of the budget, chooses the request that gets it, and sends that at once if it
// is admitted; else the token is kept for the next one. To choose last is to choose by all that is known.
//
// Pages of walks, further questions of a poll and what is sent again wait here, in order; polls are chosen from the schedule
// when their token is there, as long as not too many are under way. While polls wait, walks get at most every third request.
type dispatcher struct {
	budget    *budget
	scheduler *scheduler
	alive     *heartbeat
	most      int         // polls under way
	full      func() bool // the store has no room for what a response may bring

	mu       sync.Mutex
	waiting  []*waiter
	polls    int           // sent since the last page
	underWay int           // polls of the schedule
	chosen   schedule.Turn // given to a poll that has not asked yet
	chosenAt time.Time
}

// waiter is a request that waits to be sent.
type waiter struct {
	request listings.Request
	admit   func(time.Time) error
	granted chan error
}

func (w *waiter) isWalk() bool { return w.request.Operation == listings.OperationInsertions }

const (
	mostPolls = 64          // under way: what hangs backs off by itself
	roomEvery = time.Second // a full store is looked at
	startsIn  = time.Second // is the time in which a poll that was chosen should ask
)

func newDispatcher(b *budget, t *scheduler, alive *heartbeat) *dispatcher {
	return &dispatcher{budget: b, scheduler: t, alive: alive, most: mostPolls, full: func() bool { return false }}
}

// wait blocks until the request is to be sent now, or ctx is done. Its error is that of admit, which is asked immediately
// before and must not wait; nil admits always.
func (d *dispatcher) wait(ctx context.Context, r listings.Request, admit func(time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{r, admit, make(chan error, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, w)
	if d.chosen.Agency == r.AgencyID && d.chosen.Reference == r.Reference {
		d.chosen = schedule.Turn{}
	}
	d.mu.Unlock()
	d.scheduler.poke()
	select {
	case err := <-w.granted:
		return err
	case <-ctx.Done():
	}
	d.mu.Lock()
	n := slices.Index(d.waiting, w)
	if n >= 0 {
		d.waiting = slices.Delete(d.waiting, n, n+1)
	}
	d.mu.Unlock()
	if n >= 0 {
		return ctx.Err()
	}
	return <-w.granted // was just being decided
}

// run sends until ctx is done. begin starts what is chosen from the schedule, without waiting for it; who was given an insertion
// calls end.
func (d *dispatcher) run(ctx context.Context, begin func(schedule.Turn)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
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
		w, t, wait := d.choose(now)
		switch {
		case w != nil:
			w.granted <- d.send(w, now)
		case t.Why != schedule.None:
			begin(t)
		default:
			d.idle(ctx, timer, wait)
		}
	}
	return ctx.Err()
}

// idle waits until somebody wakes it or a time is over, at most a minute; zero: nobody knows how long it takes.
func (d *dispatcher) idle(ctx context.Context, timer *time.Timer, wait time.Duration) {
	if wait == 0 || wait > time.Minute {
		wait = time.Minute
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
	case <-d.scheduler.nudge:
	case <-ctx.Done():
	}
}

// choose says who gets the token that there is: a request that waits or a turn of the schedule; else how long to wait.
func (d *dispatcher) choose(now time.Time) (w *waiter, t schedule.Turn, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	page := slices.IndexFunc(d.waiting, (*waiter).isWalk)
	if page >= 0 && d.polls >= 2 {
		return d.pop(page), t, 0
	}
	if poll := slices.IndexFunc(d.waiting, func(w *waiter) bool { return !w.isWalk() }); poll >= 0 {
		return d.pop(poll), t, 0
	}
	if starts := d.chosenAt.Add(startsIn).Sub(now); d.chosen.Why != schedule.None && starts > 0 {
		return nil, t, starts
	}
	if d.underWay < d.most {
		t, wait = d.scheduler.next(now)
		if t.Why != schedule.None {
			d.underWay++
			d.chosen, d.chosenAt = t, now
			return nil, t, 0
		}
	}
	if page >= 0 {
		return d.pop(page), t, 0
	}
	return nil, t, wait
}

// pop takes out one of those that wait. The caller holds d.mu.
func (d *dispatcher) pop(n int) *waiter {
	w := d.waiting[n]
	d.waiting = slices.Delete(d.waiting, n, n+1)
	return w
}

// send admits a request and takes the token for it.
func (d *dispatcher) send(w *waiter, now time.Time) error {
	if w.admit != nil {
		if err := w.admit(now); err != nil {
			return err
		}
	}
	d.budget.take(now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.polls++; w.isWalk() {
		d.polls = 0
	}
	return nil
}

// end says that what was chosen from the schedule is over.
func (d *dispatcher) end(t schedule.Turn) {
	d.mu.Lock()
	d.underWay--
	if d.chosen == t {
		d.chosen = schedule.Turn{}
	}
	d.mu.Unlock()
	d.scheduler.poke()
}
