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
	Births   bool          // the records of the list say when they were published
	Betray   bool          // each contact request changes a member of the record, as a counter would
	Edits    float64       // changes of the record a day that have nothing to do with contact requests
}

// Figures are what a run showed between the end of its warm-up and its end, as far as forecasts have the same: Mean,
// Median, P95 and WithinFive.
type Figures struct {
	Found         schedule.Forecast
	Turns, Oracle schedule.Forecast // with the true rates, on average over the span

	Requests []int   // of all kinds, by agency
	Walks    float64 // share of them for pages of lists
	Span     time.Duration

	// What was promised.
	Cap    time.Duration // that an insertion might have waited
	Oldest time.Duration // and did, from the first moment on
	Early  int           // polls that came before the interval had passed, though nothing was urgent
	Missed int           // contact requests that were never found
}

// PerSecond is how many requests were sent.
func (f *Figures) PerSecond() float64 {
	sum := 0
	for _, n := range f.Requests {
		sum += n
	}
	return float64(sum) / f.Span.Seconds()
}

// Kept says whether all was found, no insertion waited longer than the cap, and none was polled too early.
func (f *Figures) Kept() bool { return f.Early == 0 && f.Missed == 0 && f.Oldest <= f.Cap }

// epoch is the beginning of a trace.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// simulation is a run under way. A request is sent when the budget has room for one.
type simulation struct {
	Run
	*Trace
	schedule  *schedule.Schedule
	f         *Figures
	end       time.Duration
	latencies []time.Duration // of contact requests
	walks     int
	known     []state
	shown     []record // by slot
	handles   map[schedule.Insertion]int32
	pages     []int // by agency: how many its list has
	cursor    []int // by agency: the page to be read
	random    *rand.Rand
}

// state is what is known of an insertion.
type state struct {
	handle schedule.Insertion
	last   time.Duration // poll
	next   int32         // contact request that was not found yet
	polled bool          // before
	in     bool          // the schedule has it
	gone   bool          // it is polled for the last time
}

// record is what the list showed of a slot.
type record struct {
	insertion int32         // -1: none
	next      int32         // contact request that is younger than the last reading
	edit      time.Duration // the next edit
}

// history is how many contact requests an answer shows.
const history = 20

