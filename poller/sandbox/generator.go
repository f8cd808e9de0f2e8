package sandbox

import (
	"context"
	"math/rand/v2"
	"time"
)

// GeneratorOptions say how much there is and how fast it moves.
type GeneratorOptions struct {
	// Seed decides everything that is invented; with the same seed, options and
	// clock two models come out equal.
	Seed uint64
	// Agencies that have insertions. Default A100 and B200.
	Agencies []string
	// Insertions per agency at the start. Default 12.
	Insertions int
	// ContactRequestsPerMinute over all agencies while Run runs. Zero: none.
	ContactRequestsPerMinute float64
	// ChangesPerMinute over all agencies while Run runs: edits, withdrawals,
	// first and repeated publications, in such shares that the number of
	// insertions stays about the same. Zero: none.
	ChangesPerMinute float64
	// History is the number of contact requests that each insertion already has
	// at the start, made since it was created, at most sixty days before. Default
	// none.
	History int
}

func (o GeneratorOptions) withDefaults() GeneratorOptions {
	if len(o.Agencies) == 0 {
		o.Agencies = []string{"A100", "B200"}
	}
	if o.Insertions == 0 {
		o.Insertions = 12
	}
	return o
}

// Generator fills a model with synthetic people and properties and keeps it
// moving: evenly, without the rhythm of a real market. It may work beside other
// changes to the same model. It is not safe for concurrent use itself.
type Generator struct {
	model   *Model
	options GeneratorOptions
	random  *rand.Rand
	number  int // of the last reference
}

// NewGenerator returns a generator that has done nothing yet.
func NewGenerator(m *Model, o GeneratorOptions) *Generator {
	return &Generator{model: m, options: o.withDefaults(), random: rand.New(rand.NewPCG(o.Seed, 0))}
}

// Seed makes the agencies, their insertions and the old contact requests. Keys
// are the caller's to add.
func (g *Generator) Seed() {
	for _, id := range g.options.Agencies {
		g.model.AddAgency(id)
		for range g.options.Insertions {
			age := g.upTo(60 * 24 * time.Hour)
			reference := g.publish(id, age)
			for range g.options.History {
				g.contactRequest(id, reference, g.upTo(age))
			}
		}
	}
}

func (g *Generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.random.Int64N(int64(d) + 1))
}

// Run does one thing after the other, at exponentially distributed intervals,
// until the context ends. With both rates zero it only waits for that.
func (g *Generator) Run(ctx context.Context) {
	rate := g.options.ContactRequestsPerMinute + g.options.ChangesPerMinute
	if rate <= 0 {
		<-ctx.Done()
		return
	}
	for {
		if !wait(ctx, time.Duration(g.random.ExpFloat64()/rate*float64(time.Minute))) || ctx.Err() != nil {
			return
		}
		g.Step()
	}
}

// Step does one thing: it adds a contact request or makes a change, in the
// proportion of the two rates; with both zero it adds a contact request.
func (g *Generator) Step() {
	id := pick(g.random, g.options.Agencies...)
	requests, changes := g.options.ContactRequestsPerMinute, g.options.ChangesPerMinute
	if g.random.Float64()*(requests+changes) < changes {
		g.change(id)
		return
	}
	if reference, ok := g.anyOf(g.model.listedReferences(id)); ok {
		g.contactRequest(id, reference, 0)
	}
}

// change keeps the stock between half and twice what it was at the start.
func (g *Generator) change(id string) {
	listed := g.model.listedReferences(id)
	kind := g.random.IntN(10)
	switch {
	case len(listed) == 0 || kind >= 8 && len(listed) < 2*g.options.Insertions:
		g.publishAny(id)
	case kind >= 6 && 2*len(listed) > g.options.Insertions:
		reference, _ := g.anyOf(listed)
		_ = g.model.Withdraw(id, reference) // or another was quicker
	default:
		reference, _ := g.anyOf(listed)
		_ = g.model.Edit(id, reference, func(i *Insertion) { edit(g.random, i) }) // likewise
	}
}

// publishAny publishes something new or, one time in three, something old again.
func (g *Generator) publishAny(id string) {
	if record, ok := g.withdrawn(id); ok && g.random.IntN(3) == 0 {
		record.CreatedAt = time.Time{}
		_ = g.model.Publish(id, record) // the agency exists
		return
	}
	g.publish(id, 0)
}

func (g *Generator) withdrawn(id string) (Insertion, bool) {
	records := g.model.withdrawnRecords(id)
	if len(records) == 0 {
		return Insertion{}, false
	}
	return pick(g.random, records...), true
}

func (g *Generator) publish(id string, age time.Duration) string {
	g.number++
	record := newInsertion(g.random, g.number)
	record.CreatedAt = g.model.now().Add(-age)
	_ = g.model.Publish(id, record) // the agency was added by Seed, or nothing is to be done
	return record.Reference
}

func (g *Generator) contactRequest(id, reference string, age time.Duration) {
	record := newContactRequest(g.random)
	record.CreatedAt = g.model.now().Add(-age)
	_, _ = g.model.AddContactRequest(id, reference, record) // as with publish
}

func (g *Generator) anyOf(references []string) (string, bool) {
	if len(references) == 0 {
		return "", false
	}
	return pick(g.random, references...), true
}

func (m *Model) listedReferences(agencyID string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var references []string
	if a := m.agencies[agencyID]; a != nil {
		for _, i := range a.listed {
			references = append(references, i.reference)
		}
	}
	return references
}

func (m *Model) withdrawnRecords(agencyID string) []Insertion {
	m.mu.Lock()
	defer m.mu.Unlock()
	var records []Insertion
	if a := m.agencies[agencyID]; a != nil {
		for _, i := range a.known {
			if !i.listed {
				records = append(records, i.current().record.clone())
			}
		}
	}
	return records
}

// listedRecord returns the record of a visible insertion.
func (m *Model) listedRecord(agencyID, reference string) (Insertion, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil || !i.listed {
		return Insertion{}, false
	}
	return i.current().record.clone(), true
}
