// Package trace judges the scheduler: it makes up a market, lets a policy ask about it in virtual time, and says how long
// the contact requests of the market waited until they were found.
//
// The market is seeded. It knows nothing of the scheduler, and the scheduler nothing of it but what a request shows. A
// request takes no time and none fails.
package trace

import (
	"math"
	"time"

	"doorbell/poller/schedule"
)

// Policy is a way to decide what is asked next.
type Policy int

// The policies.
const (
	Real         Policy = iota // the scheduler of this product
	Turns                      // all insertions take turns
	Proportional               // as often as something happens; knows the true rates
	Oracle                     // the same index as the scheduler's, with the true rates, and without a cap
	CappedOracle               // with the cap that the scheduler keeps
)

func (p Policy) String() string {
	return [...]string{"doorbell", "taking turns", "proportional", "oracle", "oracle, cap"}[p]
}

// Run is one simulation. Zero values mean the defaults that stand beside them.
type Run struct {
	Budget   float64       // 5; requests a second
	Interval time.Duration // least time between two regular polls of an insertion
	Cap      time.Duration // 4 N/B
	Page     int           // 100; insertions on a page of the list
	WarmUp   time.Duration // 1 day
	Measured time.Duration // 14 days
	Births   bool          // the records say when they were published
	Records  Records
}

func (o Run) withDefaults(t *Trace) Run {
	if o.Budget <= 0 {
		o.Budget = 5
	}
	if o.Cap <= 0 {
		o.Cap = time.Duration(4 * float64(t.Market.Insertions) / o.Budget * float64(time.Second))
	}
	if o.Page <= 0 {
		o.Page = 100
	}
	if o.WarmUp <= 0 {
		o.WarmUp = Day
	}
	if o.Measured <= 0 {
		o.Measured = 14 * Day
	}
	return o
}

// Needs is the span that a trace must have for a run: what comes at the end must be found after it.
func (o Run) Needs(insertions int) time.Duration {
	o = o.withDefaults(&Trace{Market: Market{Insertions: insertions}})
	return o.WarmUp + o.Measured + o.Cap
}

// simulation is a run under way.
type simulation struct {
	Run
	t       *Trace
	p       policy
	f       *Figures
	end     time.Duration
	known   []state
	listed  []int32 // by slot: what the list showed; -1: nothing yet
	records *records
	pages   [][]time.Duration // by agency: when each page was read
	cursor  []int             // by agency: the page to be read
	patient time.Duration     // with a policy that reads no pages
	sent    []time.Duration   // the last moments in which something was sent, as a ring
	sends   int
}

// state is what is known of an insertion.
type state struct {
	last time.Duration // poll
	next int32         // contact request that was not found yet
	told bool          // it was polled before
	in   bool          // the policy has it
	gone bool          // it is polled for the last time
}

// Simulate lets a policy ask about a trace.
func (o Run) Simulate(t *Trace, p Policy) *Figures {
	began := time.Now()
	o = o.withDefaults(t)
	s := &simulation{
		Run: o, t: t, end: o.WarmUp + o.Measured, known: make([]state, len(t.Insertions)), listed: make([]int32, t.Market.Insertions),
		f:       &Figures{Policy: p, Span: o.Measured, Tightest: math.MaxInt64, Agencies: make([]Share, t.Agencies)},
		records: newRecords(t, o.Records), cursor: make([]int, t.Agencies), sent: make([]time.Duration, int(math.Ceil(o.Budget))),
	}
	s.begin(p)
	s.run()
	s.finish()
	s.f.Spent = time.Since(began)
	return s.f
}

func (s *simulation) begin(p Policy) {
	pages := 0
	for k := range s.t.Agencies {
		lo, hi := s.slots(k)
		n := (hi - lo + s.Page - 1) / s.Page
		s.pages = append(s.pages, make([]time.Duration, n))
		pages += n
	}
	sweep := max(s.t.sweep(s.Budget, s.Page), s.Interval)
	s.patient = max(8*sweep, time.Hour)
	round := time.Duration(float64(s.t.Market.Insertions) / s.Budget * float64(time.Second))
	switch period := sweep / time.Duration(pages); p {
	case Turns:
		s.p = newTurns(s.t, round, period)
	case Proportional:
		s.p = newProportional(s.t, round, period)
	case Oracle:
		s.p = newOracle(s.t, round, period, 0)
	case CappedOracle:
		s.p, s.f.Cap = newOracle(s.t, round, period, s.Cap), s.Cap
	case Real:
		s.p = newReal(s.t, schedule.Options{Budget: s.Budget, Interval: s.Interval, Staleness: s.Cap}, s.Births)
		s.f.Cap = s.Cap
	}
	for i := range s.listed {
		s.listed[i] = -1
	}
	for i := range s.known {
		s.known[i].next = s.t.Insertions[i].first
	}
	for k := range s.t.Agencies {
		for range s.pages[k] {
			s.read(k, 0) // who begins has read the list
		}
	}
}

// slots are those of an agency, from lo to before hi.
func (s *simulation) slots(agency int) (lo, hi int) {
	n, k := s.t.Market.Insertions, s.t.Agencies
	return (agency*n + k - 1) / k, ((agency+1)*n + k - 1) / k
}

// run asks whenever the budget allows it, until all that came before the end must have been found.
func (s *simulation) run() {
	gap := float64(time.Second) / s.Budget
	free := 0.0 // nanoseconds; when the next request may go
	for free < float64(s.end+s.Cap) {
		at := time.Duration(math.Ceil(free))
		pause := s.ask(at)
		if pause < 0 {
			free += gap
			continue
		}
		free = float64(at) + max(gap, float64(pause))
	}
}

