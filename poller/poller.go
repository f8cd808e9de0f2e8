package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/events"
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

	agencies []*agency          // in the order of the configuration
	byID     map[string]*agency // the same ones

	metrics  *Metrics
	schedule *schedule.Schedule  // that of the dispatcher
	keys     map[string]*backoff // by fingerprint: the API answered 429, or 503 with Retry-After

	heartbeats heartbeats

	overdue atomic.Bool // there are more insertions than the allowed staleness has time for
}

// New prepares a poller: it notes the begin of the watch of every agency that is new, before
// anything is asked, and ends the halts of those whose key has changed. It writes in any case: a
// disk that is full ends the start. The error is a setting that cannot work, or the store's.
func New(o Options) (*Poller, error) {
	o = o.withDefaults()
	p := &Poller{
		o: o, store: o.Store, log: o.Logger,
		rules:  watch.NewRules(o.API.IgnoreInsertions, o.IgnoreContact, o.API.IDFields),
		budget: newBudget(o.RequestsPerSecond), base: newBackoff(time.Second, o.RetryMax),
		keys:    map[string]*backoff{},
		metrics: o.Metrics,
		byID:    map[string]*agency{},
	}
	p.dispatcher = newDispatcher(p.budget,
		schedule.Options{
			Rate: o.RequestsPerSecond, Interval: o.PollInterval,
			Staleness: o.MaxStaleness,
		}, &p.heartbeats.polls)
	p.schedule = p.dispatcher.schedule
	p.dispatcher.full = o.Store.Full
	o.API.Gate = admission{p}
	client, err := listings.New(o.API)
	if err != nil {
		return nil, err
	}
	p.client = client
	if err := o.Store.RequireSpace(); err != nil {
		return nil, err
	}
	for _, k := range o.Agencies {
		p.keys[k.Key.Fingerprint()] = newBackoff(time.Second, watch.LongestKeyWait)
	}
	for _, k := range o.Agencies {
		if p.byID[k.ID] != nil {
			return nil, fmt.Errorf("agency %s is named twice", k.ID)
		}
		a := newAgency(p, k)
		if err := a.load(); err != nil {
			return nil, fmt.Errorf("agency %s: %w", k.ID, err)
		}
		p.agencies = append(p.agencies, a)
		p.byID[k.ID] = a
	}
	p.checkCap()
	return p, nil
}

