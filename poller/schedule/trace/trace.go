package trace

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"doorbell/poller/schedule"
)

// Run is one simulation. Zero values mean the defaults that stand beside them.
type Run struct {
	Budget   float64       // 5; requests a second
	Interval time.Duration // least time between two regular polls of an insertion
	Page     int           // 100; insertions on a page of the list
	WarmUp   time.Duration // 1 day
	Measured time.Duration // 14 days
	Births   bool          // the records say when they were published
	Records  Records
}

// Records says what the records of the list tell from one reading to the next.
type Records struct {
	Betray bool    // each contact request changes a member, as a counter would
	Edits  float64 // changes a day of another member, that have nothing to do with contact requests
	Always bool    // another member changes on every reading
}

// Figures are what a run showed between the end of its warm-up and its end.
type Figures struct {
	Latencies []time.Duration // of contact requests, ascending
	Missed    int             // of them never found
	Requests  int             // of all kinds
	Walks     int             // for pages of lists
	Urgents   int             // for insertions that were urgent
	Span      time.Duration
	Cap       time.Duration // that an insertion might have waited
	Oldest    time.Duration // and did, from the first moment on
	Tightest  time.Duration // the shortest time in which one more was sent than the budget allows for a second
	Early     int           // polls that came before the interval had passed, though nothing was urgent
	Agencies  []Share

	Turns, Oracle schedule.Forecast // with the true rates, on average over the span; Mean, Median, P95 and WithinFive
}

// Share is what one agency got.
type Share struct {
	Requests int
	Sum      time.Duration // of latencies
}

// Mean is the mean latency.
func (f *Figures) Mean() time.Duration {
	sum := time.Duration(0)
	for _, a := range f.Agencies {
		sum += a.Sum
	}
	return sum / time.Duration(max(len(f.Latencies), 1))
}

// Quantile is the latency that a part of the contact requests did not exceed.
func (f *Figures) Quantile(part float64) time.Duration {
	if len(f.Latencies) == 0 {
		return 0
	}
	return f.Latencies[int(part*float64(len(f.Latencies)-1))]
}

// Within is the part of the contact requests that was found so soon.
func (f *Figures) Within(d time.Duration) float64 {
	n, _ := slices.BinarySearch(f.Latencies, d+1)
	return float64(n) / float64(max(len(f.Latencies), 1))
}

// Kept says whether what is promised was kept: no insertion older than the cap, never more than the budget.
func (f *Figures) Kept() bool {
	return f.Tightest >= time.Second && f.Early == 0 && f.Missed == 0 && f.Oldest <= f.Cap
}

// epoch is the beginning of a trace.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// simulation is a run under way.
type simulation struct {
	Run
	t      *Trace
	s      *schedule.Schedule
	f      *Figures
	end    time.Duration
	known  []state
	slots  []record
	byName map[schedule.Insertion]int32
	pages  []int           // by agency: how many its list has
	cursor []int           // by agency: the page to be read
	sent   []time.Duration // the last moments in which something was sent, as a ring
	sends  int
	draw   *rand.Rand
}

// state is what is known of an insertion.
type state struct {
	name schedule.Insertion
	last time.Duration // poll
	next int32         // contact request that was not found yet
	told bool          // it was polled before
	in   bool          // the schedule has it
	gone bool          // it is polled for the last time
}

// record is what the list showed of a slot.
type record struct {
	shown int32         // -1: none
	next  int32         // contact request that is younger than the last reading
	edit  time.Duration // the next edit
}

// history is how many contact requests an answer shows.
const history = 20

