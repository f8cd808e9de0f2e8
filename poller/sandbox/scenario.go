package sandbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const day = 24 * time.Hour

// Scenario is a story that an API can tell: what exists, what happens when, and how it is served.
// Open it, serve the Handler of the [Play], and Run it.
type Scenario struct {
	Name        string
	Description string        // what happens
	Outcome     string        // what a good client makes of it
	Agencies    []string      // that the key opens at the start
	Speed       float64       // at which it is worth watching, unless another is given
	Lasts       time.Duration // of its own time; afterwards nothing happens any more

	rendering string // empty: flat
	set       func(*Play)
}

// ScenarioNamed looks one of [Scenarios] up.
func ScenarioNamed(name string) (Scenario, bool) {
	return find(Scenarios(), func(s Scenario) bool { return s.Name == name })
}

// ScenarioOptions of [Scenario.Open]. Only Key is needed.
type ScenarioOptions struct {
	Seed uint64 // decides everything that is invented
	Key  string // opens the agencies
	// replaces Key where a key is replaced; the provider makes it valid when the story says so
	NextKey   string
	Rendering *Rendering // replaces the scenario's own, as far as the story allows
	// Speed is how much faster than the model's clock it happens. Zero: the scenario's own. Delays
	// and Retry-After of single responses stay what they are.
	Speed float64
	// Now is the clock that all follows; its Seed decides the ids alone, and is Seed if it is zero
	Model Options
}

// Play is a scenario that has been set up.
type Play struct {
	Model    *Model
	Handler  http.Handler
	Scenario Scenario

	maker
	options   ScenarioOptions
	rendering Rendering
	begun     atomic.Int64 // when, by the model's clock, in nanoseconds
	steps     []step
	rules     []Rule
	// held by the steps of the story, and by its rules while they make something up
	mu sync.Mutex
}

// step is something that happens so long after the beginning.
type step struct {
	at time.Duration
	do func()
}

