// Package schedule decides what is asked next. It is a pure structure: no clock, no goroutine, no network and no store; the
// caller says what time it is. It is not safe for concurrent use.
//
// A poll of an insertion shows all contact requests since the poll before, so with contact requests at rate λ and polls
// every T the mean latency is T/2. Under one budget for all insertions the mean over all contact requests is least at
// T ∝ 1/√λ (Sia, Cho and Cho, "Efficient monitoring algorithm for fast news alerts", 2007): neither taking turns nor
// polling in proportion to λ. The same as a rule for one decision is the Whittle index: an insertion that was not polled
// for a time a is worth W(a) = ∫ u dc(u), where c(u) are the contact requests to expect within u; with c = λu that is
// λa²/2. What is worth most is asked next.
//
// So an insertion with rate λ is due S/√λ after its last poll, and what is due first is asked first. S is Σ√λ divided by the
// polls a second that are left for it; as walks, pauses and a slow API take their part of the budget, S follows how long
// those that were polled in turn had really waited. Due times are within Interval and a share of the cap.
//
// λ is learned. Insertions of an agency share a curve μ(age); each differs from it by a factor that is learned from its
// own contact requests n and how many the curve let expect, R, both fading over 80 days; and a contact request makes more
// of them likely for two hours: λ = μ·factor(n, R) + 0.1·burst/2h. An age that is not known is guessed from the first
// answer. Being late loses time but no knowledge, since a poll
// shows the past too: there is no need to explore.
//
// Pages of the agency's list compete by the same index: with insertions that appear there, and with changes of records
// that betray contact requests (hints), if these turn out to.
//
// No insertion waits longer than the cap: as many turns as that takes go to those that wait the longest. What is urgent
// comes before all else, with seven turns of ten as long as others wait. Agencies share the turns fairly. What is in
// flight is not given out again before its result. Nothing is polled more often than Options.Interval; the rest of the
// budget is not spent.
//
//	Add, Urge ──► heap by due, urgent ──Next──► in flight ──Polled──► λ anew, heap
//	                  ▲                             └──────Put──────► wait, then Retry
package schedule

import (
	"math"
	"slices"
	"time"
)

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	Budget    float64       // 5; requests per second that may be spent on everything
	Interval  time.Duration // least time between two regular polls of one insertion; 0: none
	Staleness time.Duration // the cap: no insertion waits longer; 0: four times what taking turns needs
}

// Agency is the handle of an agency, Insertion that of one of its insertions. They are given out anew after Leave and
// Remove.
type (
	Agency    uint32
	Insertion struct {
		Agency Agency
		Slot   uint32 // small: the caller may use it as an index
	}
)

// Why is the reason of a turn.
type Why uint8

// The reasons. None: there is nothing to do now.
const (
	None   Why = iota
	Index      // most is likely to have happened there
	Cap        // it would else wait longer than the cap
	Urgent     // it has just appeared, or somebody wants to know
	Hint       // its record has changed as records do when a contact request came
	Walk       // a page of the agency's list is worth more than any poll
	Retry      // it failed and has waited
)

// Whys are all reasons but None, and how they are called.
var whys = [...]string{"none", "index", "cap", "urgent", "hint", "walk", "retry"}

func (w Why) String() string { return whys[w] }

// Memory is what a restart must know of an insertion. The zero value is one that is not known.
type Memory struct {
	Born     time.Time // when it was published, as far as known
	LastPoll time.Time // last good answer; zero: never
	Leads    float32   // contact requests, each faded by its age; as of LastPoll, as what follows
	Expected float32   // how many an insertion of its ages would have had
	Burst    float32   // contact requests of the last hours
	Guessed  bool      // Born is no more than a guess
}

// Turn is what to ask now. Walk names an agency, all other reasons an insertion.
type Turn struct {
	Why       Why
	Insertion Insertion
}

// Schedule holds all insertions that are to be polled. The zero value is not usable; see New.
type Schedule struct {
	o        Options
	interval int64
	agencies []*agency // by handle; nil: free
	count    int

	now, shift int64 // the latest moment by our clock, and how far that is ahead of the caller's
	began      int64 // the first moment

	ready, asleep, byAge queue[*agency] // by virtual time; by the moment at which there will be something to do; by the oldest that waits
	virtual, ahead       int64          // the virtual time, and how far an agency may be ahead of it
	sharesIn             int            // turns until the weights are set anew
	shared               int            // insertions when they were set last

	cap          int64
	ages         ages
	relaxedUntil int64
	odd          bool // the last turn under half pressure was for the oldest
	pressed      int  // turns under pressure

	pace   float64 // nanoseconds for a turn
	turnAt int64   // 0: the last call of Next gave out nothing
}

// New returns an empty schedule.
func New(o Options) *Schedule {
	if !(o.Budget > 0) {
		o.Budget = 5
	}
	o.Budget = min(max(o.Budget, 1e-6), 1e6)
	s := &Schedule{o: o, interval: int64(min(max(o.Interval, 0), maxSpan))}
	s.o.Staleness = min(max(o.Staleness, 0), maxSpan)
	s.ready = queue[*agency]{key: func(g *agency) int64 { return g.ready }, place: func(g *agency) *int32 { return &g.place[0] }}
	s.asleep = queue[*agency]{key: func(g *agency) int64 { return g.wakes }, place: func(g *agency) *int32 { return &g.place[1] }}
	s.byAge = queue[*agency]{key: (*agency).oldest, place: func(g *agency) *int32 { return &g.place[2] }}
	s.pace = float64(second) / o.Budget
	s.resize()
	return s
}