// Simulate makes up a market and lets the schedule poll it.
func (o Run) Simulate(m Market) *Figures {
	m = m.withDefaults()
	o.Budget, o.Page = cmp.Or(o.Budget, 5), cmp.Or(o.Page, 100)
	o.WarmUp, o.Measured = cmp.Or(o.WarmUp, Day), cmp.Or(o.Measured, 14*Day)
	most := o.Interval + time.Duration(4*float64(m.Insertions)/o.Budget*float64(time.Second))
	m.Span = o.WarmUp + o.Measured + most // what comes at the end must be found after it
	t := New(m)
	s := &simulation{
		Run: o, t: t, end: o.WarmUp + o.Measured, known: make([]state, len(t.Insertions)), slots: make([]record, m.Insertions),
		s:      schedule.New(schedule.Options{Budget: o.Budget, Interval: o.Interval}),
		f:      &Figures{Span: o.Measured, Cap: most, Tightest: math.MaxInt64, Agencies: make([]Share, t.Agencies)},
		byName: map[schedule.Insertion]int32{}, cursor: make([]int, t.Agencies), sent: make([]time.Duration, int(math.Ceil(o.Budget))),
		draw: rand.New(rand.NewPCG(t.Seed, 1<<40)),
	}
	for i := range s.slots {
		s.slots[i].shown = -1 // nothing yet
	}
	for i := range s.known {
		s.known[i].next = s.t.Insertions[i].first
	}
	for k := range t.Agencies {
		lo, hi := s.span(k)
		s.s.Enter(nil)
		s.pages = append(s.pages, (hi-lo+o.Page-1)/o.Page)
		for range s.pages[k] {
			s.read(k, 0) // who begins has read the list
		}
	}
	s.run()
	s.finish()
	return s.f
}

// span are the slots of an agency, from lo to before hi.
func (s *simulation) span(agency int) (lo, hi int) {
	n, k := s.t.Market.Insertions, s.t.Agencies
	return (agency*n + k - 1) / k, ((agency+1)*n + k - 1) / k
}

