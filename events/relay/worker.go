package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
)

// worker publishes the events of one agency.
type worker struct {
	r       *Relay
	agency  string
	token   string
	filter  string
	poked   chan struct{} // capacity 1
	running bool          // guarded by Relay.mu

	working   chan struct{} // capacity 1; full while somebody works on the worker, who may be resting: see lock
	synced    uint64        // number of the session in which log and stream were found in line; 0: something has failed since
	created   time.Time     // of the stream, at the last verify
	cursor    events.Cursor
	place     events.Cursor // newest event known to be in the stream; behind the cursor while a lost tail is sent again
	fence     uint64        // place of the agency's last message in the stream, whoever wrote it
	most      int           // events in one batch
	repair    repair
	streamed  streamed
	foreign   foreign
	incoming  importing
	confirmed []events.Event // unsent ones that reconciling has found in the stream, not committed yet
	unsent    []events.Event // the next ones, as reconciling has read them; nil: it has not
	imported  imported
	fenced    bool // somebody has written since our last message
	rival     rival
	failures  int    // in a row
	said      string // the failure that is in the log as the last one; empty: it ended

	shown  sync.Mutex
	status AgencyStatus
}

// rival is another doorbell that publishes the same agency.
type rival struct {
	contested atomic.Bool // nothing is published until [Relay.TakeOver]
	taken     int         // events of others that reconciling has found
	times     int         // how often it came in between, each within an hour of the one before
	last      time.Time
}

// contestedAfter is how often another doorbell may come in between before we leave the agency to it.
const contestedAfter = 3

// repair is a lost tail that is being sent again.
type repair struct {
	reason   string // empty: nothing is
	from, to uint64
	upTo     uint64 // what is counted already
	sent     int
	again    bool // it was begun before this reconcile: what the stream holds by now, we have sent
}

// count takes events up to a sequence as sent again.
func (p *repair) count(sequence uint64) {
	if sequence = min(sequence, p.to); sequence > p.upTo {
		p.sent += int(sequence - p.upTo)
		p.upTo = sequence
	}
}

// streamed is what the stream, that has lost a tail of ours, holds, since the last reconcile.
type streamed struct {
	places map[string]uint64 // by id: these need not be sent again
	above  bool              // some continue behind our cursor: they are taken over when the tail is there again
	anew   bool              // the stream was made anew: where one event stands, those before it may be missing
}

// foreign are messages that are not ours.
type foreign struct {
	seen       uint64    // highest place in the stream that was counted
	created    time.Time // of that stream
	unreported int
	reported   time.Time
}

func newLane(r *Relay, agency string) *worker {
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

// run works whenever it is poked, and the gate is open, until ctx ends.
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
		case err == nil, c == classContested:
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
		switch classify(err) {
		case classFence, classDuplicate:
			l.fenced = true
		case classTooMany:
			l.most = max(1, l.most/2)
		}
	}
	if ctx.Err() == nil {
		l.note(err)
	}
	return err
}

func (l *worker) publishAll(ctx context.Context, s session) error {
	if l.rival.contested.Load() {
		return l.contested()
	}
	if l.synced != s.number {
		if err := l.synchronise(ctx); err != nil {
			return err
		}
		refused := l.fenced
		l.synced, l.fenced = s.number, false
		if refused && l.rival.taken > 0 && l.rival.again(time.Now()) {
			l.r.o.Logger.Error("another doorbell publishes this agency: nothing more is published here", "agency", l.agency)
			return l.contested()
		}
		l.r.o.Synced(l.agency)
	}
	for {
		if l.streamed.above && l.place.Sequence >= l.cursor.Sequence {
			l.streamed.above = false
			if err := l.readOn(ctx, 0); err != nil {
				return err
			}
		}
		if more, err := l.publishNext(ctx, s); err != nil || !more {
			return err
		}
	}
}

// again notes that another doorbell came in between, and says whether that was once too often. What the reconcile at a start finds is of
// an earlier life of the store, or of one that was lost; what refuses us afterwards is written by somebody who lives.
func (v *rival) again(now time.Time) bool {
	if now.Sub(v.last) > time.Hour {
		v.times = 0
	}
	v.times, v.last = v.times+1, now
	if v.times < contestedAfter {
		return false
	}
	v.times = 0
	v.contested.Store(true)
	return true
}

// errContested: another doorbell publishes the same agency.
var errContested = errors.New("another doorbell publishes this agency")

func (l *worker) contested() error {
	return fmt.Errorf("%w. Stop the other one, or leave the agency to it; then run: doorbell takeover %s", errContested, l.agency)
}

func (l *worker) synchronise(ctx context.Context) error {
	if err := l.r.reconciling.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.r.reconciling.Release(1)
	return l.reconcile(ctx)
}

