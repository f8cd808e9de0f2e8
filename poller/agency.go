package poller

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/events"
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

	allowed atomic.Pointer[watch.Access]
	owed    []watch.AccessChange // in force and not stored, because the disk was full; guarded by committing

	trying *backoff // the other key is tried with contact requests
	trials int      // only of the goroutine that walks

	mu        sync.Mutex
	trial     string // the insertion with which a key is being tried
	looks     map[string]*look
	busy      map[string]chan struct{} // insertions that are being polled; closed when done
	walkNow   chan struct{}
	known     int // published insertions, as of the last walk
	gone      int // disappeared ones that are still polled
	lastWalk  WalkStatus
	ended     WalkCounts
	walkBegan time.Time // the last one
	underWay  bool      // it is
	lastError string

	answers    watch.KeyAnswers
	refusedKey string        // to which the list was refused, until it is decided what follows
	evidence   chan struct{} // some agency was answered

	lastAnswer time.Time // last good answer of contact requests
	confirming bool      // several were refused: polls wait for what the list says
	freed      time.Time // the last halt of more than one insertion ended
	clock      watch.Clock
	latencies  latencies
	waited     histogram // the same, since the start

	health map[listings.Operation]*health
	saved  map[failureName]store.Failure // as the store holds them
	dirty  map[failureName]struct{}      // may have changed since
	sizes  watch.Sizes
}

func newAgency(p *Poller, k AgencyKeys) *agency {
	retiring, end := context.WithCancel(context.Background())
	a := &agency{
		retiring: retiring, end: end,
		p: p, id: k.ID, began: time.Now(), trying: newBackoff(time.Second, p.o.RetryMax),
		walking: newBackoff(time.Second, p.o.RetryMax), asking: newBackoff(time.Second, p.o.RetryMax),
		looks: map[string]*look{}, busy: map[string]chan struct{}{},
		walkNow: make(chan struct{}, 1), evidence: make(chan struct{}, 1), walkSoon: make(chan struct{}, 1),
		health: map[listings.Operation]*health{
			listings.OperationInsertions: {}, listings.OperationContactRequests: {},
		},
		saved: map[failureName]store.Failure{}, dirty: map[failureName]struct{}{},
	}
	a.allowed.Store(&watch.Access{AgencyID: k.ID, Keys: watch.NewKeys(k.Key, k.Next)})
	return a
}

// load reads what the store knows: it notes the begin of the watch of a new agency, ends halts of other keys, and schedules
// the insertions.
func (a *agency) load() error {
	var remembered watch.Access
	var polled []resumed
	var known recollection
	now := time.Now()
	err := a.p.store.View(func(tx *store.Tx) error {
		state, _, err := tx.Agency(a.id)
		if err != nil {
			return err
		}
		a.restoreHealth(state)
		a.sizes = watch.SizesOf(state, now.Add(watch.ProbeFirst/2+rand.N(watch.ProbeFirst)))
		a.clock.Known, a.clock.Skew = state.SkewKnown, state.ClockSkew
		halts, err := tx.Halts(a.id)
		if err != nil {
			return err
		}
		remembered = watch.RestoreAccess(a.id, state.Keys, halts, now)
		known = recallMemory(tx, a.id)
		return tx.Insertions(a.id, func(i store.Insertion) error {
			if a.count(i, now) {
				polled = append(polled, resumedFrom(i))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	a.written = known.written
	a.p.scheduler.enter(a.id, known.learned)
	a.succeededBefore(known.lastPoll(now))
	if err := a.begin(now); err != nil {
		return err
	}
	configured := a.access().Keys
	a.allowed.Store(&remembered)
	_, err = a.changeAccess(func(x watch.Access) watch.AccessChange {
		return x.Configure(configured.Current, configured.Next, time.Now())
	})
	if err != nil {
		return err
	}
	failures, err := a.failures() // not before: with a halt the refusals end that came before its end
	if err != nil {
		return err
	}
	a.line(polled, known, a.restoreFailures(failures, now), now)
	a.forgetOthers(failures)
	a.pause()
	return nil
}

// count counts an insertion, and says whether it is polled.
func (a *agency) count(i store.Insertion, now time.Time) bool {
	switch {
	case i.Outside:
		return false
	case i.GoneSince.IsZero():
		a.known++
	case now.Sub(i.GoneSince) > watch.LateArrivals:
		return false
	default:
		a.gone++
	}
	return true
}

// line schedules what is polled: at once what must not wait, which is what appeared after the baseline and windows that are
// open; later what the process before had to wait for; all others as if that went on. Those that were polled nobody knows
// when are spread over an interval, so that a restart is no burst.
func (a *agency) line(polled []resumed, known recollection, waiting map[string]time.Time, now time.Time) {
	a.p.scheduler.change(a.id, func(s *schedule.Schedule, p *scheduled) {
		p.grow(s, len(polled))
		for n, i := range polled {
			back := a.p.o.PollInterval * time.Duration(len(polled)-n) / time.Duration(len(polled))
			one := p.add(s, i.reference, known.resume(i, now, now.Add(-back)), now)
			switch until := waiting[i.reference]; {
			case until.After(now):
				s.Put(one, until)
			case i.urgent:
				s.Urge(one, schedule.Urgent)
			}
		}
	})
}

// begin notes the begin of the watch, once. Under another filter than before, what comes and goes by it is not announced: a
// silent baseline of the difference begins.
func (a *agency) begin(now time.Time) error {
	filter := a.p.o.Filter.Encode()
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		state, exists, err := tx.Agency(a.id)
		switch {
		case err != nil || exists && state.Filter == filter && !state.AwaitsStream:
			return e, err
		case !exists || state.AwaitsStream:
			before, err := tx.WatchedBefore(a.id)
			if !exists {
				state.WatchStart = now.UTC()
			}
			state.HeardUntil, state.Filter, state.AwaitsStream = before.UTC(), filter, false
			e.State = &state
			return e, err
		}
		a.p.log.Info("filter changed: what comes and goes by it is not announced", "agency", a.id)
		return watch.Refilter(a.id, state, filter, holds(insertions(tx, a.id)), now.UTC()), nil
	})
}

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
	delete(a.looks, reference)
	a.dirty[failureName{failureInsertion, reference}] = struct{}{}
	a.dirty[failureName{watch.FailureWindow, reference}] = struct{}{}
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

// forgetOthers drops the failures of insertions that are not polled any more.
func (a *agency) forgetOthers(failures []store.Failure) {
	failured := map[string]struct{}{}
	for _, t := range failures {
		if t.Scope == failureInsertion || t.Scope == watch.FailureWindow {
			failured[t.Name] = struct{}{}
		}
	}
	for _, reference := range a.p.scheduler.without(a.id, failured) {
		a.forget(reference)
	}
}

// wakeWalk asks for a walk now.
func (a *agency) wakeWalk() {
	select {
	case a.walkNow <- struct{}{}:
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

// learnClock hears an answer, and remembers what it taught.
func (a *agency) learnClock(e listings.Envelope) error {
	a.mu.Lock()
	learned := a.clock.Hear(e)
	skew := a.clock.Skew
	a.mu.Unlock()
	if !learned {
		return nil
	}
	return a.commitState(func(state *store.Agency) []events.Payload {
		state.ClockSkew, state.SkewKnown = skew, true
		return nil
	})
}

func (a *agency) skew() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clock.Skew
}