// Run watches until ctx is done, then returns nil. Any other end is a failure after which the
// process must end: see [store.Store.Failed].
func (p *Poller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, a := range p.agencies {
		g.Go(func() error { return a.walks(ctx) })
	}
	g.Go(func() error { return p.monitorStaleness(ctx) })
	g.Go(func() error {
		return p.dispatcher.run(ctx, func(t schedule.Turn) {
			g.Go(func() error {
				defer p.dispatcher.end(t)
				return p.byID[t.Agency].pollScheduled(ctx, t.Reference)
			})
		})
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Turned says when the dispatcher and the monitor of staleness last went round their loops; zero
// before Run. Each does so once a minute at least, whatever the API does: one that has not for some
// minutes hangs.
func (p *Poller) Turned() (polls, staleness time.Time) {
	return p.heartbeats.polls.last(), p.heartbeats.staleness.last()
}

// Approve believes the held changes of an agency, because a person says that they are true. The
// next complete walk or poll that still shows one announces it; a larger mass of insertions is held
// again. It says whether anything was held.
func (p *Poller) Approve(agencyID string) (held bool, err error) {
	a := p.byID[agencyID]
	if a == nil {
		return false, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	err = a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		state, _ := tx.Agency(agencyID)
		for _, h := range []**store.Held{&state.Held, &state.Redaction} {
			if *h != nil {
				believed := **h
				believed.Approved, believed.Until = true, time.Now().UTC()
				*h, held, e.State = &believed, true, &state
			}
		}
		return e, nil
	})
	if err != nil || !held {
		return held, err
	}
	p.log.Info("the held change is approved", "agency", agencyID)
	a.wakeWalk()
	return true, nil
}

// Errors of PollNow and Nudge.
var (
	// ErrHalted: what is to be polled is halted.
	ErrHalted = errors.New("agency is halted")
	// ErrTooSoon is what a TooSoonError is.
	ErrTooSoon = errors.New("too soon")
)

// TooSoonError: an unknown reference has just started a walk of this agency.
type TooSoonError struct {
	AgencyID string
	Wait     time.Duration // until another one may
}

func (e *TooSoonError) Error() string {
	return fmt.Sprintf("%s does not list this reference, and was walked for an unknown one less than a minute ago: try again in %.0f s",
		e.AgencyID, math.Ceil(e.Wait.Seconds()))
}

func (e *TooSoonError) Is(target error) bool { return target == ErrTooSoon }

// PolledNow is what PollNow and Nudge let happen.
type PolledNow struct {
	Waits      Waits `json:"waits"`
	Insertions int   `json:"insertions"` // are polled as soon as the share of the agency allows
	Of         int   `json:"of"`         // in the schedule
}

// Waits is what waits for its request now.
type Waits string

// What may wait.
const (
	WaitsPoll Waits = "poll" // of the insertion that was named
	WaitsWalk Waits = "walk" // of the agency, and then the polls that it brings
)

// nowWithin is how much of the budget PollNow may claim.
const nowWithin = time.Minute

// PollNow walks an agency now and polls its insertions before what else is planned of it: those
// that have waited the longest, and no more of them than a minute of the budget. It neither waits
// for that, nor exceeds the budget, nor shortens what the API asked to wait. It returns ErrHalted
// if nothing of the agency may be asked.
func (p *Poller) PollNow(agencyID string) (done PolledNow, err error) {
	a := p.byID[agencyID]
	if a == nil {
		return done, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if a.isHalted(listings.OperationInsertions, "") {
		return done, fmt.Errorf("%w: %s", ErrHalted, agencyID)
	}
	all, _ := p.schedule.Waits(agencyID)
	slices.SortStableFunc(all, func(x, y schedule.Wait) int { return x.Since.Compare(y.Since) })
	longest := all[:min(len(all), max(1, int(p.o.RequestsPerSecond*nowWithin.Seconds())))]
	for _, w := range longest {
		p.schedule.Urge(agencyID, w.Reference)
	}
	a.wakeWalk()
	return PolledNow{Waits: WaitsWalk, Insertions: len(longest), Of: len(all)}, nil
}

// nudgedWalks is how far apart two walks for unknown references are at least.
const nudgedWalks = time.Minute

// Nudge polls one insertion next, because it is said to have a new contact request: by a mail
// of the portal, for instance. It does not wait for the poll, and however often it is called, one
// poll waits. A reference that is not polled starts a walk, which brings the poll if the agency
// lists it; such a walk is started once a minute at most. The error is ErrHalted if the insertion,
// or anything of the agency, may not be asked, and ErrTooSoon.
func (p *Poller) Nudge(agencyID, reference string) (done PolledNow, err error) {
	a := p.byID[agencyID]
	if a == nil {
		return done, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if a.isHalted(listings.OperationContactRequests, reference) {
		return done, fmt.Errorf("%w: %s", ErrHalted, agencyID)
	}
	done = PolledNow{Waits: WaitsPoll, Insertions: 1, Of: p.schedule.Len(agencyID)}
	if p.schedule.Nudge(agencyID, reference) {
		return done, nil
	}
	if wait := a.walkForUnknown(time.Now()); wait > 0 {
		return PolledNow{}, &TooSoonError{agencyID, wait}
	}
	a.wakeWalk()
	done.Waits, done.Insertions = WaitsWalk, 0
	return done, nil
}

// walkForUnknown reports how long a walk for an unknown reference has to wait; zero: it is counted,
// and may be started.
func (a *agency) walkForUnknown(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := nudgedWalks - now.Sub(a.nudgedAt); !a.nudgedAt.IsZero() && wait > 0 {
		return wait
	}
	a.nudgedAt = now
	return 0
}

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	Store    *store.Store
	API      listings.Options // Gate is set by the poller
	Agencies []AgencyKeys     // whom to watch
	Logger   *slog.Logger     // default: none
	Metrics  *Metrics         // default: new ones
	// Allowed reports whether a request may begin now, whatever else speaks for it; nil: it always
	// may. Safe for concurrent use.
	Allowed func() bool

	// BASELINE=emit: what was there before is announced, marked as baseline
	Announce          bool
	RequestsPerSecond float64       // 5; ceiling over everything
	PollInterval      time.Duration // 30 s; least time between two regular polls of one insertion
	// 0: four rounds of polls at the ceiling; no insertion waits longer, as far as the ceiling
	// allows
	MaxStaleness  time.Duration
	WalkInterval  time.Duration // 2 min; wished time between walks of an agency
	RetryMax      time.Duration // 5 min; longest back-off
	HoldFor       time.Duration // 30 min; how long an implausible change is not believed
	Retention     time.Duration // 0: for ever; how long the stream knows what it was given
	Filter        url.Values    // the API's own filters
	IgnoreContact []string      // JSON pointers left out of the digests of contact requests
}

// AgencyKeys names an agency, the key that opens it, and what of a person its events say.
type AgencyKeys struct {
	ID     string
	Key    listings.Key
	People events.People
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics())
	o.RequestsPerSecond = cmp.Or(o.RequestsPerSecond, 5)
	o.PollInterval = cmp.Or(o.PollInterval, 30*time.Second)
	// an interval that is not well below it would use up the time in which the poll can be made
	if o.MaxStaleness > 0 {
		o.PollInterval = min(o.PollInterval, o.MaxStaleness*9/10)
	}
	o.WalkInterval = cmp.Or(o.WalkInterval, 2*time.Minute)
	o.RetryMax = cmp.Or(o.RetryMax, 5*time.Minute)
	o.HoldFor = cmp.Or(o.HoldFor, 30*time.Minute)
	if len(o.API.IDFields) == 0 {
		o.API.IDFields = listings.IDFields
	}
	return o
}
