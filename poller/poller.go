package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Poller watches agencies. Make it with New, start it with Run.
type Poller struct {
	o          Options
	store      *store.Store
	client     *listings.Client
	log        *slog.Logger
	rules      watch.Rules
	budget     *budget
	dispatcher *dispatcher
	base       *backoff // the base URL does not answer

	setting   sync.Mutex    // held by SetAgencies
	startWalk func(*agency) // starts the walks of an agency; nil while Run is not under way; guarded by setting
	registry  atomic.Pointer[registry]

	metrics   *Metrics
	scheduler *scheduler
	mu        sync.Mutex
	keys      map[string]*backoff // by fingerprint: the API answered 429, or 503 with Retry-After
	down      atomic.Bool         // the base URL did not answer, once in this process
	full      atomic.Bool         // the disk: nothing could be remembered
	waiting   atomic.Bool         // for space, as was said
	space     *backoff
	filled    chan struct{} // the disk has just become full

	heartbeats heartbeats

	overdue atomic.Bool // there are more insertions than the allowed staleness has time for
}

// New prepares a poller: it notes the begin of the watch of every agency that is new, before anything is asked, and ends
// the halts of those whose key has changed. The error is a setting that cannot work, or the store's.
func New(o Options) (*Poller, error) {
	o = o.withDefaults()
	p := &Poller{
		o: o, store: o.Store, log: o.Logger, rules: watch.NewRules(o.IgnoreInsertion, o.IgnoreContact, o.IDFields),
		budget: newBudget(o.RequestsPerSecond), base: newBackoff(time.Second, o.RetryMax), space: newBackoff(spaceEvery, o.RetryMax),
		scheduler: newScheduler(schedule.Options{Rate: o.RequestsPerSecond, Interval: o.PollInterval, Staleness: o.MaxStaleness}),
		keys:      map[string]*backoff{},
		metrics:   NewMetrics(),
		filled:    make(chan struct{}, 1),
	}
	p.dispatcher = newDispatcher(p.budget, p.scheduler, &p.heartbeats.polls)
	o.API.Gate = admission{p}
	o.API.IDFields, o.API.IgnoreInsertions = o.IDFields, o.IgnoreInsertion
	client, err := listings.New(o.API)
	if err != nil {
		return nil, err
	}
	p.client = client
	nobody := newRegistry(0)
	p.registry.Store(nobody)
	if err := nobody.accepts(o.Agencies); err != nil {
		return nil, err
	}
	watched, err := p.next(nobody, o.Agencies)
	if err != nil {
		return nil, err
	}
	p.registry.Store(watched)
	p.checkCap()
	return p, nil
}