// publishNext sends the next batch. It is false if there is none.
func (l *worker) publishNext(ctx context.Context, s session) (bool, error) {
	if err := l.r.budget.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer l.r.budget.Release(1)
	if l.place.Sequence < l.cursor.Sequence {
		return true, l.resendNext(ctx, s)
	}
	batch, err := l.r.o.Log.Unsent(l.agency, l.inOne(s), l.r.o.BatchBytes)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(batch) == 0 {
		return false, nil
	}
	batch = batch[:l.distinct(batch)]
	for i := range batch {
		batch[i].Sequence = l.cursor.Sequence + uint64(i) + 1
	}
	place, err := l.send(ctx, s, batch, false)
	if err != nil {
		return false, err
	}
	l.r.countPublished(batch)
	return true, l.commit(batch, place)
}

// commit notes that unsent events stand in the stream under the sequences that they have by now, the last of them at a place.
func (l *worker) commit(batch []events.Event, place uint64) error {
	l.advance(batch[len(batch)-1], place)
	if err := l.r.o.Log.Publish(l.agency, batch, l.place); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.moved()
	return nil
}

// moved notes that the cursor is where the place is, durably.
func (l *worker) moved() {
	l.cursor = l.place
	l.show(func(a *AgencyStatus) { a.Acknowledged = l.cursor.Sequence })
}

// resendNext sends the next batch of a lost tail again.
func (l *worker) resendNext(ctx context.Context, s session) error {
	batch, err := l.r.o.Log.Read(l.agency, l.place.Sequence, l.inOne(s), l.r.o.BatchBytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(batch) == 0 {
		return fmt.Errorf("%w: the event of the cursor of %s is missing", ErrLog, l.token)
	}
	l.repair.upTo = max(l.repair.upTo, batch[0].Sequence-1) // what was trimmed from the log cannot be sent again
	if n := l.needless(batch); n > 0 {
		return l.passOver(batch[n-1])
	}
	batch = batch[:l.distinct(batch)]
	place, err := l.send(ctx, s, batch, true)
	if err != nil {
		return err
	}
	for _, e := range batch {
		l.streamed.places[e.ID] = place
	}
	l.advance(batch[len(batch)-1], place)
	l.repair.count(l.place.Sequence)
	return l.store()
}

// needless counts the events at the front that were acknowledged once, and that the stream would have forgotten by now had
// it not lost them, or holds under another sequence.
func (l *worker) needless(batch []events.Event) int {
	for i, e := range batch {
		expired := l.r.o.MaxAge > 0 && time.Since(e.RecordedTime) > l.r.o.MaxAge
		if !expired && !l.isStreamed(e) {
			return i
		}
	}
	return len(batch)
}

// isStreamed says whether an event of a lost tail stands in the stream, though under another sequence.
func (l *worker) isStreamed(e events.Event) bool {
	_, there := l.streamed.places[e.ID]
	return there && e.Sequence != 0
}

// distinct counts the events before the first that the stream holds already, or whose id stands before it already. A server
// would refuse such a batch for ever.
func (l *worker) distinct(batch []events.Event) int {
	seen := make(map[string]struct{}, len(batch))
	for i, e := range batch {
		if _, twice := seen[e.ID]; twice || l.isStreamed(e) {
			return i
		}
		seen[e.ID] = struct{}{}
	}
	return len(batch)
}

// passOver takes needless events up to e as published.
func (l *worker) passOver(e events.Event) error {
	place, there := l.streamed.places[e.ID]
	l.advance(e, place) // 0: the next reconcile begins at the front
	switch {
	case there && l.repair.again:
		l.repair.count(e.Sequence)
	case there && l.repair.sent == 0:
		l.repair.from = e.Sequence + 1
	}
	l.repair.upTo = max(l.repair.upTo, e.Sequence)
	return l.store()
}

// advance notes an event as standing at a place in the stream.
func (l *worker) advance(e events.Event, place uint64) {
	l.place = events.Cursor{Sequence: e.Sequence, ID: e.ID, StreamSequence: place, StreamCreated: l.created}
}

// store makes the place durable, unless a lost tail is still being sent again; when that is done, it is reported first.
func (l *worker) store() error {
	if l.place.Sequence < l.cursor.Sequence {
		return nil
	}
	if l.repair.reason != "" {
		done := l.repair
		l.repair = repair{}
		if err := l.report(done.reason, done.from, done.to, done.sent); err != nil {
			return err
		}
	}
	if l.streamed.above {
		l.place.StreamSequence = 0 // whatever happens, the next reconcile begins at the front
	}
	if l.place == l.cursor {
		return nil
	}
	if err := l.r.o.Log.SetCursor(l.agency, l.place); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.moved()
	return nil
}

// note shows how the last work ended. A failure is logged when it is another one than before; one that the next reconcile may
// explain, only when it comes again.
func (l *worker) note(err error) {
	text := ""
	if err != nil {
		text = stream.Explain(l.r.o.Conn, err).Error()
	}
	l.show(func(a *AgencyStatus) {
		if a.Problem != text {
			a.Problem, a.Since = text, time.Now()
		}
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
