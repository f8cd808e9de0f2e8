package daemon

import (
	"context"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/store"
)

const (
	// admitEvery is how often the stream is asked about agencies that wait for it.
	admitEvery = 250 * time.Millisecond
	// logAt is the try after which the log says that they wait.
	logAt = 12
)

// watched are the configured agencies, and the poller of those whose watch may begin. A poller
// watches the agencies that it was made with: where they or their keys change, another value takes
// the place of this one. Only the goroutine of poll replaces it, so the others read it freely.
//
// An agency that this store has never watched waits until the stream was asked since when it was
// watched: where the store was lost, the watch continues where the stream last heard of it. The
// begin of its watch is stored before, so that what happens meanwhile is live. Agencies do not wait
// for each other.
type watched struct {
	agencies []poller.AgencyKeys
	waiting  map[string]time.Time // when the watch began of those that wait for the stream
	poller   *poller.Poller
	made     time.Time
}

// ids returns the agencies that are configured now.
func (a *Daemon) ids() (ids []string) {
	for _, k := range a.watched.Load().agencies {
		ids = append(ids, k.ID)
	}
	return ids
}

// Waiting is how many agencies wait for the stream: nothing is asked of them yet.
func (a *Daemon) Waiting() int { return len(a.watched.Load().waiting) }

// openPoller makes the poller of the agencies of the start.
func (a *Daemon) openPoller(context.Context) error { return a.replacePoller(a.o.Poller.Agencies) }

// replacePoller begins the watch of the agencies that are new to the store, and makes the poller of
// those that do not wait for the stream. What is remembered of an agency that is no longer
// configured stays; configured again, it continues from there.
func (a *Daemon) replacePoller(agencies []poller.AgencyKeys) error {
	now := &watched{agencies: agencies, waiting: map[string]time.Time{}, made: time.Now()}
	o := a.o.Poller
	o.Store, o.Logger, o.Retention, o.Agencies = a.store, a.o.Log, a.o.Retention, nil
	if a.o.Turn != nil {
		o.Allowed = a.o.Turn.Valid
	}
	for _, k := range agencies {
		state, err := a.beginWatch(k.ID)
		if err != nil {
			return err
		}
		if state.AwaitsStream {
			now.waiting[k.ID] = state.WatchStart
		} else {
			o.Agencies = append(o.Agencies, k)
		}
	}
	p, err := poller.New(o)
	if a.store.Failure() != nil {
		return err
	}
	if err != nil {
		return exit.Config(err, "")
	}
	now.poller = p
	a.watched.Store(now)
	return nil
}

// beginWatch returns what the store remembers of an agency, and stores the begin of its watch if
// that is nothing.
func (a *Daemon) beginWatch(id string) (state store.Agency, err error) {
	err = a.store.Update(func(tx *store.Tx) error {
		known := false
		if state, known = tx.Agency(id); known {
			return store.ErrUnchanged
		}
		state = store.Agency{
			WatchStart: time.Now().UTC(), Filter: a.o.Poller.Filter.Encode(),
			AwaitsStream: true,
		}
		return tx.PutAgency(id, state)
	})
	return state, err
}

// poll runs the poller until ctx ends, and replaces it when the configured agencies change or the
// stream says since when waiting ones were watched.
func (a *Daemon) poll(ctx context.Context) (err error) {
	for err == nil && ctx.Err() == nil {
		now := a.watched.Load()
		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			err = now.poller.Run(running)
			close(ended)
		}()
		next := a.change(ctx, now, ended)
		a.steering.Lock()
		stop()
		<-ended
		if err == nil && ctx.Err() == nil {
			err = a.replacePoller(next)
		}
		a.steering.Unlock()
	}
	return err
}

// change waits until there are other agencies or keys, or the watch of a waiting agency begins, and
// returns the agencies that are configured from then on. It returns nil when the poller has ended.
func (a *Daemon) change(ctx context.Context, now *watched, ended <-chan struct{}) []poller.AgencyKeys {
	var again <-chan time.Time // nil: no agency waits
	for try := 1; ; try++ {
		admitted, err := a.admit(ctx, now)
		if admitted {
			return now.agencies
		}
		if err != nil {
			again = time.After(admitEvery)
		}
		if err != nil && try == logAt {
			a.o.Log.Warn("agencies that are new to this store wait for the stream, "+
				"which may know since when they were watched", "agencies", len(now.waiting), "err",
				err.Error())
		}
		select {
		case <-ended:
			return nil
		case next := <-a.configured:
			return next
		case <-again:
		}
	}
}

// readKeys replaces the configured agencies and keys when they change.
func (a *Daemon) readKeys(ctx context.Context) error {
	return a.o.Keys(ctx, func(agencies []poller.AgencyKeys) error { return a.setAgencies(ctx, agencies) })
}

func (a *Daemon) setAgencies(ctx context.Context, agencies []poller.AgencyKeys) error {
	select {
	case a.configured <- agencies:
	case <-ctx.Done():
	}
	return nil
}

// admit asks the stream since when the waiting agencies were watched, and lets their watch begin.
// It reports whether it did so for any.
func (a *Daemon) admit(ctx context.Context, now *watched) (admitted bool, err error) {
	for _, k := range now.agencies {
		if _, waits := now.waiting[k.ID]; !waits {
			continue
		}
		since, err := a.relay.WatchedSince(ctx, k.ID)
		if err != nil {
			return admitted, err
		}
		if err := a.store.Update(func(tx *store.Tx) error {
			state, _ := tx.Agency(k.ID)
			// One of a copy may still be looking for what an earlier store had not seen.
			if h := state.HeardUntil; h.IsZero() || !since.IsZero() && since.Before(h) {
				state.HeardUntil = since.UTC()
			}
			state.AwaitsStream = false
			return tx.PutAgency(k.ID, state)
		}); err != nil {
			return admitted, err
		}
		admitted = true
	}
	return admitted, nil
}

// watch is the status of the poller, and of the agencies that wait for the stream.
func (a *Daemon) watch() poller.Status {
	now := a.watched.Load()
	s := now.poller.Status()
	for _, k := range now.agencies {
		if since, waits := now.waiting[k.ID]; waits {
			s.Agencies = append(s.Agencies,
				poller.AgencyStatus{AgencyID: k.ID, State: ops.WaitingForStream, WatchStart: since})
		}
	}
	return s
}

// steer returns the poller for a command that changes what it does, until done is called. It waits
// for one that is just being made: what a poller is asked after its end would be lost.
func (a *Daemon) steer() (p *poller.Poller, done func()) {
	a.steering.RLock()
	return a.watched.Load().poller, a.steering.RUnlock
}

func (a *Daemon) resume(_ context.Context, q ops.AgencyRequest) (r ops.ResumeAnswer, err error) {
	p, done := a.steer()
	defer done()
	r.Ended, err = p.Resume(q.AgencyID, q.PropertyReferenceID)
	return r, err
}

func (a *Daemon) approve(_ context.Context, q ops.AgencyRequest) (r ops.ApproveAnswer, err error) {
	p, done := a.steer()
	defer done()
	r.Held, err = p.Approve(q.AgencyID)
	return r, err
}

func (a *Daemon) pollNow(_ context.Context, q ops.AgencyRequest) (poller.PolledNow, error) {
	p, done := a.steer()
	defer done()
	if q.PropertyReferenceID == "" {
		return p.PollNow(q.AgencyID)
	}
	return p.Nudge(q.AgencyID, q.PropertyReferenceID)
}
