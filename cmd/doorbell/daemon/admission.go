package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

const (
	// prepareLimit is how long the start of a store that watches nobody yet waits for the stream, and connectLimit for a NATS
	// that does not answer. The watch of an agency that is not compared by then begins later.
	prepareLimit = 10 * time.Second
	connectLimit = 3 * time.Second
	// admitAgain is how long it takes until a failure, or a full disk, is tried again.
	admitAgain = 10 * time.Second
)

// admission lets the first requests for an agency wait until the event log has what the stream knows of it: where its store was
// lost, the watch goes on where the stream heard of it last. Only an agency that this store has never watched waits. The begin of
// its watch is stored before, so that what happens meanwhile is news. Agencies do not wait for each other.
type admission struct {
	mu     sync.Mutex
	known  map[string]bool      // agencies; false: it waits for the stream
	since  map[string]time.Time // when the watch of those that wait began
	failed error                // a commit may have happened: the process has to end
	news   chan struct{}        // capacity 1: one more may be watched
	work   sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context

	setting sync.Mutex // held while the poller is told whom to watch
	wanted  []poller.AgencyKeys
}

// compare begins to compare the agencies that wait. Where all of them do, the start waits for that, but not for long.
func (a *Daemon) compare(ctx context.Context) error {
	d := &a.admission
	d.known, d.since, d.news, d.wanted = map[string]bool{}, map[string]time.Time{}, make(chan struct{}, 1), a.o.Poller.Agencies
	d.ctx, d.stop = context.WithCancel(ctx)
	a.onClose(func() {
		d.stop()
		d.work.Wait()
	})
	if err := a.await(d.wanted); errors.Is(err, store.ErrNoSpace) {
		return badDisk(err, "")
	} else if err != nil {
		return a.ended(err)
	}
	if len(d.admitted(d.wanted)) > 0 {
		return nil
	}
	limit, away := time.After(cmp.Or(a.o.Patience, prepareLimit)), time.After(connectLimit)
	for len(d.admitted(d.wanted)) < len(d.wanted) {
		if err := d.failure(); err != nil {
			return a.ended(err)
		}
		select {
		case <-d.news:
			continue
		case <-away:
			if a.conn.IsConnected() {
				continue
			}
		case <-limit:
		case <-ctx.Done():
		}
		return nil
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

func (d *admission) admit(id string) {
	d.mu.Lock()
	d.known[id] = true
	d.mu.Unlock()
	d.poke()
}

// fail ends the process.
func (d *admission) fail(err error) {
	d.mu.Lock()
	d.failed = err
	d.mu.Unlock()
	d.poke()
}

func (d *admission) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *admission) poke() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// await finds out who of a list waits, and compares those.
func (a *Daemon) await(list []poller.AgencyKeys) error {
	d := &a.admission
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	began := time.Now().UTC()
	for _, k := range list {
		if _, known := d.known[k.ID]; known {
			continue
		}
		waits, since := true, began
		look := func(tx *store.Tx) (bool, error) {
			state, exists, err := tx.Agency(k.ID)
			if exists {
				waits, since = state.AwaitsStream, state.WatchStart
			}
			return !exists, err
		}
		err := a.store.Change(look, func(tx *store.Tx) error {
			return tx.PutAgency(k.ID, store.Agency{WatchStart: began, Filter: a.o.Poller.Filter.Encode(), AwaitsStream: true})
		})
		if err != nil {
			return err
		}
		if d.known[k.ID] = !waits || a.o.Accept.Alone; !d.known[k.ID] {
			ids = append(ids, k.ID)
			d.since[k.ID] = since
		}
	}
	if len(ids) > 0 {
		d.work.Go(func() { a.prepare(ids) })
	}
	return nil
}

// prepare compares agencies with the stream until all are, and lets each go on as soon as it is.
func (a *Daemon) prepare(ids []string) {
	d := &a.admission
	late := time.AfterFunc(connectLimit, func() {
		if n := len(d.waiting()); n > 0 && d.ctx.Err() == nil {
			a.o.Log.Warn("the watch of agencies that this store has not watched before waits for the stream, which may hold what another store has told of them; "+
				"if there was none, `doorbell run --alone` does not wait", "agencies", n)
		}
	})
	defer late.Stop()
	for len(ids) > 0 {
		var mu sync.Mutex
		var again []string
		err := a.currentRelay().Prepare(d.ctx, ids, func(id string, err error) { // each is told of its own
			switch {
			case err == nil:
				d.admit(id)
			case errors.Is(err, relay.ErrLog) && !errors.Is(err, store.ErrNoSpace):
				d.fail(err)
			default:
				mu.Lock()
				again = append(again, id)
				mu.Unlock()
			}
		})
		if ids = again; len(ids) == 0 || d.failure() != nil {
			return
		}
		if d.ctx.Err() == nil {
			a.o.Log.Error("agencies cannot be compared with the stream; retrying", "agencies", len(ids), "err", err)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(admitAgain):
		}
	}
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

// watch is how the poller stands, and who waits for the stream.
func (a *Daemon) watch() (poller.Status, error) {
	s, err := a.poller.Status()
	for _, id := range a.admission.waiting() {
		s.Agencies = append(s.Agencies, poller.AgencyStatus{AgencyID: id, State: ops.WaitingForStream, WatchStart: a.admission.began(id)})
	}
	return s, err
}

func (d *admission) began(id string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since[id]
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
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.wanted = list
	d.mu.Unlock()
	return nil
}

// wantsOneOf says whether somebody of a list was wanted before.
func (d *admission) wantsOneOf(list []poller.AgencyKeys) bool {
	return slices.ContainsFunc(d.wanted, func(before poller.AgencyKeys) bool {
		return slices.ContainsFunc(list, func(k poller.AgencyKeys) bool { return k.ID == before.ID })
	})
}

// admitOthers lets those be watched who waited at the start, or who came later.
func (a *Daemon) admitOthers(ctx context.Context) error {
	d := &a.admission
	defer d.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.news:
		}
		if err := d.failure(); err != nil {
			return err
		}
		d.setting.Lock()
		err := a.poller.SetAgencies(d.admitted(d.wanted))
		d.setting.Unlock()
		switch {
		case errors.Is(err, store.ErrNoSpace):
			a.o.Log.Error("the watch of an agency waits for space", "err", err)
			time.AfterFunc(admitAgain, d.poke)
		case err != nil:
			return err
		}
	}
}
