package poller

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// agency is the watch of one agency: what goes on now, while what is known stands in the store.
type agency struct {
	p     *Poller
	id    string
	began time.Time // to be watched by this process

	walking *backoff // the list of insertions fails
	asking  *backoff // contact requests fail, whichever insertion is asked

	pausing    sync.Mutex // held while pause looks and acts
	committing sync.Mutex // held while what is remembered of the agency changes, in the store and in memory; see commit

	trusting, second bool       // of the next walk; the walks' own, as the following
	failedWalk       bool       // the log says so
	pages            int        // of the last complete walk; 0: there was none
	counted          time.Time  // begin of the last walk that counted for what is missing
	knownPages       knownPages // of the last walk
	imports          int64      // of the store, when that walk began

	walkSoon chan struct{} // a page of the list is worth more than a poll

	retiring context.Context // ends when the agency is not watched any more
	end      context.CancelFunc
	watching watching       // guarded by mu
	active   sync.WaitGroup // walks and polls under way

	remembering sync.Mutex // held while the memory of the schedule is written
	written     written    // guarded by remembering

	snapshot atomic.Pointer[snapshot] // only commit replaces it
	allowed  atomic.Pointer[watch.Access]
	owed     []watch.AccessChange // in force and not stored, because the disk was full; guarded by committing

	trying *backoff // the other key is tried with contact requests

	mu         sync.Mutex
	refusals   watch.Refusals
	pollStates map[string]*pollState
	busy       map[string]chan struct{} // insertions that are being polled; closed when done
	walkNow    chan struct{}
	known      int // published insertions, as of the last walk
	gone       int // disappeared ones that are still polled
	lastWalk   WalkStatus
	ended      WalkCounts
	walkBegan  time.Time // the last one
	underWay   bool      // it is
	lastError  string

	evidence  chan struct{} // some agency was answered
	clock     watch.Clock
	latencies latencies
	waited    histogram // the same, since the start

	health map[listings.Operation]*health
	dirty  map[failureName]struct{} // may have changed since they were stored
	sizes  watch.Sizes
}

// health is how well one operation of an agency goes, as far as only this process knows.
type health struct {
	watch.Liveness
	sizeTried     time.Time // last time that the configured page size was asked for
	lastWalk      listings.Verdict
	pathAnnounced time.Time // last time another path was told
}

var operations = []listings.Operation{listings.OperationInsertions, listings.OperationContactRequests}

func newAgency(p *Poller, k AgencyKeys) *agency {
	retiring, end := context.WithCancel(context.Background())
	a := &agency{
		retiring: retiring, end: end,
		p: p, id: k.ID, began: time.Now(), trying: newBackoff(time.Second, p.o.RetryMax),
		walking: newBackoff(time.Second, p.o.RetryMax), asking: newBackoff(time.Second, p.o.RetryMax),
		pollStates: map[string]*pollState{}, busy: map[string]chan struct{}{},
		walkNow: make(chan struct{}, 1), evidence: make(chan struct{}, 1), walkSoon: make(chan struct{}, 1),
		health: map[listings.Operation]*health{
			listings.OperationInsertions: {}, listings.OperationContactRequests: {},
		},
		dirty: map[failureName]struct{}{},
	}
	a.snapshot.Store(&snapshot{})
	a.allowed.Store(&watch.Access{AgencyID: k.ID, Keys: watch.NewKeys(k.Key, k.Next)})
	return a
}

// keyFor is the key to show with requests of an operation.
func (a *agency) keyFor(o listings.Operation) listings.Key { return a.access().Keys.Shown(o) }