// run asks whenever the budget allows it, until all that came before the end must have been found.
func (s *simulation) run() {
	gap := float64(time.Second) / s.Budget
	sweep, walked := s.t.sweep(s.Budget, s.Page), time.Duration(0)
	pages := (s.t.Market.Insertions + s.Page - 1) / s.Page
	for free, k := 0.0, 0; free < float64(s.end+s.f.Cap); {
		at := time.Duration(math.Ceil(free))
		if at-walked > sweep/time.Duration(pages) {
			walked, k = at, (k+1)%s.t.Agencies
			s.walk(k, at)
			free += gap
			continue
		}
		turn, pause := s.s.Next(epoch.Add(at))
		switch turn.Why {
		case schedule.None:
			free = float64(at) + max(gap, float64(pause))
			continue
		case schedule.Walk:
			s.walk(int(turn.Insertion.Agency), at)
		default:
			s.poll(turn, at)
		}
		free += gap
	}
	s.judge(float64(pages) / sweep.Seconds())
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

func (s *simulation) found(agency int, latency time.Duration) {
	s.f.Latencies = append(s.f.Latencies, latency)
	s.f.Agencies[agency].Sum += latency
}

func (s *simulation) poll(turn schedule.Turn, at time.Duration) {
	i, in := s.byName[turn.Insertion]
	if !in {
		panic("an insertion was asked that is not in the schedule")
	}
	one, k, agency := &s.t.Insertions[i], &s.known[i], int(turn.Insertion.Agency)
	s.send(agency, at)
	if turn.Why == schedule.Urgent || turn.Why == schedule.Hint {
		if s.measures(at) {
			s.f.Urgents++
		}
	} else if k.told && at-k.last < s.Interval {
		s.f.Early++
	}
	s.f.Oldest = max(s.f.Oldest, at-k.last)
	var created []time.Time
	for ; k.next < one.last && s.t.Leads[k.next] <= at; k.next++ {
		x := s.t.Leads[k.next]
		if s.measures(x) {
			s.found(agency, at-x)
		}
		created = append(created, epoch.Add(x))
	}
	if !k.told {
		created = created[max(0, len(created)-history):]
	}
	k.last, k.told = at, true
	s.s.Polled(turn.Insertion, epoch.Add(at), created)
	if k.gone {
		k.in = false
		s.s.Remove(turn.Insertion)
		delete(s.byName, turn.Insertion)
	}
}

// walk asks for the next page of an agency's list.
func (s *simulation) walk(agency int, at time.Duration) {
	s.send(agency, at)
	s.read(agency, at)
	if s.measures(at) {
		s.f.Walks++
	}
}

// read reads the next page of an agency's list. What is new in it, and what it does not show any more, is urgent.
func (s *simulation) read(agency int, at time.Duration) {
	page, of := s.cursor[agency], s.pages[agency]
	s.cursor[agency] = (page + 1) % of
	lo, hi := s.span(agency)
	lo += page * s.Page
	for slot := lo; slot < min(lo+s.Page, hi); slot++ {
		i := s.slots[slot].shown
		if i >= 0 && s.t.Insertions[i].Gone > at {
			s.s.Seen(s.known[i].name, s.changed(&s.slots[slot], at), epoch.Add(at))
			continue
		}
		s.replace(slot, at)
	}
	s.s.Read(schedule.Agency(agency), page, of, epoch.Add(at))
}

// replace puts the insertion that a slot holds at a moment in the place of the one that the list showed before.
func (s *simulation) replace(slot int, at time.Duration) {
	before, i := s.slots[slot].shown, s.t.slots[slot]
	if before >= 0 {
		s.known[before].gone = true
		s.s.Urge(s.known[before].name, schedule.Urgent)
		i = before + 1
	}
	for s.t.Insertions[i].Gone <= at {
		i++
	}
	one := s.t.Insertions[i]
	var m schedule.Memory
	if before >= 0 || s.Births {
		m.Born = epoch.Add(one.Born)
	}
	if before >= 0 && !s.Births {
		m.Born = epoch.Add(at) // the list did not show it before
	}
	name := s.s.Add(schedule.Agency(s.t.Agency(slot)), m, epoch.Add(at))
	s.known[i].name, s.known[i].last, s.known[i].in, s.byName[name] = name, at, true, i
	if before >= 0 {
		s.s.Urge(name, schedule.Urgent)
	}
	s.slots[slot] = record{shown: i, next: one.first, edit: at + s.pause()}
	s.changed(&s.slots[slot], at)
}

// The members of records.
const (
	counter = 1 << iota
	edited
	stamp
)

// changed says which members of a record have changed since the last reading.
func (s *simulation) changed(r *record, at time.Duration) (members uint32) {
	for last := s.t.Insertions[r.shown].last; r.next < last && s.t.Leads[r.next] <= at; r.next++ {
		if s.Records.Betray {
			members |= counter
		}
	}
	if r.edit <= at {
		members |= edited
		r.edit = at + s.pause()
	}
	if s.Records.Always {
		members |= stamp
	}
	return members
}

// pause is until the next edit.
func (s *simulation) pause() time.Duration {
	if s.Records.Edits == 0 {
		return 1 << 62
	}
	return days(s.draw.ExpFloat64() / s.Records.Edits)
}

// finish counts what was never found, and how long those have waited that wait at the end.
func (s *simulation) finish() {
	end := s.end + s.f.Cap
	for i := range s.known {
		k := &s.known[i]
		if !k.in {
			continue
		}
		s.f.Oldest = max(s.f.Oldest, end-k.last)
		for _, x := range s.t.Leads[k.next:s.t.Insertions[i].last] {
			if s.measures(x) {
				s.found(int(k.name.Agency), end-x)
				s.f.Missed++
			}
		}
	}
	slices.Sort(s.f.Latencies)
}

// judge foresees, four times a day, what taking turns and a schedule that knows the true rates would need.
func (s *simulation) judge(walks float64) {
	weight := 0.0
	for at := s.WarmUp; at < s.end; at += Day / 4 {
		p, sum := schedule.Plan{Budget: s.Budget, Interval: s.Interval, Walks: walks}, 0.0
		for i := range s.t.Insertions {
			if one := &s.t.Insertions[i]; one.Born <= at && at < one.Gone {
				rate := one.Rate(at)
				p.Rates, sum = append(p.Rates, schedule.RateCount{PerDay: rate, Count: 1}), sum+rate
			}
		}
		weight += sum
		for f, g := range map[*schedule.Forecast]schedule.Forecast{&s.f.Turns: p.Turns(), &s.f.Oracle: p.Forecast()} {
			part := sum / weight
			f.Mean += time.Duration(part * float64(g.Mean-f.Mean))
			f.Median += time.Duration(part * float64(g.Median-f.Median))
			f.P95 += time.Duration(part * float64(g.P95-f.P95))
			f.WithinFive += part * (g.WithinFive - f.WithinFive)
		}
	}
}

// sweep is how often the whole list is worth being read for what appears there: when a page of it gains as much as a poll.
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