// ask asks what the policy wants to ask at a moment. It returns how long there is nothing, or less than nothing.
func (s *simulation) ask(at time.Duration) (pause time.Duration) {
	if k := s.overdue(at); k >= 0 {
		s.send(k, at)
		s.read(k, at)
		if s.measures(at) {
			s.f.Forced++
		}
		return -1
	}
	n, pause := s.p.next(at)
	switch n.kind {
	case wait:
		return pause
	case walk:
		s.send(int(n.i), at)
		s.read(int(n.i), at)
		if s.measures(at) {
			s.f.Walks++
		}
	default:
		s.poll(n, at)
	}
	return -1
}

// overdue is an agency with a page that the policy should have read long ago, or -1.
func (s *simulation) overdue(at time.Duration) int {
	for k, read := range s.pages {
		if at-read[s.cursor[k]] > s.patient {
			return k
		}
	}
	return -1
}

func (s *simulation) measures(at time.Duration) bool { return at >= s.WarmUp && at < s.end }

// send counts a request, and looks whether there were more of them in a second than the budget allows.
func (s *simulation) send(agency int, at time.Duration) {
	last := &s.sent[s.sends%len(s.sent)]
	if s.sends >= len(s.sent) {
		s.f.Tightest = min(s.f.Tightest, at-*last)
	}
	*last = at
	s.sends++
	if s.measures(at) {
		s.f.Requests++
		s.f.Agencies[agency].Requests++
	}
}

// history is how many contact requests an answer shows.
const history = 20

func (s *simulation) poll(n turn, at time.Duration) {
	one, k := &s.t.Insertions[n.i], &s.known[n.i]
	if !k.in {
		panic("an insertion was asked that is not in the schedule")
	}
	agency := s.agencyOf(n.i)
	s.send(agency, at)
	if n.kind == urgent && s.measures(at) {
		s.f.Urgents++
	}
	if n.kind == poll && k.told && at-k.last < s.Interval-s.Interval/5 {
		s.f.Early++
	}
	s.f.Oldest = max(s.f.Oldest, at-k.last)
	from := k.next
	for k.next < one.last && s.t.Leads[k.next] <= at {
		if created := s.t.Leads[k.next]; s.measures(created) {
			s.f.found(agency, at-created)
		}
		k.next++
	}
	if !k.told {
		from = max(from, k.next-history)
	}
	k.last, k.told = at, true
	s.p.polled(n.i, at, s.t.Leads[from:k.next])
	if k.gone {
		k.in = false
		s.p.remove(n.i)
	}
}

// agencyOf is the agency of an insertion that is in the list.
func (s *simulation) agencyOf(i int32) int { return s.t.Agency(int(s.t.Insertions[i].slot)) }

// read reads the next page of an agency's list. What is new in it, and what it does not show any more, is urgent.
func (s *simulation) read(agency int, at time.Duration) {
	page, of := s.cursor[agency], len(s.pages[agency])
	s.pages[agency][page] = at
	s.cursor[agency] = (page + 1) % of
	lo, hi := s.slots(agency)
	lo += page * s.Page
	for slot := lo; slot < min(lo+s.Page, hi); slot++ {
		i := s.listed[slot]
		if i >= 0 && s.t.Insertions[i].Gone > at {
			s.p.seen(i, s.records.changed(slot, i, at), at)
			continue
		}
		s.replace(slot, i, at)
	}
	s.p.read(agency, page, of, at)
}

// replace puts the insertion that a slot holds at a moment in the place of the one that the list showed before.
func (s *simulation) replace(slot int, before int32, at time.Duration) {
	i := s.t.slots[slot]
	if before >= 0 {
		s.known[before].gone = true
		s.p.urge(before)
		i = before + 1
	}
	for s.t.Insertions[i].Gone <= at {
		i++
	}
	s.listed[slot] = i
	s.known[i].last, s.known[i].in = at, true
	s.records.appear(slot, i, at)
	s.p.add(i, at)
	if before >= 0 {
		s.p.urge(i)
	}
}

// finish counts what was never found, and how long those have waited that wait at the end.
func (s *simulation) finish() {
	for i := range s.known {
		k := &s.known[i]
		if !k.in {
			continue
		}
		s.f.Oldest = max(s.f.Oldest, s.end+s.Cap-k.last)
		for n := k.next; n < s.t.Insertions[i].last; n++ {
			if created := s.t.Leads[n]; s.measures(created) {
				s.f.found(s.agencyOf(int32(i)), s.end+s.Cap-created)
				s.f.Missed++
			}
		}
	}
}

// sweep is how often the whole list is worth being read, for whom the rates are known: when a page of it gains as much as
// a poll. All policies but the real one read it so often.
func (t *Trace) sweep(budget float64, page int) time.Duration {
	roots, born, rate := 0.0, 0, 0.0
	for slot := range t.slots[1:] {
		now := &t.Insertions[t.slots[slot]]
		roots += math.Sqrt(now.Rate(0) / Day.Seconds())
		for i := t.slots[slot] + 1; i < t.slots[slot+1]; i++ {
			born++
			rate += t.Insertions[i].Rate(t.Insertions[i].Born) / Day.Seconds()
		}
	}
	worth := roots * roots / (2 * budget * budget)
	// born · page/N / span newcomers a second on a page, rate/born contact requests a second of each
	gain := rate * float64(page) / float64(t.Market.Insertions) / t.Span.Seconds()
	return time.Duration(math.Cbrt(3*worth/gain) * float64(time.Second))
}