// enter waits until nobody else polls the insertion; leave lets the next one in.
func (a *agency) enter(ctx context.Context, reference string) error {
	for {
		a.mu.Lock()
		other := a.busy[reference]
		if other == nil {
			a.busy[reference] = make(chan struct{})
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// occupied says whether somebody polls the insertion.
func (a *agency) occupied(reference string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy[reference] != nil
}

func (a *agency) leave(reference string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.busy[reference])
	delete(a.busy, reference)
}

// forget drops an insertion that is not polled any more. What was told of it is ended by keepFailures.
func (a *agency) forget(reference string) {
	a.mu.Lock()
	delete(a.pollStates, reference)
	delete(a.refusals.Waiting, reference)
	a.dirty[failureName{failureInsertion, reference}] = struct{}{}
	a.mu.Unlock()
	a.p.scheduler.change(a.id, func(s *schedule.Schedule, p *scheduled) { p.remove(s, reference) })
}

// urge lets an insertion be polled soon.
func (a *agency) urge(reference string) {
	now := time.Now()
	a.p.scheduler.change(a.id, func(s *schedule.Schedule, p *scheduled) {
		s.Urge(p.add(s, reference, schedule.Memory{}, now), schedule.Urgent)
	})
}

// wakeWalk asks for a walk now.
func (a *agency) wakeWalk() { wake(a.walkNow) }

// wake signals a channel of one place, which remembers a signal until it is received.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// doubtList asks for a walk now because the list may be wrong. One that fails is asked when its back-off ends.
func (a *agency) doubtList() {
	if a.walking.state().Failures == 0 {
		a.wakeWalk()
	}
}

// note keeps the text of the last error, and says whether it is another than before: only then it is worth a log line.
func (a *agency) note(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	changed := text != a.lastError
	a.lastError = text
	return changed
}

func (a *agency) skew() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clock.Skew
}

// leaveOff lets nothing begin for the agency any more and asks what is under way to end.
func (a *agency) leaveOff() {
	a.pausing.Lock()
	defer a.pausing.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// while does something for the agency as long as it is watched; otherwise it does the other thing, if any. An end
// because it was retired is no error.
func (a *agency) while(ctx context.Context, do func(context.Context) error, otherwise func()) error {
	a.mu.Lock()
	retired := a.retiring.Err() != nil
	if !retired {
		a.active.Add(1)
	}
	watching := a.watchingUnder(ctx)
	a.mu.Unlock()
	if retired {
		otherwise()
		return nil
	}
	defer a.active.Done()
	err := do(watching)
	if ctx.Err() == nil && a.retiring.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watching is the context of all that is done for an agency under another one, which is that of Run.
type watching struct {
	under, ctx context.Context
	stop       func() // nil: there is none yet
}

// watchingUnder returns a context that ends with ctx or when the agency is retired. The caller holds a.mu.
func (a *agency) watchingUnder(ctx context.Context) context.Context {
	w := &a.watching
	if w.under == ctx {
		return w.ctx
	}
	if w.stop != nil {
		w.stop() // the one before is over
	}
	w.under = ctx
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	detach := context.AfterFunc(a.retiring, cancel)
	w.stop = func() { detach(); cancel() }
	return w.ctx
}

// insertions are all that are remembered of an agency.
func insertions(tx *store.Tx, agencyID string) iter.Seq[store.Insertion] {
	return func(yield func(store.Insertion) bool) {
		enough := errors.New("enough")
		_ = tx.Insertions(agencyID, func(i store.Insertion) error {
			if !yield(i) {
				return enough
			}
			return nil
		})
	}
}

// holds says whether there is anything in a sequence.
func holds[T any](all iter.Seq[T]) bool {
	for range all {
		return true
	}
	return false
}

func (a *agency) insertion(reference string) (i store.Insertion, err error) {
	err = a.p.store.View(func(tx *store.Tx) (err error) {
		i, _, err = tx.Insertion(a.id, reference)
		return err
	})
	return i, err
}

// windows is a copy of what was learned of the windows of an agency; learned changes it.
func (a *agency) windows() watch.Sizes {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sizes
}

func (a *agency) learned(change func(*watch.Sizes)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.sizes)
}
