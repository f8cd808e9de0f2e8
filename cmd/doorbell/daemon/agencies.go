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
	// sayAfter is how long agencies wait for the stream before the log says so.
	sayAfter = 3 * time.Second
	// sayEvery is how often it says so again, askAgain how often the stream is asked.
	sayEvery = 10 * time.Minute
	askAgain = 250 * time.Millisecond
)

// watched are the configured agencies, and the poller of those whose watch may begin. A poller
// watches the agencies that it was made with: where they or their keys change, another value takes
// the place of this one. Only the goroutine of poll replaces it, so the others read it freely.
//
// An agency that this store has never watched waits until the stream was asked since when it was
// watched: where the store was lost, the watch goes on where the stream heard of it last. The begin
// of its watch is stored before, so that what happens meanwhile is live. Agencies do not wait for
// each other.
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

// openPoller makes the poller of the agencies of the start.
func (a *Daemon) openPoller(context.Context) error { return a.replacePoller(a.o.Poller.Agencies) }

// replacePoller begins the watch of the agencies that are new to the store, and makes the poller of
// those that do not wait for the stream. What is remembered of an agency that is no longer
// configured stays; configured again, it goes on from there.
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
		state = store.Agency{WatchStart: time.Now().UTC(), Filter: a.o.Poller.Filter.Encode(), AwaitsStream: true}
		return tx.PutAgency(id, state)
	})
	return state, err
}

// poll runs the poller until ctx ends, and replaces it when the configured agencies change or the
// stream says since when waiting ones were watched.
func (a *Daemon) poll(ctx context.Context) error {
	said := time.Now().Add(sayAfter - sayEvery)
	for ctx.Err() == nil {
		if err := a.pollUntilChanged(ctx, &said); err != nil {
			return err
		}
	}
	return nil
}

// pollUntilChanged runs one poller. said is when the log was told of agencies that wait.
func (a *Daemon) pollUntilChanged(ctx context.Context, said *time.Time) error {
	now := a.watched.Load()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- now.poller.Run(running) }()
	ask := time.NewTimer(0)
	defer ask.Stop()
	agencies := now.agencies
	for changed := false; !changed; {
		select {
		case err := <-ended:
			return err
		case agencies = <-a.configured:
			changed = true
		case <-ask.C:
			admitted, err := a.admit(ctx, now)
			if changed = admitted; err == nil || ctx.Err() != nil {
				break
			}
			ask.Reset(askAgain)
			if time.Since(*said) >= sayEvery {
				*said = time.Now()
				a.o.Log.Warn("the watch of agencies that this store has not watched before waits for the stream, which may know since when they were watched",
					"agencies", len(now.waiting), "err", err.Error())
			}
		}
	}
	a.steering.Lock()
	defer a.steering.Unlock()
	stop()
	if err := <-ended; err != nil || ctx.Err() != nil {
		return err
	}
	return a.replacePoller(agencies)
}

// setAgencies replaces the configured agencies and keys.
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
		since, err := a.publisher.Load().WatchedSince(ctx, k.ID)
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
			s.Agencies = append(s.Agencies, poller.AgencyStatus{AgencyID: k.ID, State: ops.WaitingForStream, WatchStart: since})
		}
	}
	return s
}

// Waiting is how many agencies wait for the stream: nothing is asked of them yet.
func (a *Daemon) Waiting() int { return len(a.watched.Load().waiting) }

// steer lets a command change what the poller does. It waits for one that is just being made: what
// a poller is asked after its end would be lost.
func steer[T any](a *Daemon, change func(*poller.Poller) (T, error)) (T, error) {
	a.steering.RLock()
	defer a.steering.RUnlock()
	return change(a.watched.Load().poller)
}

func (a *Daemon) resume(agencyID, reference string) (int, error) {
	return steer(a, func(p *poller.Poller) (int, error) { return p.Resume(agencyID, reference) })
}

func (a *Daemon) approve(agencyID string) (bool, error) {
	return steer(a, func(p *poller.Poller) (bool, error) { return p.Approve(agencyID) })
}

func (a *Daemon) pollNow(agencyID, reference string) (poller.PolledNow, error) {
	return steer(a, func(p *poller.Poller) (poller.PolledNow, error) {
		if reference == "" {
			return p.PollNow(agencyID)
		}
		return p.Nudge(agencyID, reference)
	})
}
