package daemon

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/store"
)

const (
	// sayAfter is how long agencies wait for the stream before the log says so.
	sayAfter = 3 * time.Second
	// sayEvery is how often it says so again, askAgain how often the stream is asked.
	sayEvery = 10 * time.Minute
	askAgain = 250 * time.Millisecond
)

// agencies are the configured ones, and the poller of those whose watch may begin. A poller watches
// the agencies that it was made with; where they or their keys change, another one takes its place.
//
// An agency that this store has never watched waits until the stream was asked since when it was
// watched: where the store was lost, the watch goes on where the stream heard of it last. The begin
// of its watch is stored before, so that what happens meanwhile is live. Agencies do not wait for
// each other.
type agencies struct {
	mu         sync.Mutex
	configured []poller.AgencyKeys
	admitted   map[string]bool      // by agency; false: it waits for the stream
	since      map[string]time.Time // when the watch of those that wait began
	waits      chan struct{}        // capacity 1: one more waits
	changed    chan struct{}        // capacity 1: another poller is due

	poller   atomic.Pointer[poller.Poller]
	replaced ops.Liveness // when the poller was made
	steering sync.RWMutex // held for writing while the poller is replaced, for reading while a command changes what it does
}

func (d *agencies) open(list []poller.AgencyKeys) {
	d.configured, d.admitted, d.since = list, map[string]bool{}, map[string]time.Time{}
	d.waits, d.changed = make(chan struct{}, 1), make(chan struct{}, 1)
}

// ids is the agencies that are configured now.
func (d *agencies) ids() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.configured {
		ids = append(ids, a.ID)
	}
	return ids
}

// signal signals a channel of capacity 1, which remembers the signal until it is received.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// beginWatch stores the begin of the watch of the agencies that are new to the store.
func (a *Daemon) beginWatch(context.Context) error {
	return a.await(a.agencies.configured)
}

// await finds out which of a list wait for the stream, and begins the watch of those that are new.
func (a *Daemon) await(list []poller.AgencyKeys) error {
	d := &a.agencies
	d.mu.Lock()
	defer d.mu.Unlock()
	began := time.Now().UTC()
	for _, k := range list {
		if _, known := d.admitted[k.ID]; known {
			continue
		}
		waits, since := true, began
		err := a.store.Update(func(tx *store.Tx) error {
			state, exists := tx.Agency(k.ID)
			if exists {
				waits, since = state.AwaitsStream, state.WatchStart
				return store.ErrUnchanged
			}
			return tx.PutAgency(k.ID, store.Agency{WatchStart: began, Filter: a.o.Poller.Filter.Encode(), AwaitsStream: true})
		})
		if err != nil {
			return err
		}
		if d.admitted[k.ID] = !waits; waits {
			d.since[k.ID] = since
			signal(d.waits)
		}
	}
	return nil
}

// openPoller makes the poller of the agencies that are configured and admitted.
func (a *Daemon) openPoller(context.Context) error {
	d, o := &a.agencies, a.o.Poller
	d.mu.Lock()
	o.Agencies = nil
	for _, k := range d.configured {
		if d.admitted[k.ID] {
			o.Agencies = append(o.Agencies, k)
		}
	}
	d.mu.Unlock()
	o.Store, o.Logger, o.Retention = a.store, a.o.Log, a.o.Retention
	if a.o.Turn != nil {
		o.Allowed = a.o.Turn.Valid
	}
	p, err := poller.New(o)
	if a.store.Failure() != nil {
		return err
	}
	if err != nil {
		return exit.Config(err, "")
	}
	d.replaced.Renew(time.Now())
	d.poller.Store(p)
	return nil
}

// poll runs the poller until ctx is done. Where another one is due, it makes that when the one
// before has ended.
func (a *Daemon) poll(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.pollUntilChanged(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *Daemon) pollUntilChanged(ctx context.Context) error {
	d := &a.agencies
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.poller.Load().Run(running) }()
	select {
	case err := <-ended:
		return err
	case <-d.changed:
	}
	d.steering.Lock()
	defer d.steering.Unlock()
	stop()
	if err := <-ended; err != nil || ctx.Err() != nil {
		return err
	}
	return a.openPoller(ctx)
}