// Simulate makes up a market and lets the schedule poll it.
func (o Run) Simulate(m Market) *Figures {
	m = m.withDefaults()
	o.Budget, o.Page = cmp.Or(o.Budget, 5), cmp.Or(o.Page, 100)
	o.WarmUp, o.Measured = cmp.Or(o.WarmUp, Day), cmp.Or(o.Measured, 14*Day)
	longest := o.Interval + time.Duration(4*float64(m.Insertions)/o.Budget*float64(time.Second))
	m.Span = o.WarmUp + o.Measured + longest // what comes at the end must be found after it
	t := New(m)
	s := &simulation{
		Run: o, Trace: t, end: o.WarmUp + o.Measured, known: make([]state, len(t.Insertions)), shown: make([]record, m.Insertions),
		schedule: schedule.New(schedule.Options{Budget: o.Budget, Interval: o.Interval}),
		f:        &Figures{Span: o.Measured, Cap: longest, Requests: make([]int, t.Agencies)},
		handles:  map[schedule.Insertion]int32{}, cursor: make([]int, t.Agencies),
		random: rand.New(rand.NewPCG(t.Seed, 1<<40)),
	}
	for i := range s.shown {
		s.shown[i].insertion = -1 // nothing yet
	}
	for i := range s.known {
		s.known[i].next = t.Insertions[i].first
	}
	for k := range t.Agencies {
		lo, hi := s.span(k)
		s.schedule.Enter(nil)
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
	n, k := s.Market.Insertions, s.Agencies
	return (agency*n + k - 1) / k, ((agency+1)*n + k - 1) / k
}

// run asks whenever the budget allows it, until all that came before the end must have been found.
func (s *simulation) run() {
	gap := float64(time.Second) / s.Budget
	sweep, walked := s.sweep(s.Budget, s.Page), time.Duration(0)
	pages := (s.Market.Insertions + s.Page - 1) / s.Page
	for free, k := 0.0, 0; free < float64(s.end+s.f.Cap); free += gap {
		at := time.Duration(math.Ceil(free))
		if at-walked > sweep/time.Duration(pages) {
			walked, k = at, (k+1)%s.Agencies
			s.walk(k, at)
			continue
		}
		turn, pause := s.schedule.Next(epoch.Add(at))
		switch turn.Why {
		case schedule.None:
			free = float64(at) + max(gap, float64(pause)) - gap
		case schedule.Walk:
			s.walk(int(turn.Insertion.Agency), at)
		default:
			s.poll(turn, at)
		}
	}
	s.judge(float64(pages) / sweep.Seconds())
}

func (s *simulation) measures(at time.Duration) bool { return at >= s.WarmUp && at < s.end }

// send counts a request, if this is the time to count.
func (s *simulation) send(agency int, at time.Duration) (counted bool) {
	if counted = s.measures(at); counted {
		s.f.Requests[agency]++
	}
	return counted
}

func (s *simulation) poll(turn schedule.Turn, at time.Duration) {
	i, in := s.handles[turn.Insertion]
	if !in {
		panic("an insertion was asked that is not in the schedule")
	}
	one, k := &s.Insertions[i], &s.known[i]
	urgent := turn.Why == schedule.Urgent || turn.Why == schedule.Hint
	s.send(int(turn.Insertion.Agency), at)
	if !urgent && k.polled && at-k.last < s.Interval {
		s.f.Early++
	}
	s.f.Oldest = max(s.f.Oldest, at-k.last)
	var created []time.Time
	for ; k.next < one.last && s.Leads[k.next] <= at; k.next++ {
		x := s.Leads[k.next]
		if s.measures(x) {
			s.latencies = append(s.latencies, at-x)
		}
		created = append(created, epoch.Add(x))
	}
	if !k.polled {
		created = created[max(0, len(created)-history):]
	}
	k.last, k.polled = at, true
	s.schedule.Polled(turn.Insertion, epoch.Add(at), created)
	if k.gone {
		k.in = false
		s.schedule.Remove(turn.Insertion)
		delete(s.handles, turn.Insertion)
	}
}

// walk asks for the next page of an agency's list.
func (s *simulation) walk(agency int, at time.Duration) {
	if s.send(agency, at) {
		s.walks++
	}
	s.read(agency, at)
}

// read reads the next page of an agency's list. What is new in it, and what it does not show any more, is urgent.
func (s *simulation) read(agency int, at time.Duration) {
	page, of := s.cursor[agency], s.pages[agency]
	s.cursor[agency] = (page + 1) % of
	lo, hi := s.span(agency)
	lo += page * s.Page
	for slot := lo; slot < min(lo+s.Page, hi); slot++ {
		if i := s.shown[slot].insertion; i >= 0 && s.Insertions[i].Gone > at {
			s.schedule.Seen(s.known[i].handle, s.changed(&s.shown[slot], at), epoch.Add(at))
			continue
		}
		s.replace(slot, at)
	}
	s.schedule.Read(schedule.Agency(agency), page, of, epoch.Add(at))
}

// replace puts the insertion that a slot holds at a moment in the place of the one that the list showed before.
func (s *simulation) replace(slot int, at time.Duration) {
	before, i := s.shown[slot].insertion, s.slots[slot]
	if before >= 0 {
		s.known[before].gone = true
		s.schedule.Prioritize(s.known[before].handle, schedule.Urgent)
		i = before + 1
	}
	for s.Insertions[i].Gone <= at {
		i++
	}
	one := s.Insertions[i]
	var m schedule.Memory
	switch {
	case s.Births:
		m.Born = epoch.Add(one.Born)
	case before >= 0:
		m.Born = epoch.Add(at) // the list did not show it before
	}
	handle := s.schedule.Add(schedule.Agency(s.Agency(slot)), m, epoch.Add(at))
	s.known[i].handle, s.known[i].last, s.known[i].in, s.handles[handle] = handle, at, true, i
	if before >= 0 {
		s.schedule.Prioritize(handle, schedule.Urgent)
	}
	s.shown[slot] = record{insertion: i, next: one.first, edit: at + s.pause()}
	s.changed(&s.shown[slot], at)
}

// changed says whether a record has changed since the last reading: a counter of contact requests, or by an edit.
func (s *simulation) changed(r *record, at time.Duration) (changed bool) {
	for last := s.Insertions[r.insertion].last; r.next < last && s.Leads[r.next] <= at; r.next++ {
		changed = changed || s.Betray
	}
	if r.edit <= at {
		changed, r.edit = true, at+s.pause()
	}
	return changed
}

// pause is until the next edit.
func (s *simulation) pause() time.Duration {
	if s.Edits == 0 {
		return 1 << 62
	}
	return days(s.random.ExpFloat64() / s.Edits)
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
		for _, x := range s.Leads[k.next:s.Insertions[i].last] {
			if s.measures(x) {
				s.latencies = append(s.latencies, end-x)
				s.f.Missed++
			}
		}
	}
	s.f.Walks = float64(s.walks) / s.f.PerSecond() / s.f.Span.Seconds()
	n := len(s.latencies)
	if n == 0 {
		return
	}
	slices.Sort(s.latencies)
	sum := time.Duration(0)
	for _, l := range s.latencies {
		sum += l
	}
	within, _ := slices.BinarySearch(s.latencies, 5*time.Minute+1)
	s.f.Found = schedule.Forecast{
		Mean: sum / time.Duration(n), Median: s.latencies[(n-1)/2], P95: s.latencies[(n-1)*95/100], WithinFive: float64(within) / float64(n),
	}
}

// judge foresees, four times a day, what taking turns and a schedule that knows the true rates would need.
func (s *simulation) judge(walks float64) {
	weight := 0.0
	for at := s.WarmUp; at < s.end; at += Day / 4 {
		p, sum := schedule.Plan{Budget: s.Budget, Interval: s.Interval, Walks: walks}, 0.0
		for i := range s.Insertions {
			if one := &s.Insertions[i]; one.Born <= at && at < one.Gone {
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
