package poller

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	Store    *store.Store
	API      listings.Options // Before, Attempt and After are set by the poller
	Agencies []AgencyKeys     // whom to watch
	Logger   *slog.Logger     // default: none

	Announce          bool          // BASELINE=emit: what was there before is announced, marked as baseline
	RequestsPerSecond float64       // 5; ceiling over everything
	PollInterval      time.Duration // 30 s; least time between two regular polls of one insertion
	MaxStaleness      time.Duration // 0: four times what taking turns needs; no insertion waits longer, as far as the ceiling allows
	WalkInterval      time.Duration // 2 min; wished time between walks of an agency
	PageSize          int           // insertions per page; 0: 50, and larger pages where the API gives them
	RetryMax          time.Duration // 5 min; longest back-off
	Confirm           int           // 2; complete walks that must miss an insertion
	HoldFor           time.Duration // 30 min; how long an implausible change is not believed
	Filter            url.Values    // the API's own filters
	IgnoreInsertion   []string      // RFC 6901 pointers left out of digests
	IgnoreContact     []string
	IDFields          []string // candidates for the id of a contact request; default listings.IDFields

	largerPages bool // PageSize was left to us
}

// Digest is what the poller compares of a record, as text, by the type of its event: what is ignored is not in it. It is empty
// where the record cannot be compared.
func (o Options) Digest(t events.Type, record json.RawMessage) string {
	digest, ignore := listings.Digest, o.IgnoreInsertion
	if strings.HasPrefix(string(t), "contact_request.") {
		digest, ignore = listings.ContactRequestDigest, o.IgnoreContact
	}
	sum, err := digest(record, ignore)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum[:])
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RequestsPerSecond <= 0 {
		o.RequestsPerSecond = 5
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 30 * time.Second
	}
	o.MaxStaleness = max(o.MaxStaleness, 0)
	o.PollInterval = schedule.CapLowers(o.PollInterval, o.MaxStaleness)
	if o.WalkInterval <= 0 {
		o.WalkInterval = 2 * time.Minute
	}
	if o.PageSize <= 0 {
		o.PageSize, o.largerPages = 50, true
	}
	if o.RetryMax <= 0 {
		o.RetryMax = 5 * time.Minute
	}
	if o.Confirm <= 0 {
		o.Confirm = 2
	}
	if o.HoldFor <= 0 {
		o.HoldFor = 30 * time.Minute
	}
	if len(o.IDFields) == 0 {
		o.IDFields = listings.IDFields
	}
	return o
}

// Poller watches agencies. Make it with New, start it with Run.
type Poller struct {
	o        Options
	store    *store.Store
	client   *listings.Client
	verifier *listings.Client // asks what decides nothing
	log      *slog.Logger
	rules    watch.Rules
	budget   *budget
	base     *patience // nobody answers at the base URL

	setting   sync.Mutex // held by SetAgencies
	verifying sync.Mutex // held by VerifyKeys
	roster    atomic.Pointer[roster]
	came      chan struct{} // somebody new is in the roster

	figures figures
	turns   *turns
	crew    *crew
	mu      sync.Mutex
	keys    map[string]*patience // by fingerprint: the API asks for patience
	down    atomic.Bool          // nobody answered at the base URL, once in this process
	full    atomic.Bool          // the disk: nothing could be remembered
	waiting atomic.Bool          // for space, as was said
	space   *patience
	filled  chan struct{} // the disk has just become full

	signs signs // of life

	overdue atomic.Bool // there are more insertions than the allowed staleness has time for
}