// setAgencies replaces the configured agencies and keys. What is remembered of one that is no
// longer configured stays; configured again, it goes on from there. Its error ends the process.
func (a *Daemon) setAgencies(list []poller.AgencyKeys) error {
	if err := a.await(list); err != nil {
		return err
	}
	d := &a.agencies
	d.mu.Lock()
	d.configured = list
	d.mu.Unlock()
	signal(d.waits) // one that is configured only now
	signal(d.changed)
	return nil
}

// waiting are the agencies that wait for the stream.
func (d *agencies) waiting() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.configured {
		if admitted, known := d.admitted[k.ID]; known && !admitted {
			ids = append(ids, k.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// watch is the status of the poller, and of the agencies that wait for the stream or for the poller
// that is just being made.
func (a *Daemon) watch() poller.Status {
	d := &a.agencies
	s := d.poller.Load().Status()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.configured {
		since, waited := d.since[k.ID]
		if waited && !slices.ContainsFunc(s.Agencies, func(w poller.AgencyStatus) bool { return w.AgencyID == k.ID }) {
			s.Agencies = append(s.Agencies, poller.AgencyStatus{AgencyID: k.ID, State: ops.WaitingForStream, WatchStart: since})
		}
	}
	return s
}

// Waiting is how many agencies wait for the stream: nothing is asked of them yet.
func (a *Daemon) Waiting() int { return len(a.agencies.waiting()) }

// steer lets a command change what the poller does. It waits for one that is just being made: what
// a poller is asked after its end would be lost.
func steer[T any](d *agencies, change func(*poller.Poller) (T, error)) (T, error) {
	d.steering.RLock()
	defer d.steering.RUnlock()
	return change(d.poller.Load())
}

func (a *Daemon) resume(agencyID, reference string) (int, error) {
	return steer(&a.agencies, func(p *poller.Poller) (int, error) { return p.Resume(agencyID, reference) })
}

func (a *Daemon) approve(agencyID string) (bool, error) {
	return steer(&a.agencies, func(p *poller.Poller) (bool, error) { return p.Approve(agencyID) })
}

func (a *Daemon) pollNow(agencyID, reference string) (poller.PolledNow, error) {
	return steer(&a.agencies, func(p *poller.Poller) (poller.PolledNow, error) {
		if reference == "" {
			return p.PollNow(agencyID)
		}
		return p.Nudge(agencyID, reference)
	})
}

// admit asks the stream since when the waiting agencies were watched, and lets their watch begin.
func (a *Daemon) admit(ctx context.Context) error {
	d := &a.agencies
	again, said := time.NewTimer(0), time.Now()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.waits:
		case <-again.C:
		}
		err := a.askStream(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			continue
		case time.Since(said) >= sayAfter:
			said = time.Now().Add(sayEvery)
			a.o.Log.Warn("the watch of agencies that this store has not watched before waits for the stream, which may know since when they were watched",
				"agencies", a.Waiting(), "err", err.Error())
		}
		again.Reset(askAgain)
	}
}

// askStream admits the agencies of which the stream says since when they were watched.
func (a *Daemon) askStream(ctx context.Context) error {
	d := &a.agencies
	for _, id := range d.waiting() {
		since, err := a.currentRelay().WatchedSince(ctx, id)
		if err != nil {
			return err
		}
		if err := a.store.Update(func(tx *store.Tx) error {
			state, _ := tx.Agency(id)
			// One of a copy may still be looking for what an earlier store had not seen.
			if h := state.HeardUntil; h.IsZero() || !since.IsZero() && since.Before(h) {
				state.HeardUntil = since.UTC()
			}
			state.AwaitsStream = false
			return tx.PutAgency(id, state)
		}); err != nil {
			return err
		}
		d.mu.Lock()
		d.admitted[id] = true
		d.mu.Unlock()
		signal(d.changed)
	}
	return nil
}
