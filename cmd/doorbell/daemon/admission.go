package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

const (
	// prepareLimit is how long the start waits for the stream, which may hold what a restored or a new store does not. The
	// watch of an agency that is not done by then begins later.
	prepareLimit = 10 * time.Second
	// importLimit is how late it begins at the latest, however much the stream holds.
	importLimit = 10 * time.Minute
	// connectLimit is how long a NATS is waited for that does not answer.
	connectLimit = 3 * time.Second
	// admitAgain is how long it takes until a full disk is asked again to let a watch begin.
	admitAgain = 10 * time.Second
)

// admission lets the watch of an agency begin only when it is decided what the event log takes over of what only the stream
// holds: so sequences continue, and a watch whose store was lost goes on where the stream heard of it last. Agencies do not
// wait for each other, and polling waits for no NATS that does not answer: what is not done then is done beside it, and said.
type admission struct {
	mu      sync.Mutex
	decided map[string]bool // false: it is being found out
	failed  error           // a commit may have happened: the process has to end
	news    chan struct{}   // capacity 1: one more is decided
	work    sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context

	setting sync.Mutex // held while the poller is told whom to watch
	wanted  []poller.AgencyKeys
}

// compare begins to find out about all agencies, and waits for that, but not for long.
func (a *Daemon) compare(ctx context.Context) error {
	d := &a.admission
	d.decided, d.news, d.wanted = map[string]bool{}, make(chan struct{}, 1), a.o.Poller.Agencies
	d.ctx, d.stop = context.WithCancel(ctx)
	a.onClose(func() {
		d.stop()
		d.work.Wait()
	})
	a.prepare(d.wanted)
	limit := time.After(cmp.Or(a.o.Patience, prepareLimit))
	for len(d.admitted(d.wanted)) < len(d.wanted) {
		if err := d.failure(); err != nil {
			return a.ended(err)
		}
		select {
		case <-d.news:
		case <-ctx.Done():
			return nil
		case <-limit:
			a.o.Log.Warn("the stream holds much that the event log does not: agencies whose watch has not begun yet follow when it is taken over",
				"agencies", len(d.wanted)-len(d.admitted(d.wanted)))
			return nil
		}
	}
	return nil
}

// admitted are those of a list whose watch may begin.
func (d *admission) admitted(list []poller.AgencyKeys) (may []poller.AgencyKeys) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range list {
		if d.decided[k.ID] {
			may = append(may, k)
		}
	}
	return may
}

func (d *admission) admit(id string) {
	d.mu.Lock()
	d.decided[id] = true
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

// prepare begins to find out about those of a list of whom nothing is known yet.
func (a *Daemon) prepare(list []poller.AgencyKeys) {
	d := &a.admission
	d.mu.Lock()
	var ids []string
	for _, k := range list {
		if _, asked := d.decided[k.ID]; !asked {
			d.decided[k.ID] = false
			ids = append(ids, k.ID)
		}
	}
	d.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	d.work.Go(func() {
		ctx, cancel := context.WithTimeout(d.ctx, importLimit)
		defer cancel()
		a.mu.Lock()
		conn, r := a.conn, a.relay
		a.mu.Unlock()
		impatient := time.AfterFunc(connectLimit, func() {
			if !conn.IsConnected() {
				cancel()
			}
		})
		defer impatient.Stop()
		a.decide(ctx, r, ids)
	})
}

// decide finds out about agencies. A server that is away is said once, everything else of each of them. Where the outcome of a
// commit is not known, nobody is admitted any more.
func (a *Daemon) decide(ctx context.Context, r *relay.Relay, ids []string) {
	const late = "the watch begins before the stream was compared with the event log; that follows when it can be read"
	var away sync.Once
	_ = r.Prepare(ctx, ids, func(id string, err error) { // each is told of its own
		if errors.Is(err, relay.ErrLog) && !errors.Is(err, store.ErrNoSpace) {
			a.admission.fail(err)
			return
		}
		switch {
		case err == nil || a.admission.ctx.Err() != nil:
		case errors.Is(err, relay.ErrNotConnected), errors.Is(err, relay.ErrNoAnswer):
			away.Do(func() { a.o.Log.Error(late, "agencies", len(ids), "err", err) })
		default:
			a.o.Log.Error(late, "agency", id, "err", err)
		}
		a.admission.admit(id)
	})
}

// ErrUndecided: of those who stay the watch of none has begun yet, so that nobody would be watched.
var ErrUndecided = errors.New("the watch of those who stay has not begun yet")

// setAgencies tells the poller whom to watch, as far as that may begin. After ErrUndecided it has to be told once more.
func (a *Daemon) setAgencies(list []poller.AgencyKeys) error {
	d := &a.admission
	d.setting.Lock()
	defer d.setting.Unlock()
	a.prepare(list)
	err := a.poller.SetAgencies(d.admitted(list))
	if errors.Is(err, poller.ErrRetiresAll) && d.wantsOneOf(list) {
		return ErrUndecided
	}
	if err != nil {
		return err
	}
	d.wanted = list
	return nil
}

// wantsOneOf says whether somebody of a list was wanted before.
func (d *admission) wantsOneOf(list []poller.AgencyKeys) bool {
	return slices.ContainsFunc(d.wanted, func(before poller.AgencyKeys) bool {
		return slices.ContainsFunc(list, func(k poller.AgencyKeys) bool { return k.ID == before.ID })
	})
}

// admitOthers lets the watch of those begin who were not decided at the start, or who came later.
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