// Run watches until ctx is done, then returns nil. Any other end is a failure after which the process must end: see
// store.ErrUnknownOutcome.
func (p *Poller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	p.setting.Lock()
	p.startWalk = func(a *agency) { g.Go(func() error { return a.while(ctx, a.walks, func() {}) }) }
	for _, a := range p.watched() {
		p.startWalk(a)
	}
	p.setting.Unlock()
	g.Go(func() error {
		<-ctx.Done()
		p.setting.Lock()
		defer p.setting.Unlock()
		p.startWalk = nil
		return ctx.Err()
	})
	g.Go(func() error { return p.monitorStaleness(ctx) })
	g.Go(func() error { return p.watchSpace(ctx) })
	g.Go(func() error {
		return p.dispatcher.run(ctx, func(t schedule.Turn) {
			g.Go(func() error { return p.serve(ctx, t) })
		})
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serve polls an insertion of an agency that is watched. Without a good answer it is put back into the schedule.
func (p *Poller) serve(ctx context.Context, t schedule.Turn) error {
	defer p.dispatcher.end(t)
	later := func() { p.scheduler.put(t, time.Now().Add(time.Second)) } // of an agency that is just coming or going
	a := p.agency(t.Agency)
	if a == nil {
		later()
		return nil
	}
	return a.while(ctx, func(ctx context.Context) error {
		good, until, err := a.pollScheduled(ctx, t.Reference)
		if !good {
			p.scheduler.put(t, until)
		}
		return err
	}, later)
}

// SetAgencies says who is watched from now on and with which keys, and what of a person is said; it may be called while Run
// is under way. A new agency is watched at once. One that is not named any more is retired: nothing is asked and nothing is said of it, and what is
// remembered stays; named again, it goes on from there. A changed key ends the halts under the one before.
//
// It returns when nothing is under way for those who were retired. After ErrRetiresAll nothing has changed; after any
// other error it may be called again, if the error lets the process live.
func (p *Poller) SetAgencies(list []AgencyKeys) error {
	p.setting.Lock()
	defer p.setting.Unlock()
	before := p.registry.Load()
	if err := before.accepts(list); err != nil {
		return err
	}
	for _, a := range before.order { // what is owed of one that is retired would be forgotten with it
		if !slices.ContainsFunc(list, func(k AgencyKeys) bool { return k.ID == a.id }) {
			if err := a.pay(); err != nil {
				return fmt.Errorf("agency %s: %w", a.id, err)
			}
		}
	}
	after, err := p.next(before, list)
	if err != nil {
		return err
	}
	p.retire(before, after)
	for _, k := range list {
		a := before.byID[k.ID]
		if a == nil {
			p.log.Info("agency is watched", "agency", k.ID)
			continue
		}
		if err := a.configure(k); err != nil {
			return fmt.Errorf("agency %s: %w", k.ID, err)
		}
	}
	return nil
}

// next is the registry that follows another.
func (p *Poller) next(before *registry, list []AgencyKeys) (*registry, error) {
	after := newRegistry(len(list))
	for _, k := range list {
		if a := before.byID[k.ID]; a != nil {
			after.add(a)
			continue
		}
		a := newAgency(p, k)
		if err := a.load(); err != nil {
			p.scheduler.leave(k.ID)
			for _, came := range after.order {
				if before.byID[came.id] == nil {
					p.scheduler.leave(came.id)
				}
			}
			return nil, fmt.Errorf("agency %s: %w", k.ID, err)
		}
		after.add(a)
	}
	return after, nil
}

// retire replaces the registry, ends what is under way for those who are not in the new one, and waits for that.
func (p *Poller) retire(before, after *registry) {
	var gone []*agency
	for _, a := range before.order {
		if after.byID[a.id] == nil {
			gone = append(gone, a)
			a.stop()
		}
	}
	p.registry.Store(after)
	for _, a := range after.order {
		if before.byID[a.id] == nil && p.startWalk != nil {
			p.startWalk(a)
		}
	}
	for _, a := range gone {
		a.active.Wait()
		p.scheduler.leave(a.id)
		p.metrics.Latencies.DeleteLabelValues(strings.ToValidUTF8(a.id, "\uFFFD"))
		p.log.Info("agency is retired; what is remembered of it stays", "agency", a.id)
	}
}

// Turned says when the dispatcher and the monitor of staleness last went round their loops; zero before Run. Each does so once a
// minute at least, whatever the API does: one that has not for some minutes hangs.
func (p *Poller) Turned() (polls, staleness time.Time) {
	return p.heartbeats.polls.last(), p.heartbeats.staleness.last()
}

// NoSpace says whether nothing is asked because nothing could be remembered: the disk or the store is full.
func (p *Poller) NoSpace() bool { return p.full.Load() }

// Approve believes the held changes of an agency, because a person says that they are true. The next complete walk or poll that still
// shows one announces it; a larger mass of insertions is held again. It says whether anything was held.
func (p *Poller) Approve(agencyID string) (held bool, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return false, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	a.committing.Lock()
	err = a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		e, held, err = approve(tx, agencyID)
		return e, err
	})
	a.committing.Unlock()
	if err != nil || !held {
		return held, err
	}
	p.log.Info("the held change is approved", "agency", agencyID)
	a.wakeWalk()
	return true, nil
}

// ApproveRemembered does in the store of a stopped daemon what Approve does in a running one.
func ApproveRemembered(s *store.Store, agencyID string) (held bool, err error) {
	err = s.Update(func(tx *store.Tx) (err error) {
		var e watch.Effects
		if e, held, err = approve(tx, agencyID); err != nil {
			return err
		}
		return write(tx, agencyID, e)
	})
	return held, err
}

func approve(tx *store.Tx, agencyID string) (e watch.Effects, held bool, err error) {
	state, known := tx.Agency(agencyID)
	switch {
	case !known:
		return e, false, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	case state.Held == nil && state.Redaction == nil:
		return e, false, nil
	}
	for _, held := range []**store.Held{&state.Held, &state.Redaction} {
		if *held != nil {
			h := **held
			h.Approved, h.Until = true, time.Now().UTC()
			*held = &h
		}
	}
	e.State = &state
	return e, true, nil
}

// ErrHalted is returned when an agency is to be asked that is halted.
var ErrHalted = errors.New("agency is halted")

// PolledNow is what PollNow lets happen.
type PolledNow struct {
	Insertions int `json:"insertions"` // are polled as soon as the share of the agency allows
	Of         int `json:"of"`         // in the schedule
}

// nowWithin is how much of the budget PollNow may claim.
const nowWithin = time.Minute

// PollNow walks an agency now and polls its insertions before what else is planned of it: those that have waited the
// longest, and no more of them than a minute of the budget. It neither waits for that, nor exceeds the budget, nor shortens
// what the API asked to wait. It returns ErrHalted if nothing of the agency may be asked.
func (p *Poller) PollNow(agencyID string) (done PolledNow, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return done, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if a.isHalted(listings.Request{Operation: listings.OperationInsertions, AgencyID: agencyID}) {
		return done, fmt.Errorf("%w: %s", ErrHalted, agencyID)
	}
	all := p.scheduler.waits(agencyID)
	slices.SortStableFunc(all, func(x, y watch.Wait) int { return x.Since.Compare(y.Since) })
	longest := all[:min(len(all), max(1, int(p.o.RequestsPerSecond*nowWithin.Seconds())))]
	for _, w := range longest {
		p.scheduler.urge(agencyID, w.Reference)
	}
	a.wakeWalk()
	return PolledNow{Insertions: len(longest), Of: len(all)}, nil
}
