package relay

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"doorbell/events"

	"golang.org/x/sync/semaphore"
)

// worker publishes the events of one agency.
type worker struct {
	r       *Relay
	agency  string
	token   string
	filter  string
	poked   chan struct{} // capacity 1
	running bool          // guarded by Relay.mu

	working   chan struct{}  // capacity 1; full while somebody works on the worker, who may be resting: see lock
	synced    uint64         // number of the session in which log and stream were found in line; 0: something has failed since
	created   time.Time      // of the stream, at the last reconcile
	cursor    events.Cursor  // while reconciling, what the next commit moves that of the log to
	fence     uint64         // place of the agency's last message in the stream, whoever wrote it
	most      int            // events in one batch
	arrived   []events.Event // unsent ones that reconciling has found in the stream, not committed yet
	unsent    []events.Event // the next ones, as reconciling has read them
	page      []events.Event // what reconciling has found in the stream and the log does not have, not committed yet
	pageBytes int
	taken     int // events of others that reconciling has imported
	repair    repair
	foreign   foreign
	imported  imported
	reported  time.Time // when what others have written was reported last
	fenced    bool      // something was written since our last message
	warned    time.Time // when the log last said that another doorbell publishes the agency
	failures  int       // in a row
	said      string    // the failure that is in the log as the last one; empty: it ended

	shown  sync.Mutex
	status AgencyStatus
}

// repair is what has been sent again of what the stream lacks.
type repair struct {
	from, to uint64
	sent     int
}

// foreign are messages that are not ours.
type foreign struct {
	seen  uint64 // highest place in the stream that was counted
	count int    // not reported yet
}

func newWorker(r *Relay, agency string) *worker {
	return &worker{
		r: r, agency: agency, token: events.Token(agency), filter: events.AgencyFilter(r.o.Prefix, agency),
		poked: make(chan struct{}, 1), working: make(chan struct{}, 1), most: r.o.BatchEvents,
		status: AgencyStatus{AgencyID: agency},
	}
}

// lock makes everybody else wait who wants to work on the worker, until the function that it returns is called. It is no mutex,
// because a test in virtual time would stand still where one is waited for while its holder waits for a timer.
func (l *worker) lock() (unlock func()) {
	l.working <- struct{}{}
	return func() { <-l.working }
}

// run works whenever it is poked, and the link is open, until ctx ends.
func (l *worker) run(ctx context.Context) error {
	retry, failures := newRetry(), 0
	for {
		s, ok := l.r.link.wait(ctx)
		if !ok {
			return nil
		}
		err := l.work(ctx, s)
		c := classify(err)
		switch {
		case ctx.Err() != nil && c != classLog:
			return nil
		case c == classLog:
			return err
		case err == nil:
			failures = 0
			retry.Reset()
			select {
			case <-ctx.Done():
				return nil
			case <-l.poked:
			}
			continue
		case c.suspicious():
			l.r.link.suspect(s, err.Error())
		}
		failures++
		if failures == 1 && c.reconcileAtOnce() {
			continue
		}
		if !sleep(ctx, retry.NextBackOff(), nil) {
			return nil
		}
	}
}

// finish is run, once, without waiting for anything.
func (l *worker) finish(ctx context.Context, s session) error {
	for failures := 1; ; failures++ {
		err := l.work(ctx, s)
		if err == nil || ctx.Err() != nil || !classify(err).reconcileAtOnce() || failures == 3 {
			return err
		}
	}
}

// work brings the worker up to date with the stream if need be, and publishes until nothing is left.
func (l *worker) work(ctx context.Context, s session) error {
	defer l.lock()()
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.connected, cancel)()
	err := l.publishAll(work, s)
	if err != nil {
		l.synced = 0
		if c := classify(err); c == classFence || c == classDuplicate {
			l.fenced = true
		}
	}
	if ctx.Err() == nil {
		l.note(err)
	}
	return err
}

