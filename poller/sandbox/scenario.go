package sandbox

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const day = 24 * time.Hour

// Scenario is a story that an API can tell: what exists, what happens when, and
// how it is served. Open it, serve the Handler of the [Play], and Run it.
type Scenario struct {
	Name        string
	Description string        // what happens
	Outcome     string        // what a good client makes of it
	Agencies    []string      // that the key opens at the start
	Speed       float64       // at which it is worth watching, unless told otherwise
	Lasts       time.Duration // of its own time; afterwards nothing happens any more

	begin func(time.Time) time.Time // its own time at the start; nil: the model's
	shape func() Rendering          // nil: Flat
	set   func(*Play)
}

// ScenarioNamed looks one of [Scenarios] up.
func ScenarioNamed(name string) (Scenario, bool) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// ScenarioOptions of [Scenario.Open]. Only Key is needed.
type ScenarioOptions struct {
	// Seed decides everything that is invented.
	Seed uint64
	// Key opens the agencies. NextKey is the one that replaces it where a key is
	// replaced; the provider makes it valid when the story says so.
	Key, NextKey string
	// Rendering replaces the scenario's own, as far as the story allows.
	Rendering *Rendering
	// Speed is how much faster than the model's clock it happens. Zero: the
	// scenario's own. Delays and Retry-After of single answers stay what they are.
	Speed float64
	// Model is passed on; Now is the clock that all follows. Its Seed decides the ids
	// alone, and is Seed if it is zero.
	Model Options
}

// Play is a scenario that has been set up.
type Play struct {
	Model    *Model
	Handler  http.Handler
	Scenario Scenario

	options   ScenarioOptions
	rendering Rendering
	random    *rand.Rand
	table     *timetable
	rules     []Rule
	number    atomic.Int64 // of the last reference
}

// lockedSource makes randomness that calls and the timetable can share.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// Open sets everything up as it is at the beginning. Nothing moves before Run.
func (s Scenario) Open(o ScenarioOptions) *Play {
	if o.Speed <= 0 {
		o.Speed = s.Speed
	}
	if o.Model.Seed == 0 {
		o.Model.Seed = o.Seed
	}
	p := &Play{Model: NewModel(o.Model), Scenario: s, options: o, rendering: Flat()}
	p.random = rand.New(&lockedSource{source: rand.NewPCG(o.Seed, 3)})
	if s.shape != nil {
		p.rendering = s.shape()
	}
	if o.Rendering != nil {
		p.rendering = *o.Rendering
	}
	p.rendering.Seed = o.Seed
	begin := p.Model.now()
	if s.begin != nil {
		begin = s.begin(begin)
	}
	p.table = newTimetable(p.Model, begin, o.Speed)
	for _, id := range s.Agencies {
		p.Model.AddAgency(id)
	}
	p.Model.AddKey(o.Key, s.Agencies...)
	s.set(p)
	p.Handler = New(p.Model, p.rendering)
	if len(p.rules) > 0 {
		p.Model.SetFault(Misbehave(o.Seed, p.rules...))
	}
	return p
}

// Run lets it happen, in time with the model's clock, beginning now, and returns
// when the story is over or the context ends. What the story left behind stays:
// dead keys, withdrawn insertions, odd paging.
func (p *Play) Run(ctx context.Context) {
	p.beginNow()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.after(p.Scenario.Lasts, cancel)
	p.table.run(ctx)
}

// beginNow moves the story, if some time has passed since it was set up.
func (p *Play) beginNow() {
	late := p.table.open()
	if late == 0 || len(p.rules) == 0 {
		return
	}
	moved := slices.Clone(p.rules)
	for i := range moved {
		r := &moved[i]
		if !r.From.IsZero() {
			r.From = r.From.Add(late)
		}
		if !r.Until.IsZero() {
			r.Until = r.Until.Add(late)
		}
	}
	p.Model.SetFault(Misbehave(p.options.Seed, moved...))
}

// after plans something for so long after the beginning.
func (p *Play) after(d time.Duration, do func()) { p.table.at(p.table.begin.Add(d), do) }

// every plans something for each interval until the end.
func (p *Play) every(d time.Duration, do func()) {
	for at := d; at < p.Scenario.Lasts; at += d {
		p.after(at, do)
	}
}

// moment is so long after the beginning, by the model's clock, as rules want it.
func (p *Play) moment(d time.Duration) time.Time {
	return p.table.openedAt().Add(time.Duration(float64(d) / p.table.speed))
}

// misbehave adds rules; the first that applies decides.
func (p *Play) misbehave(rules ...Rule) { p.rules = append(p.rules, rules...) }

// stock publishes so many insertions that are up to sixty days old, each with a
// few contact requests.
func (p *Play) stock(agencyID string, n, requests int) (references []string) {
	for range n {
		age := time.Duration(p.random.Int64N(int64(60 * day)))
		reference := p.publish(agencyID, age)
		for range requests {
			p.write(agencyID, reference, time.Duration(p.random.Int64N(int64(age)+1)))
		}
		references = append(references, reference)
	}
	return references
}

func (p *Play) publish(agencyID string, age time.Duration) string {
	record := newInsertion(p.random, int(p.number.Add(1)))
	record.CreatedAt = p.Model.now().Add(-age)
	_ = p.Model.Publish(agencyID, record) // the agency exists
	return record.Reference
}

// write adds a contact request from somebody new; it returns the id.
func (p *Play) write(agencyID, reference string, age time.Duration) string {
	record := newContactRequest(p.random)
	record.CreatedAt = p.Model.now().Add(-age)
	id, _ := p.Model.AddContactRequest(agencyID, reference, record) // the insertion exists
	return id
}

// drizzle adds a contact request to any insertion, again and again.
func (p *Play) drizzle(interval time.Duration) {
	p.every(interval, func() {
		id := pick(p.random, p.Scenario.Agencies...)
		if listed := p.Model.listedReferences(id); len(listed) > 0 {
			p.write(id, pick(p.random, listed...), 0)
		}
	})
}