// Open sets everything up as it is at the beginning. Nothing moves before Run.
func (s Scenario) Open(o ScenarioOptions) *Play {
	if o.Speed <= 0 {
		o.Speed = s.Speed
	}
	o.Model.Seed = cmp.Or(o.Model.Seed, o.Seed)
	p := &Play{Model: NewModel(o.Model), Scenario: s, options: o}
	p.maker = maker{model: p.Model, random: rand.New(rand.NewPCG(o.Seed, 3))}
	p.rendering, _ = RenderingNamed(cmp.Or(s.rendering, "flat")) // it exists
	if o.Rendering != nil {
		p.rendering = *o.Rendering
	}
	for _, id := range s.Agencies {
		p.Model.AddAgency(id)
	}
	p.Model.AddKey(o.Key, s.Agencies...)
	s.set(p)
	slices.SortStableFunc(p.steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
	p.Handler = New(p.Model, p.rendering)
	p.begin()
	if len(p.rules) > 0 {
		p.Model.SetFault(Misbehave(o.Seed, p.rules...))
	}
	return p
}

// Run lets it happen, in time with the model's clock, beginning now, and returns when the story is
// over or the context ends. What the story left behind stays: dead keys, withdrawn insertions, odd
// paging.
func (p *Play) Run(ctx context.Context) {
	p.begin()
	for _, s := range append(p.steps, step{p.Scenario.Lasts, func() {}}) {
		if s.at > p.Scenario.Lasts || !wait(ctx, p.moment(s.at).Sub(p.Model.now())) ||
			ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		s.do()
		p.mu.Unlock()
	}
}

// begin makes now the beginning.
func (p *Play) begin() { p.begun.Store(p.Model.now().UnixNano()) }

// moment is so long after the beginning, by the model's clock.
func (p *Play) moment(d time.Duration) time.Time {
	return time.Unix(0, p.begun.Load()).UTC().Add(time.Duration(float64(d) / p.options.Speed))
}

// now is how long ago the beginning was, in the story's own time.
func (p *Play) now() time.Duration {
	return time.Duration(float64(p.Model.now().Sub(p.moment(0))) * p.options.Speed)
}

// after plans something for so long after the beginning.
func (p *Play) after(d time.Duration, do func()) { p.steps = append(p.steps, step{d, do}) }

// misbehave adds a rule that holds from and until so long after the beginning; until zero: for
// ever. The first that applies decides.
func (p *Play) misbehave(from, until time.Duration, rule Rule) {
	rule.during = func() bool { now := p.now(); return now >= from && (until == 0 || now < until) }
	p.rules = append(p.rules, rule)
}

// withdraw takes insertions off the list, which nothing else does.
func (p *Play) withdraw(agencyID string, references ...string) {
	for _, reference := range references {
		_ = p.Model.Withdraw(agencyID, reference)
	}
}

// drizzle adds a contact request to any insertion, again and again.
func (p *Play) drizzle(interval time.Duration) {
	for at := interval; at < p.Scenario.Lasts; at += interval {
		p.after(at, func() {
			p.somebodyWrites(pick(p.random, p.Scenario.Agencies...))
		})
	}
}

// peaceful is some stock for every agency, and now and then a contact request.
func (p *Play) peaceful() {
	for _, id := range p.Scenario.Agencies {
		p.stock(id, 10, 2)
	}
	p.drizzle(5 * time.Minute)
}

// Scenarios returns the stories that every client of such an API should survive. Each is a field
// test in small: it takes a seed, follows the model's clock, and leaves a [Truth] to judge by.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name:        "zurich-hot",
			Description: "One insertion gets 480 contact requests in 20 hours; for two of them the API is down, so that more wait than any page holds.",
			Outcome:     "All of them, or a watch.gap_detected that says what may be missing.",
			Agencies:    []string{"A100"}, Speed: 720, Lasts: 24 * time.Hour,
			set: func(p *Play) {
				p.stock("A100", 5, 3)
				hotInsertion(p, "A100")
				p.misbehave(time.Hour, 3*time.Hour,
					Rule{Fault: Refuse(http.StatusServiceUnavailable)})
			},
		},
		{
			Name:        "day-in-a-minute",
			Description: "24 hours of a quiet agency and of zurich-hot, 1,440 times as fast.",
			Outcome:     "Everything that the model knows is in the stream, once.",
			Agencies:    []string{"A100", "B200"}, Speed: 1440, Lasts: 24 * time.Hour,
			set: func(p *Play) {
				village(p, "A100")
				p.stock("B200", 5, 3)
				hotInsertion(p, "B200")
			},
		},
		{
			Name:        "key-rotation",
			Description: "After 10 minutes the new key is valid too; after an hour the old one is switched off.",
			Outcome:     "No halt and no loss, if the new key is written into the key file within that hour; otherwise both agencies halt.",
			Agencies:    []string{"A100", "B200"}, Speed: 60, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				p.peaceful()
				p.after(10*time.Minute, func() { p.Model.AddKey(p.options.NextKey, p.Scenario.Agencies...) })
				// it was added
				p.after(time.Hour, func() { _ = p.Model.DeactivateKey(p.options.Key) })
			},
		},
		{
			Name:        "agency-revoked",
			Description: "After 20 minutes the key is taken away from one agency of three.",
			Outcome:     "That agency halts; the others continue.",
			Agencies:    []string{"A100", "B200", "C300"}, Speed: 60, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				p.peaceful()
				// it was added
				p.after(20*time.Minute, func() { _ = p.Model.UnlinkKey(p.options.Key, "B200") })
			},
		},
		{
			Name:        "insertion-forbidden",
			Description: "After 20 minutes the contact requests of one insertion are refused with 403; the list still shows it.",
			Outcome:     "Only that insertion halts.",
			Agencies:    []string{"A100"}, Speed: 60, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				forbidden := p.stock("A100", 10, 2)[3]
				p.drizzle(5 * time.Minute)
				p.misbehave(20*time.Minute, 0,
					Rule{
						Operation: OperationContactRequests, Reference: forbidden,
						Fault: Refuse(http.StatusForbidden),
					})
			},
		},
		{
			Name:        "slow-and-flaky",
			Description: "For two hours a third of the responses are wrong: 5xx, hang-ups, cut JSON, HTML with 200, bodies that stall, 429 with Retry-After.",
			Outcome:     "No false event, and full recovery in the hour after.",
			Agencies:    []string{"A100", "B200"}, Speed: 30, Lasts: 3 * time.Hour,
			set: func(p *Play) {
				p.peaceful()
				for _, name := range []string{
					"500", "502", "503", "503_seconds", "429_seconds", "429_negative", "hangup",
					"cut", "cut_late", "html", "null", "object", "error", "empty", "garbage",
					"late", "stall",
				} {
					f, _ := FaultNamed(name)
					p.misbehave(0, 2*time.Hour, Rule{Share: 0.023, Fault: f})
				}
			},
		},
		{
			Name:        "schema-shift",
			Description: "After an hour items is renamed to results and rankType to ranking, and ids that were numbers become strings.",
			Outcome:     "watch.schema_drifted; nothing vanishes, nothing is new.",
			Agencies:    []string{"A100"}, Speed: 60, Lasts: 2 * time.Hour,
			rendering: "items", set: func(p *Play) {
				p.stock("A100", 15, 3)
				p.drizzle(5 * time.Minute)
				after := Flat()
				after.IDs, after.PageBase = IDNumberText, p.rendering.PageBase
				if p.rendering.Name == after.Name {
					after = Nested()
					after.IDs = IDNumberText
				}
				p.rendering.IDs = IDNumber
				p.misbehave(time.Hour, 0,
					Rule{Fault: Fault{Rendering: &after, Edit: rename("rankType", "ranking")}})
			},
		},
		{
			Name:        "replica-lag",
			Description: "Contact requests become visible 90 to 600 s after they were created, and one insertion is missing from the list for 40 s in every ten minutes.",
			Outcome:     "Nothing lost, nothing twice, nothing disappears.",
			Agencies:    []string{"A100"}, Speed: 10, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				flapping := p.stock("A100", 12, 3)[5]
				p.drizzle(2 * time.Minute)
				p.lag = func() time.Duration {
					return time.Duration(
						(90 + 510*p.random.Float64()) / p.options.Speed * float64(time.Second))
				}
				p.misbehave(0, p.Scenario.Lasts,
					Rule{Operation: OperationInsertions, Decide: func(Call) *Fault {
						if p.now()%(10*time.Minute) < 9*time.Minute+20*time.Second {
							return nil
						}
						return &Fault{Without: []string{flapping}}
					}})
			},
		},
		{
			Name:        "page-shift",
			Description: "Whenever a further page is read, insertions have come and gone in the meantime, so that records move between pages.",
			Outcome:     "No disappearance that did not happen.",
			Agencies:    []string{"A100"}, Speed: 60, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				p.rendering.PageSize, p.rendering.MaxPageSize = 10, 10
				steady := p.stock("A100", 40, 1)
				var passing []string
				p.drizzle(10 * time.Minute)
				p.misbehave(0, p.Scenario.Lasts,
					Rule{Operation: OperationInsertions, Further: true, Decide: func(Call) *Fault {
						p.mu.Lock()
						defer p.mu.Unlock()
						switch gone := p.random.IntN(3); {
						case gone == 0 && len(passing) > 0:
							p.withdraw("A100", passing[0])
							passing = passing[1:]
						case gone == 1 && len(passing) < len(steady)/2:
							passing = append(passing, p.publish("A100", 0))
						}
						return nil
					}})
			},
		},
		{
			Name:        "relist",
			Description: "References are withdrawn and come back after 2 to 90 days, with their old contact requests.",
			Outcome:     "insertion.reappeared; no old contact request is announced as new.",
			Agencies:    []string{"A100"}, Speed: 8640, Lasts: 100 * day,
			set: func(p *Play) {
				references := p.stock("A100", 10, 4)
				p.drizzle(2 * day)
				for n, away := range []time.Duration{2 * day, 5 * day, 20 * day, 60 * day, 90 * day} {
					leaves := day + time.Duration(n)*12*time.Hour
					reference := references[n]
					record := p.Model.records("A100", true)[n]
					record.CreatedAt = time.Time{}
					p.after(leaves, func() { p.withdraw("A100", reference) })
					// the agency exists
					p.after(leaves+away, func() { _ = p.Model.Publish("A100", record) })
					p.after(leaves+away+day, func() { p.write("A100", reference, 0) })
				}
			},
		},
		{
			Name:        "mass-vanish",
			Description: "After 20 minutes the list of one agency is empty for 10 minutes, by mistake, and 60 % of another's insertions are really gone.",
			Outcome:     "watch.change_held for both; the mistake is forgotten, the truth is believed after more walks.",
			Agencies:    []string{"A100", "B200"}, Speed: 10, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				p.stock("A100", 30, 1)
				going := p.stock("B200", 30, 1)[:18]
				p.drizzle(10 * time.Minute)
				p.misbehave(20*time.Minute, 30*time.Minute,
					Rule{
						Operation: OperationInsertions, AgencyID: "A100",
						Decide: func(Call) *Fault {
							return &Fault{Without: p.Model.listedReferences("A100")}
						},
					})
				p.after(20*time.Minute, func() { p.withdraw("B200", going...) })
			},
		},
		{
			Name:        "gdpr-null",
			Description: "From minute 20 on, the person of one old contact request a minute becomes null.",
			Outcome:     "contact_request.redacted, once for each.",
			Agencies:    []string{"A100"}, Speed: 30, Lasts: 2 * time.Hour,
			set: func(p *Play) {
				p.stock("A100", 10, 5)
				p.drizzle(10 * time.Minute)
				var old []string
				for _, c := range p.Model.Truth().ContactRequests {
					old = append(old, c.ID)
				}
				for n, id := range old {
					// it was added
					p.after(20*time.Minute+time.Duration(n)*time.Minute, func() { _ = p.Model.Redact(id) })
				}
			},
		},
	}
}

