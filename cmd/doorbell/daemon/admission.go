package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
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
	// admitAgain is how long it takes until a full disk is tried again.
	admitAgain = 10 * time.Second
)

// admission lets the first requests for an agency wait until the stream was asked since when it was watched: where its store was
// lost, the watch goes on where the stream heard of it last. Only an agency that this store has never watched waits. The begin of
// its watch is stored before, so that what happens meanwhile is news. Agencies do not wait for each other.
type admission struct {
	mu    sync.Mutex
	known map[string]bool      // agencies; false: it waits for the stream
	since map[string]time.Time // when the watch of those that wait began
	news  chan struct{}        // capacity 1: one more waits

	setting sync.Mutex // held while the poller is told whom to watch
	wanted  []poller.AgencyKeys
}

// beginWatch stores the begin of the watch of the agencies that are new to the store.
func (a *Daemon) beginWatch(context.Context) error {
	d := &a.admission
	d.wanted = a.o.Poller.Agencies
	if err := a.await(d.wanted); errors.Is(err, store.ErrNoSpace) {
		return exit.IO(err, "")
	} else if err != nil {
		return a.ended(err)
	}
	return nil
}

// admitted are those of a list whose watch may begin.
func (d *admission) admitted(list []poller.AgencyKeys) (may []poller.AgencyKeys) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range list {
		if d.known[k.ID] {
			may = append(may, k)
		}
	}
	return may
}

func (d *admission) poke() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// await finds out who of a list waits, and begins the watch of those who are new.
func (a *Daemon) await(list []poller.AgencyKeys) error {
	d := &a.admission
	d.mu.Lock()
	defer d.mu.Unlock()
	began, more := time.Now().UTC(), false
	for _, k := range list {
		if _, known := d.known[k.ID]; known {
			continue
		}
		waits, since := true, began
		look := func(tx *store.Tx) (bool, error) {
			state, exists := tx.Agency(k.ID)
			if exists {
				waits, since = state.AwaitsStream, state.WatchStart
			}
			return !exists, nil
		}
		err := a.store.Change(look, func(tx *store.Tx) error {
			return tx.PutAgency(k.ID, store.Agency{WatchStart: began, Filter: a.o.Poller.Filter.Encode(), AwaitsStream: true})
		})
		if err != nil {
			return err
		}
		if d.known[k.ID] = !waits; waits {
			d.since[k.ID], more = since, true
		}
	}
	if more {
		d.poke()
	}
	return nil
}

// waiting are those that wait for the stream.
func (d *admission) waiting() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, may := range d.known {
		if !may && slices.ContainsFunc(d.wanted, func(k poller.AgencyKeys) bool { return k.ID == id }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// watch is how the poller stands, and who waits for the stream, or is just being handed to the poller.
func (a *Daemon) watch() poller.Status {
	d := &a.admission
	s := a.poller.Status()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.wanted {
		since, waited := d.since[k.ID]
		if waited && !slices.ContainsFunc(s.Agencies, func(w poller.AgencyStatus) bool { return w.AgencyID == k.ID }) {
			s.Agencies = append(s.Agencies, poller.AgencyStatus{AgencyID: k.ID, State: ops.WaitingForStream, WatchStart: since})
		}
	}
	return s
}

// Waiting is how many agencies wait for the stream: nothing is asked of them yet.
func (a *Daemon) Waiting() int { return len(a.admission.waiting()) }

// ErrUndecided: all of those who stay wait for the stream, so that nobody would be watched.
var ErrUndecided = errors.New("the watch of those who stay has not begun yet")

// setAgencies tells the poller whom to watch, as far as that may begin. After ErrUndecided it has to be told once more.
func (a *Daemon) setAgencies(list []poller.AgencyKeys) error {
	d := &a.admission
	d.setting.Lock()
	defer d.setting.Unlock()
	if err := a.await(list); err != nil {
		return err
	}
	err := a.poller.SetAgencies(d.admitted(list))
	if errors.Is(err, poller.ErrRetiresAll) && d.wantsOneOf(list) {
		return ErrUndecided
	}
	if err == nil || errors.Is(err, store.ErrNoSpace) { // of the change that waits for space a part may be in force
		d.mu.Lock()
		d.wanted = list
		d.mu.Unlock()
	}
	return err
}

// wantsOneOf says whether somebody of a list was wanted before.
func (d *admission) wantsOneOf(list []poller.AgencyKeys) bool {
	return slices.ContainsFunc(d.wanted, func(before poller.AgencyKeys) bool {
		return slices.ContainsFunc(list, func(k poller.AgencyKeys) bool { return k.ID == before.ID })
	})
}

// admitOthers asks the stream for those who wait, and lets them be watched.
func (a *Daemon) admitOthers(ctx context.Context) error {
	d := &a.admission
	again, said := time.NewTimer(0), time.Now()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.news:
		case <-again.C:
		}
		err := a.askStream(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			continue
		case ends(err):
			return err
		case errors.Is(err, store.ErrNoSpace):
			a.o.Log.Error("the watch of an agency waits for space", "err", err)
			again.Reset(admitAgain)
			continue
		case time.Since(said) >= sayAfter:
			said = time.Now().Add(sayEvery)
			a.o.Log.Warn("the watch of agencies that this store has not watched before waits for the stream, which may know since when they were watched",
				"agencies", a.Waiting(), "err", err.Error())
		}
		again.Reset(askAgain)
	}
}

// askStream lets those be watched of whom the stream says since when they were.
func (a *Daemon) askStream(ctx context.Context) error {
	d := &a.admission
	for _, id := range d.waiting() {
		since, err := a.currentRelay().WatchedSince(ctx, id)
		if err != nil {
			return err
		}
		if err := a.store.Update(func(tx *store.Tx) error {
			state, _ := tx.Agency(id)
			state.HeardUntil, state.AwaitsStream = since.UTC(), false
			return tx.PutAgency(id, state)
		}); err != nil {
			return err
		}
		d.mu.Lock()
		d.known[id] = true
		d.mu.Unlock()
		if err := a.watchAdmitted(); err != nil {
			return err
		}
	}
	return a.watchAdmitted()
}

// watchAdmitted lets those be watched who are wanted and do not wait.
func (a *Daemon) watchAdmitted() error {
	d := &a.admission
	d.setting.Lock()
	defer d.setting.Unlock()
	if may := d.admitted(d.wanted); len(may) > 0 {
		return a.poller.SetAgencies(may)
	}
	return nil
}