// Enter adds an agency. learned is what Learned returned of it, in this process or another; nil or anything else: nothing.
func (s *Schedule) Enter(learned []byte) Agency {
	n := slices.Index(s.agencies, nil)
	if n < 0 {
		n = len(s.agencies)
		s.agencies = append(s.agencies, nil)
	}
	g := newAgency(s, Agency(n))
	s.agencies[n] = g
	g.recall(learned)
	s.sharesIn = 0
	return g.handle
}

// Leave takes an agency out, with all of its insertions. None of them may be in flight.
func (s *Schedule) Leave(a Agency) {
	g := s.agencies[a]
	g.countAges(false)
	s.ready.drop(g)
	s.asleep.drop(g)
	s.byAge.drop(g)
	s.agencies[a] = nil
	s.count -= g.count
	s.resize()
}

// Add puts an insertion into the schedule. One that was never polled waits its turn as any other; see Urge.
func (s *Schedule) Add(a Agency, m Memory, now time.Time) Insertion {
	g, t := s.agencies[a], s.tick(now)
	slot := g.slot()
	i := &g.items[slot]
	*i = item{
		last: t - s.interval, flags: unread, place: [2]int32{-1, -1},
		leads: sane(m.Leads), expected: sane(m.Expected), burst: sane(m.Burst),
	}
	if !m.Born.IsZero() {
		i.born = s.birth(m.Born)
	}
	if !m.LastPoll.IsZero() {
		i.last, i.flags = min(s.inside(m.LastPoll), t), 0
		if i.born == 0 {
			i.born, m.Guessed = birthOf(t-int64(usualAge)*second), true
		}
		if m.Guessed {
			i.flags = guessed
		}
	} else {
		g.unread++
		g.appeared(i, t)
	}
	g.count++
	s.count++
	g.rank(i, t)
	s.resize()
	s.recount(g)
	g.wait(slot)
	g.settle()
	s.touch(g)
	return Insertion{a, slot}
}

// Grow makes room for so many more insertions of an agency at once.
func (s *Schedule) Grow(a Agency, n int) {
	g := s.agencies[a]
	g.items = append(make([]item, 0, len(g.items)+n), g.items...)
}

// Remove takes an insertion out of the schedule; it may be in flight.
func (s *Schedule) Remove(name Insertion) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	g.leave(name.Slot)
	if i.urgent != None {
		g.urgent--
	}
	if i.flags&unread != 0 {
		g.unread--
	}
	g.roots -= math.Sqrt(float64(i.rate))
	g.rates -= float64(i.rate)
	if g.count--; g.count == 0 {
		g.roots, g.rates = 0, 0
	}
	s.count--
	*i = item{place: [2]int32{int32(g.free)}}
	g.free = name.Slot
	s.resize()
	s.changed(g)
}

// Urge lets an insertion be polled soon, before all that is not urgent, for a reason: Urgent or Hint. One that is urgent
// already keeps its place, one that is in flight is polled once more, one that waits after a failure waits no longer.
func (s *Schedule) Urge(name Insertion, why Why) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.urgent != None || i.where == free {
		return
	}
	i.urgent = why
	g.urgent++
	if i.where == flying {
		return // its result queues it
	}
	if i.where == delayed {
		g.leave(name.Slot)
		g.wait(name.Slot)
	} else {
		g.enqueue(name.Slot)
	}
	s.touch(g)
}

// Pause gives out nothing of an agency before until, or until the next call if that is years away; the zero time ends a
// pause. With probing, afterwards one insertion is given out at a time.
func (s *Schedule) Pause(a Agency, until time.Time, probing bool) {
	g := s.agencies[a]
	g.probing, g.paused = probing, math.MinInt64
	switch {
	case until.IsZero():
	case s.now != 0 && until.After(s.outside(s.now).AddDate(1, 0, 0)):
		g.paused = math.MaxInt64 // until somebody ends it
	default:
		g.paused = s.later(until)
	}
	s.changed(g)
}

// Polled ends the flight of an insertion, if it is in flight, with a good answer that was received at a moment. created
// are the creation times of the contact requests that were not known before, zero where unknown; at the first poll of an
// insertion of all that the answer shows.
func (s *Schedule) Polled(name Insertion, at time.Time, created []time.Time) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.where == free {
		return
	}
	t := max(i.last, s.past(at))
	g.leave(name.Slot)
	g.answer(i, t, created)
	if i.flags&unread != 0 {
		g.unread--
	}
	i.last, i.flags = t, i.flags&^(unread|failed)
	g.rank(i, t)
	g.wait(name.Slot)
	s.changed(g)
}

// Put ends the flight of an insertion, if it is in flight, without a good answer: it is asked again from a moment on. When
// it was polled last stays as it was.
func (s *Schedule) Put(name Insertion, until time.Time) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.where == free {
		return
	}
	flew := i.where == flying
	i.flags |= failed
	switch {
	case i.urgent == None:
		g.leave(name.Slot)
		g.delay(name.Slot, s.later(until))
	case flew:
		g.leave(name.Slot)
		g.wait(name.Slot)
	}
	s.changed(g)
}

// changed looks anew at whether an agency may be asked.
func (s *Schedule) changed(g *agency) {
	g.countAges(!g.blocked(s.now))
	s.touch(g)
}

// sane is a number of a memory from outside.
func sane(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1e6)
}

// slot finds a free one.
func (g *agency) slot() uint32 {
	if slot := g.free; slot != none {
		g.free = uint32(g.items[slot].place[0])
		return slot
	}
	if n := len(g.items); n == cap(g.items) {
		more := n/16 + 1 // append alone would keep a quarter free
		if n < 1024 {
			more = n/32 + 1
		}
		g.items = append(make([]item, 0, n+more), g.items...)
	}
	g.items = append(g.items, item{})
	return uint32(len(g.items) - 1)
}