// oddMessages are what forwarders and terminals stumble over.
var oddMessages = []string{
	"",
	strings.Repeat("Ich schreibe Ihnen gern ausführlich. ", 560), // 20 kB
	"\u202eשלום\u202c, is it free?",
	"null\x00 bell\x07 escape\x1b[31m",
	"<!channel> <!here> <https://example.org|click>",
	`=cmd("calc")`,
	"@everyone *bold* _it_ `code` ~no~",
	"<script>alert(1)</script><img src=x onerror=alert(1)>",
	"https://example.org/a?b=c&d=%20e",
	"👩‍👩‍👧‍👦🇨🇭🏡 e\u0301",
	"line\u2028separator\u2029paragraph\ufeff",
	`{"json":"inside","quote":"\""}`,
}

// village is eight insertions of which one is replaced in four days, and one contact request a day
// at any hour, every other one odd.
func village(p *Play, agencyID string) {
	references := p.stock(agencyID, 8, 2)
	for n := 0; time.Duration(n)*day < p.Scenario.Lasts; n++ {
		p.after(time.Duration((float64(n)+p.random.Float64())*float64(day)), func() {
			id := p.somebodyWrites(agencyID)
			if n%2 == 0 {
				odd := pick(p.random, oddMessages...)
				// it was added
				_ = p.Model.EditContactRequest(id, func(c *ContactRequest) { c.Message = odd })
			}
		})
		if n%4 == 3 {
			p.after(time.Duration(n)*day, func() {
				p.withdraw(agencyID, references[n/4])
				p.publish(agencyID, 0)
			})
		}
	}
}

// hotInsertion is one that 480 people want within 20 hours, half of them in
// the first three.
func hotInsertion(p *Play, agencyID string) {
	var reference string
	p.after(5*time.Minute, func() { reference = p.publish(agencyID, 0) })
	for n := range 480 {
		span := 20 * float64(time.Hour)
		if n%2 == 0 {
			span = 3 * float64(time.Hour)
		}
		p.after(6*time.Minute+time.Duration(p.random.Float64()*span), func() { p.write(agencyID, reference, 0) })
	}
}
