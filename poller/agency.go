package poller

import (
	"sync"
	"sync/atomic"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// agency is the watch of one agency in this process. Its persistent state is in the store.
type agency struct {
	p      *Poller
	id     string
	people events.People // which data of people its events contain

	walking *backoff // of the list of insertions
	asking  *backoff // of contact requests, for all insertions

	committing sync.Mutex // held while the state changes, in the store and in memory; see commit

	// Only the goroutine of the walks uses it.
	settled map[listings.Sum]settledPage // pages of the last complete walk

	snapshot atomic.Pointer[snapshot] // only commit replaces it
	allowed  atomic.Pointer[watch.Access]

	mu         sync.Mutex // guards the following
	pollStates map[string]*pollState
	walkNow    chan struct{}
	known      int // published insertions, as of the last walk
	lastWalk   WalkStatus
	lastError  string
	nudgedAt   time.Time // when the last walk for an unknown reference was started

	latencies latencies

	health  map[listings.Operation]*health
	windows shown
	silence silence

	volatility watch.Volatility // guarded by committing
}

// health is the health of one operation of an agency, as far as only this process knows it.
type health struct {
	watch.Liveness
	placeAnnounced time.Time // when a change of the records' place was last announced
}

var operations = []listings.Operation{listings.OperationInsertions, listings.OperationContactRequests}

func newAgency(p *Poller, k AgencyKeys) *agency {
	a := &agency{
		p: p, id: k.ID, people: k.People,
		walking:    newBackoff(time.Second, p.o.RetryMax),
		asking:     newBackoff(time.Second, p.o.RetryMax),
		pollStates: map[string]*pollState{},
		walkNow:    make(chan struct{}, 1),
		health: map[listings.Operation]*health{
			listings.OperationInsertions: {}, listings.OperationContactRequests: {},
		},
		windows: shown{size: watch.WidestSize},
	}
	a.snapshot.Store(&snapshot{})
	a.allowed.Store(&watch.Access{AgencyID: k.ID, Key: k.Key})
	return a
}

// snapshot is the agency's own state in the store, for reading without a transaction.
type snapshot struct {
	state  store.Agency
	alarms watch.Alarms
}

// published returns the snapshot of the last commit.
func (a *agency) published() snapshot { return *a.snapshot.Load() }

// key returns the configured key.
func (a *agency) key() listings.Key { return a.access().Key }

// forget drops an insertion that is no longer polled. Its alarms are cleared by endForgotten.
func (a *agency) forget(reference string) {
	a.mu.Lock()
	delete(a.pollStates, reference)
	a.mu.Unlock()
	a.p.schedule.Remove(a.id, reference)
}

// wakeWalk asks for a walk now.
func (a *agency) wakeWalk() { wake(a.walkNow) }

// wake signals a channel with a buffer of one, which keeps a signal until it is received.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// doubtList asks for a walk now, because the list may be wrong. If walks fail, their back-off goes
// first.
func (a *agency) doubtList() {
	if a.walking.state().Failures == 0 {
		a.wakeWalk()
	}
}

// note keeps the text of the last error, and reports whether it has changed: only then is it
// logged.
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

func (a *agency) insertion(reference string) (i store.Insertion, err error) {
	err = a.p.store.View(func(tx *store.Tx) error {
		i, _ = tx.Insertion(a.id, reference)
		return nil
	})
	return i, err
}

// announced records the latencies of contact requests whose events were committed.
func (a *agency) announced(waited []time.Duration, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range waited {
		a.latencies.add(d, at)
		a.p.metrics.latenciesOf(a.id).Observe(max(d, 0).Seconds())
	}
}

// lastDay returns the latencies of the contact requests of the last 24 hours, in seconds.
func (a *agency) lastDay(now time.Time) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latencies.lastDay(now)
}

// load restores the agency from the store: it begins the watch of a new agency, ends halts of other
// keys, and schedules the insertions.
func (a *agency) load() error {
	var remembered watch.Access
	var polled []store.Insertion
	now := time.Now()
	err := a.p.store.View(func(tx *store.Tx) error {
		state, _ := tx.Agency(a.id)
		a.publish(watch.Effects{State: &state, Raised: tx.Alarms(a.id)})
		remembered = watch.RestoreAccess(a.id, tx.Halts(a.id), now)
		for i := range tx.Insertions(a.id) {
			h, halted := remembered.Insertion(i.Reference)
			refused := halted && h.Key == a.key().Fingerprint() && !i.GoneSince.IsZero()
			if !stillPolled(i, now) || refused {
				continue
			}
			polled = append(polled, i)
			if i.GoneSince.IsZero() {
				a.known++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.restoreHealth()
	if err := a.begin(now); err != nil {
		return err
	}
	key := a.key()
	remembered.Key, remembered.LastAnswer = key, a.access().LastAnswer
	a.allowed.Store(&remembered)
	_, err = a.changeAccess(func(x watch.Access) watch.Effects { return x.Configure(key, time.Now()) })
	if err != nil {
		return err
	}
	a.restoreKeyWait(now)
	a.spread(polled, now)
	a.pause()
	a.p.metrics.latenciesOf(a.id) // so that the metric exists from the start
	return nil
}

// stillPolled reports whether an insertion is published, or disappeared so recently that late
// contact requests may come.
func stillPolled(i store.Insertion, now time.Time) bool {
	return !i.Outside && (i.GoneSince.IsZero() || now.Sub(i.GoneSince) <= watch.LateArrivals)
}

// spread schedules the insertions after a start. Those that must not wait come immediately:
// insertions that appeared after the baseline, and open windows. When the others were last polled
// is unknown, so they are spread over an interval, and a restart makes no burst.
func (a *agency) spread(polled []store.Insertion, now time.Time) {
	for n, i := range polled {
		last := time.Time{}
		if i.Polled {
			last = now.Add(-a.p.o.PollInterval * time.Duration(len(polled)-n) / time.Duration(
				len(polled)))
		}
		a.schedule(i, last, !i.Polled && !i.Baseline || !i.OpenSince.IsZero())
	}
}

// begin records when the watch began, once. If the filter has changed, what comes and goes because
// of that is not announced: a silent baseline of the difference begins.
func (a *agency) begin(now time.Time) error {
	filter := a.p.o.Filter.Encode()
	return a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		state, exists := tx.Agency(a.id)
		switch {
		case exists && state.Filter == filter:
			return e, nil
		case !exists:
			state.WatchStart, state.Filter = now.UTC(), filter
			e.State = &state
			return e, nil
		}
		a.p.log.Info("filter changed: what it adds or removes is not announced", "agency", a.id)
		return watch.Refilter(a.id, state, filter, now.UTC()), nil
	})
}

// restoreKeyWait continues the wait that the API asked for. It is bounded, in case a clock jumped.
func (a *agency) restoreKeyWait(now time.Time) {
	state := a.published().state
	if state.KeyOf != a.key().Fingerprint() || !state.KeyUntil.After(now) {
		return
	}
	wait := min(state.KeyUntil.Sub(now), watch.LongestKeyWait)
	a.p.keys[state.KeyOf].change(func(b watch.Backoff) watch.Backoff { return b.Throttled(now, now, wait) })
}