// New prepares a poller: it notes the begin of the watch of every agency that is new, before anything is asked, and ends
// the halts of those whose key has changed. The error is a setting that cannot work, or the store's.
func New(o Options) (*Poller, error) {
	o = o.withDefaults()
	p := &Poller{
		o: o, store: o.Store, log: o.Logger, rules: watch.NewRules(o.IgnoreInsertion, o.IgnoreContact),
		budget: newBudget(o.RequestsPerSecond), base: newPatience(time.Second, o.RetryMax), space: newPatience(spaceEvery, o.RetryMax),
		turns: newTurns(schedule.Options{Budget: o.RequestsPerSecond, Interval: o.PollInterval, Staleness: o.MaxStaleness}),
		keys:  map[string]*patience{},
		came:  make(chan struct{}, 1), filled: make(chan struct{}, 1),
	}
	p.crew = newCrew(p.budget.effective)
	o.API.Before, o.API.Attempt, o.API.After = p.before, p.attempt, p.figures.counted(p.after)
	o.API.IDFields, o.API.IgnoreInsertions, o.API.IgnoreContactRequests = o.IDFields, o.IgnoreInsertion, o.IgnoreContact
	client, err := listings.New(o.API)
	if err != nil {
		return nil, err
	}
	p.client = client
	o.API.Before, o.API.Attempt, o.API.After = p.beforeVerify, nil, p.figures.counted(p.afterVerify)
	if p.verifier, err = listings.New(o.API); err != nil {
		return nil, err
	}
	r := newRoster(len(o.Agencies))
	p.roster.Store(r)
	for _, k := range o.Agencies {
		if r.byID[k.ID] != nil {
			return nil, fmt.Errorf("agency %s is named twice", k.ID)
		}
		a := newAgency(p, k)
		r.add(a)
		if err := a.load(); err != nil {
			return nil, fmt.Errorf("agency %s: %w", k.ID, err)
		}
	}
	p.judgeStaleness()
	return p, nil
}

// Run watches until ctx is done, then returns nil. Any other end is a failure after which the process must end: see
// store.ErrUnknownOutcome.
func (p *Poller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.budget.run(ctx) })
	g.Go(func() error { return p.vigil(ctx) })
	g.Go(func() error { return p.watchSpace(ctx) })
	g.Go(func() error { return p.keepMemories(ctx) })
	g.Go(func() error { return p.muster(ctx, g) })
	g.Go(func() error { return p.polls(ctx, g) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return p.keepAllMemories()
	}
	return err
}

// polls takes insertions from the schedule and lets them be polled, as many at once as the budget needs.
func (p *Poller) polls(ctx context.Context, g *errgroup.Group) error {
	for ctx.Err() == nil {
		p.signs.polls.give()
		t, wait, room := p.crew.begin(time.Now(), p.turns.next)
		switch {
		case t.why != schedule.None:
			g.Go(func() error { return p.work(ctx, t) })
		case room:
			p.idle(ctx, p.turns.nudge, wait)
		default:
			p.idle(ctx, p.crew.moved, 0)
		}
	}
	return ctx.Err()
}

// work serves a turn, and goes on as long as there is another one to take: that wakes nobody.
func (p *Poller) work(ctx context.Context, t turn) error {
	for {
		err := p.serve(ctx, t)
		p.crew.end(t.name())
		if err != nil || ctx.Err() != nil {
			return err
		}
		if t, _, _ = p.crew.begin(time.Now(), p.turns.next); t.why == schedule.None {
			p.crew.poke()
			p.turns.poke() // when there will be one may have changed
			return nil
		}
	}
}

// serve polls an insertion of an agency that is watched, or lets its walk go on. Without a good answer it is put back into
// the schedule.
func (p *Poller) serve(ctx context.Context, t turn) error {
	if t.why == schedule.Walk {
		if a := p.agency(t.agency); a != nil {
			a.wish()
		}
		return nil
	}
	put := func(until time.Time) {
		p.turns.changeOne(t.agency, t.reference, func(s *schedule.Schedule, i schedule.Insertion) { s.Put(i, until) })
	}
	later := func() { put(time.Now().Add(time.Second)) } // of an agency that is just coming or going
	a := p.agency(t.agency)
	if a == nil {
		later()
		return nil
	}
	return a.while(ctx, func(ctx context.Context) error {
		good, until, err := a.pollScheduled(ctx, t.reference)
		if !good {
			put(until)
		}
		return err
	}, later)
}

// idle waits until somebody wakes it or a time is over, at most a minute; zero: nobody knows how long it takes.
func (p *Poller) idle(ctx context.Context, wake <-chan struct{}, wait time.Duration) {
	if wait == 0 || wait > time.Minute {
		wait = time.Minute
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// AgencyIDs lists the watched agencies in the order of the configuration.
func (p *Poller) AgencyIDs() []string {
	var ids []string
	for _, a := range p.watched() {
		ids = append(ids, a.id)
	}
	return slices.Clip(ids)
}