func (l *worker) publishAll(ctx context.Context, s session) error {
	if l.synced != s.number {
		if err := l.bounded(ctx, l.r.reconciling, func() error { return l.reconcile(ctx, s) }); err != nil {
			return err
		}
		refused := l.fenced
		l.synced, l.fenced = s.number, false
		if refused && l.taken > 0 {
			l.warn(time.Now())
		}
		l.r.o.Synced(l.agency)
	}
	for {
		more := false
		err := l.bounded(ctx, l.r.budget, func() (err error) {
			more, err = l.publishNext(ctx, s)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// bounded does what holds a batch, or a page of what is imported, when few enough others do.
func (l *worker) bounded(ctx context.Context, others *semaphore.Weighted, do func() error) error {
	if err := others.Acquire(ctx, 1); err != nil {
		return err
	}
	defer others.Release(1)
	return do()
}

// warnEvery is the minimum time between two warnings of another doorbell that publishes the agency.
const warnEvery = 10 * time.Minute

// warn logs that another doorbell publishes the agency. What the reconcile at a start finds is of an
// earlier life of the store, or of one that was lost; what makes the fence refuse a batch afterwards comes
// from a process that is running.
func (l *worker) warn(now time.Time) {
	if !l.warned.IsZero() && now.Sub(l.warned) < warnEvery {
		return
	}
	l.warned = now
	l.r.o.Logger.Warn("another doorbell publishes this agency", "agency", l.agency,
		"advice", "stop one of them: both send requests to the API")
}

// publishNext sends the next batch. It is false if there is none.
func (l *worker) publishNext(ctx context.Context, s session) (bool, error) {
	batch, err := l.r.o.Log.Unsent(l.agency, l.inOne(s), l.r.o.BatchBytes)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(batch) == 0 {
		return false, nil
	}
	batch = batch[:distinct(batch)]
	for i := range batch {
		batch[i].Sequence = l.cursor.Sequence + uint64(i) + 1
	}
	place, err := l.send(ctx, s, batch, false)
	if err != nil {
		return false, err
	}
	l.r.countPublished(batch)
	l.advance(batch[len(batch)-1], place)
	l.arrived = batch
	return true, l.commit()
}

// distinct counts the events before the first whose id stands before it already. A server would refuse such a batch for ever.
func distinct(batch []events.Event) int {
	seen := make(map[string]struct{}, len(batch))
	for i, e := range batch {
		if _, twice := seen[e.ID]; twice {
			return i
		}
		seen[e.ID] = struct{}{}
	}
	return len(batch)
}

// advance moves the cursor to an event that stands at a place in the stream.
func (l *worker) advance(e events.Event, place uint64) {
	l.cursor = events.Cursor{Sequence: e.Sequence, ID: e.ID, StreamSequence: place, StreamCreated: l.created}
}

// sendMissing sends again what a comparison has found to be missing behind a sequence, and returns how many were acknowledged. The
// repair counts an event once, also where its batch is sent a second time because the first answer was lost.
func (l *worker) sendMissing(ctx context.Context, s session, c *comparer, after uint64) (sent int, err error) {
	p := &l.repair
	l.fence = c.fence
	err = c.missing(after, func(absent []events.Event) error {
		for _, e := range absent {
			if e.Sequence > p.to {
				p.sent, p.to = p.sent+1, e.Sequence
			}
			p.from = cmp.Or(p.from, e.Sequence)
		}
		for len(absent) > 0 {
			n := min(len(absent), l.inOne(s))
			_, err := l.send(ctx, s, absent[:n], true)
			switch {
			case err == nil:
				sent, absent = sent+n, absent[n:]
			case n == 1 || classify(err) != classTooMany:
				return err
			}
		}
		return nil
	})
	return sent, err
}

// note shows how the last work ended. A failure is logged when it is another one than before; one that the next reconcile may
// explain, only when it comes again.
func (l *worker) note(err error) {
	text := ""
	if err != nil {
		text = l.r.explain(err).Error()
	}
	l.show(func(a *AgencyStatus) {
		a.Problem = text
		a.Acknowledged = max(a.Acknowledged, l.cursor.Sequence)
	})
	c := classify(err)
	if l.failures++; err == nil {
		l.failures = 0
	} else {
		l.r.countFailed(c)
	}
	if text == l.said || l.failures == 1 && c.reconcileAtOnce() {
		return
	}
	l.said = text
	if err == nil {
		l.r.o.Logger.Info("events are published again", "agency", l.agency)
		return
	}
	l.r.o.Logger.Warn("events wait in the log", "agency", l.agency, "class", string(c), "err", text)
}

func (l *worker) show(change func(*AgencyStatus)) {
	l.shown.Lock()
	defer l.shown.Unlock()
	change(&l.status)
}
