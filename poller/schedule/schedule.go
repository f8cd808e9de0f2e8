// Package schedule decides what is polled next. It is a pure structure: no clock, no goroutine, no network and no store; the
// caller says what time it is. It is not safe for concurrent use.
//
// A poll of an insertion shows all contact requests since the poll before, so with contact requests at rate λ and polls
// every T the mean latency is T/2. Under one budget for all insertions the mean over all contact requests is least at
// T ∝ 1/√λ (Sia, Cho and Cho, "Efficient monitoring algorithm for fast news alerts", 2007): neither taking turns nor
// polling in proportion to λ. So an insertion is due S/√λ after its last poll, but not before an interval and not after the
// cap, and what is due first is polled first. S is Σ√λ divided by the polls a second that are left for it; as walks, pauses and
// a slow API take their part of the budget, it follows how long those that were polled in turn had really waited.
//
// λ is learned (rate.go): from a curve over ages that insertions of an agency share, from the contact requests of the
// insertion itself, and from those of the last hours. Being late loses time but no knowledge, since a poll shows the past
// too: there is no need to explore. Where changes of records in the agency's list betray contact requests (hints.go),
// pages of the list compete with polls. A [Plan] foresees by the same rule what a budget achieves (forecast.go).
//
// What is urgent comes first, with nine turns of thirteen as long as others wait; what failed gets every second of the others.
// Agencies share the turns fairly. An insertion that is close to the cap goes before all that, at first in every second turn.
// What is in flight is not given out again before its result. Nothing is polled more often than Options.Interval; the rest of the budget
// is not spent.
//
//	Add, Prioritize ──► heaps by due ──Next──► in flight ──Polled──► λ anew, heap
//	                        ▲                      └──────Put──────► wait, then Retry
package schedule

import (
	"cmp"
	"container/heap"
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

var whys = [...]string{"none", "index", "cap", "urgent", "hint", "walk", "retry"}

func (w Why) String() string { return whys[w] }

// Memory is what a restart must know of an insertion. The zero value is one that is not known.
type Memory struct {
	Born     time.Time // when it was published; zero: not known
	LastPoll time.Time // last good answer; zero: never
	Leads    float32   // contact requests, each faded by its age; as of LastPoll, as what follows
	Expected float32   // how many an insertion of its ages would have had
	Burst    float32   // contact requests of the last hours
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

	now    int64     // nanoseconds since the first moment; it never goes back
	latest time.Time // the same by the caller's clock
	order  int64     // of what became urgent

	virtual float64 // of the agency that had a turn last
	turns   int     // given so far
}

const (
	second  = int64(time.Second)
	maxSpan = 100 * 365 * 24 * time.Hour // as good as for ever
)

// New returns an empty schedule.
func New(o Options) *Schedule {
	if !(o.Budget > 0) {
		o.Budget = 5
	}
	o.Budget = min(max(o.Budget, 1e-6), 1e6)
	o.Staleness = min(max(o.Staleness, 0), maxSpan)
	return &Schedule{o: o, interval: int64(min(max(o.Interval, 0), maxSpan)), now: 1}
}

// tick sets our clock. The caller's is a monotonic one; what is older than what it said before changes nothing.
func (s *Schedule) tick(now time.Time) int64 {
	if d := now.Sub(s.latest); s.latest.IsZero() {
		s.latest = now
	} else if d > 0 {
		s.now, s.latest = s.now+int64(d), now
	}
	return s.now
}

// inside is a moment by our clock, outside the reverse.
func (s *Schedule) inside(t time.Time) int64 { return s.now + int64(min(t.Sub(s.latest), maxSpan)) }

func (s *Schedule) outside(t int64) time.Time { return s.latest.Add(time.Duration(t - s.now)) }

// answered is the moment of an answer, which may have come some time ago.
func (s *Schedule) answered(at time.Time) int64 {
	s.tick(at)
	return s.inside(at)
}

// item is an insertion.
type item struct {
	last      int64 // last good answer; of one that never had one, an interval before it was added
	due       int64 // in its queue
	rate      float32
	leads     float32
	expected  float32
	burst     float32
	born      uint32 // seconds since 1970; 0: not known
	readAt    uint32 // by the last walk that showed the record, in ticks; 0: by none
	changedAt uint32 // when the record had last changed; 0: never
	unchanged uint32 // the reading before that
	place     int32  // in its queue; in the list of free slots, the next
	rank      int32  // among the oldest
	where     where
	urgent    Why
	unread    bool // never had a good answer
	awaited   bool // a contact request is known that no walk can have betrayed yet
}

// where an item is. The first three are queues; what waits in the first two stands in that of the oldest, too.
type where uint8

const (
	planned where = iota // by when it is its turn
	urgent               // by when they became so
	delayed              // after a failure: by when they may come back
	inFlight
	free
)

// agency is what waits at one of them, and what was learned there.
type agency struct {
	s       *Schedule
	handle  Agency
	items   []item // by slot
	free    int32  // the first free slot; -1: none
	queues  [inFlight]queue
	oldest  queue
	pending int // how many are in flight
	count   int
	turns   int // given so far, but for the cap

	paused  time.Time // nothing is given out before
	probing bool      // one at a time
	given   [len(whys)]uint64

	roots, rates float64 // Σ√λ and Σλ, a second
	price        float64 // S, in nanoseconds·√(1/s)
	lateness     float64 // how long those polled in their turn had waited, against what was planned; smoothed
	ready        float64 // virtual time

	curve curve
	pages pages
	hints hints
}

// queue is a heap of items by their due times, or by their last polls. It is used by package heap, and nothing is pushed or
// popped but by put and heap.Remove.
type queue struct {
	g      *agency
	oldest bool // by their last polls
	list   []uint32
}

func (q *queue) key(n int) int64 {
	if i := &q.g.items[q.list[n]]; !q.oldest {
		return i.due
	} else {
		return i.last
	}
}

func (q *queue) place(n int) {
	if i := &q.g.items[q.list[n]]; q.oldest {
		i.rank = int32(n)
	} else {
		i.place = int32(n)
	}
}

func (q *queue) Len() int           { return len(q.list) }
func (q *queue) Less(a, b int) bool { return q.key(a) < q.key(b) }
func (q *queue) Push(any)           {}
func (q *queue) Pop() any           { q.list = q.list[:len(q.list)-1]; return nil }

func (q *queue) Swap(a, b int) {
	q.list[a], q.list[b] = q.list[b], q.list[a]
	q.place(a)
	q.place(b)
}

func (q *queue) put(slot uint32) {
	q.list = append(q.list, slot)
	q.place(len(q.list) - 1)
	heap.Fix(q, len(q.list)-1)
}

// first is the slot that comes first, -1 if there is none.
func (q *queue) first() int64 {
	if len(q.list) == 0 {
		return -1
	}
	return int64(q.list[0])
}

// Enter adds an agency. learned is what Learned returned of it, in this process or another; nil or anything else: nothing.
func (s *Schedule) Enter(learned []byte) Agency {
	n := slices.Index(s.agencies, nil)
	if n < 0 {
		n = len(s.agencies)
		s.agencies = append(s.agencies, nil)
	}
	g := &agency{s: s, handle: Agency(n), free: -1, lateness: 1, ready: s.virtual, curve: curve{fitted: s.now}}
	g.oldest = queue{g: g, oldest: true}
	for w := range g.queues {
		g.queues[w].g = g
	}
	g.restore(learned)
	g.curve.fit(s.now)
	s.agencies[n] = g
	return g.handle
}

// Leave takes an agency out, with all of its insertions. None of them may be in flight.
func (s *Schedule) Leave(a Agency) {
	s.count -= s.agencies[a].count
	s.agencies[a] = nil
}

// Add puts an insertion into the schedule. One that was never polled waits its turn as any other; see Urge.
func (s *Schedule) Add(a Agency, m Memory, now time.Time) Insertion {
	g, t := s.agencies[a], s.tick(now)
	slot := uint32(g.free)
	if g.free >= 0 {
		g.free = g.items[slot].place
	} else {
		slot = uint32(len(g.items))
		g.items = append(g.items, item{})
	}
	i := &g.items[slot]
	*i = item{last: t - s.interval, where: free, unread: true, leads: sane(m.Leads), expected: sane(m.Expected), burst: sane(m.Burst)}
	if !m.Born.IsZero() {
		i.born = uint32(min(max(m.Born.Unix(), 1), math.MaxUint32))
	}
	if !m.LastPoll.IsZero() {
		i.last, i.unread = min(s.inside(m.LastPoll), t), false
	}
	g.count++
	s.count++
	g.rank(i)
	if g.count == 1 {
		g.price = g.roots / s.o.Budget * 1e9
	}
	g.wait(slot)
	return Insertion{a, slot}
}

// sane is a number of a memory from outside.
func sane(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1e6)
}

// Remove takes an insertion out of the schedule; it may be in flight.
func (s *Schedule) Remove(name Insertion) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.where == free {
		return
	}
	g.move(name.Slot, free, 0)
	g.weigh(i, 0)
	if g.count--; g.count == 0 {
		g.roots, g.rates = 0, 0 // without what rounding left
	}
	s.count--
	*i = item{where: free, place: g.free}
	g.free = int32(name.Slot)
}

// Prioritize lets an insertion be polled soon, before all that is not urgent, for a reason: Urgent or Hint. One that is urgent
// already keeps its place, one that is in flight is polled once more, one that waits after a failure waits no longer.
func (s *Schedule) Prioritize(name Insertion, why Why) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.urgent != None || i.where == free {
		return
	}
	if i.urgent = why; i.where != inFlight { // else its result queues it
		g.wait(name.Slot)
	}
}

// Pause gives out nothing of an agency before until; the zero time ends a pause. With probing, afterwards one insertion is
// given out at a time.
func (s *Schedule) Pause(a Agency, until time.Time, probing bool) {
	s.agencies[a].paused, s.agencies[a].probing = until, probing
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
	t := max(i.last, s.answered(at))
	g.answer(i, t, created)
	i.last, i.unread = t, false
	g.rank(i)
	g.wait(name.Slot)
}

// Put ends the flight of an insertion, if it is in flight, without a good answer: it is asked again from a moment on. When
// it was polled last stays as it was.
func (s *Schedule) Put(name Insertion, until time.Time) {
	g := s.agencies[name.Agency]
	switch i := &g.items[name.Slot]; {
	case i.where == free:
	case i.urgent == None:
		g.move(name.Slot, delayed, s.inside(until))
	case i.where == inFlight:
		g.wait(name.Slot)
	}
}

// move takes an item from where it is to somewhere else.
func (g *agency) move(slot uint32, to where, due int64) {
	i := &g.items[slot]
	if i.where <= urgent {
		heap.Remove(&g.oldest, int(i.rank))
	}
	if i.where < inFlight {
		heap.Remove(&g.queues[i.where], int(i.place))
	} else if i.where == inFlight {
		g.pending--
	}
	i.where, i.due = to, due
	if to <= urgent {
		g.oldest.put(slot)
	}
	if to < inFlight {
		g.queues[to].put(slot)
	} else if to == inFlight {
		g.pending++
	}
}

// wait lets an item wait for its turn.
func (g *agency) wait(slot uint32) {
	if i := &g.items[slot]; i.urgent == None {
		g.move(slot, planned, i.last+int64(g.after(slot)))
		return
	}
	g.s.order++
	g.move(slot, urgent, g.s.order)
}

// after is how long after its last poll an insertion is due: S/√λ, within the interval and a share of the cap. The shares
// differ, so that those that were polled together do not all come back together.
func (g *agency) after(slot uint32) float64 {
	share := 0.77 + 0.1*float64(slot*2654435761>>16)/(1<<16)
	return every(g.price, float64(g.items[slot].rate), float64(g.s.interval), share*g.s.cap())
}

// reprice sets S and all due times anew.
func (g *agency) reprice(factor float64) {
	g.price, g.lateness = g.price*factor, 1
	for _, slot := range g.queues[planned].list {
		g.items[slot].due = g.items[slot].last + int64(g.after(slot))
	}
	heap.Init(&g.queues[planned])
}

// learn corrects S by a poll in turn. On average over the polls the square root of λ times the time waited is Σ√λ divided
// by the polls a second, whatever was planned: where those polled had waited for longer than planned, the budget is smaller
// than S says. When S is off by a fifth, all is planned anew.
func (g *agency) learn(slot uint32, now int64) {
	i := &g.items[slot]
	p := g.after(slot)
	if p < g.price/math.Sqrt(float64(i.rate)) { // the cap lets it be polled
		return
	}
	r := float64(now-i.last) / max(p, 1)
	g.lateness += (min(max(r, 0.1), 10) - g.lateness) / 32
	if g.lateness > 1.2 || g.lateness < 1/1.2 {
		g.reprice(g.lateness)
	}
}

// Next gives out what to ask now. With None it says how long there will be nothing; zero means until something is added,
// prioritized or resumed. The caller sends no more than the budget, and asks only when it could send.
func (s *Schedule) Next(now time.Time) (Turn, time.Duration) {
	t := s.tick(now)
	s.turns++
	if g, slot := s.overdue(t); g != nil && s.turns%s.spared(t-g.items[slot].last) != 0 {
		why := cmp.Or(g.items[slot].urgent, Cap)
		if slot == g.queues[planned].first() {
			why = Index // it would have been its turn anyway
		}
		return s.give(g, slot, why), 0
	}
	var best *agency
	var slot int64
	var why Why
	wakes := int64(math.MaxInt64)
	for _, g := range s.agencies {
		if g == nil || best != nil && max(g.ready, s.virtual) >= max(best.ready, s.virtual) {
			continue
		}
		if n, w := g.take(t); w != None {
			best, slot, why = g, n, w
		} else {
			wakes = min(wakes, g.wakes(t))
		}
	}
	if best != nil {
		best.turns++
		return s.give(best, slot, why), 0
	}
	if wakes == math.MaxInt64 {
		return Turn{}, 0
	}
	return Turn{}, time.Duration(max(wakes-t, int64(time.Millisecond)))
}

// spared: one of so many turns is for others than those close to the cap. At first it is every second one, so that what is urgent
// is not kept waiting for a cap that is held anyway; the closer they are the fewer, down to one of sixteen. What has failed is not
// among these, and where the cap cannot be held it would wait for ever.
func (s *Schedule) spared(waited int64) int {
	left := (s.cap() - float64(waited)) / s.ahead()
	return 16 - int(14*min(max((3*left-1)/2, 0), 1))
}

// ahead is how long before the cap an insertion is close to it: what is polled at most as fast as the budget allows comes close no
// faster, and half a round is ahead of what spared turns and a bunch cost.
func (s *Schedule) ahead() float64 { return s.round()/2 + float64(second) }

// overdue is the insertion that waits the longest, if that is close to the cap.
func (s *Schedule) overdue(now int64) (oldest *agency, slot int64) {
	last := now - max(int64(s.cap()-s.ahead()), s.interval)
	for _, g := range s.agencies {
		if g == nil || g.blocked() {
			continue
		}
		if n := g.oldest.first(); n >= 0 && g.items[n].last <= last {
			oldest, slot, last = g, n, g.items[n].last
		}
	}
	return oldest, slot
}

func (g *agency) blocked() bool { return g.s.latest.Before(g.paused) || g.probing && g.pending > 0 }

// take says what is best to ask at an agency now: nine turns of thirteen go to what is urgent, of the rest every second to what
// failed, as long as others wait. Thirteen is odd: so the rest has as many even turns as odd ones.
func (g *agency) take(now int64) (slot int64, why Why) {
	if g.blocked() {
		return -1, None
	}
	slot, index := g.best(now)
	if n := g.queues[urgent].first(); n >= 0 && (slot < 0 || g.turns%13 < 9) {
		return n, g.items[n].urgent
	}
	if n := g.queues[delayed].first(); n >= 0 && g.items[n].due <= now && (slot < 0 || g.turns%2 == 0) {
		return n, Retry
	}
	if v := g.pageIndex(now); v > 0 && v > index*(1-g.hints.j) {
		return -1, Walk
	}
	if slot < 0 {
		return -1, None
	}
	return slot, Index
}

// best is the insertion whose turn comes first, if its interval has passed, and what it is worth: an insertion that was not
// polled for a time a is worth ∫ u dc(u), where c(u) are the contact requests to expect within u (the Whittle index); with
// c = λu that is λa²/2. Where only the interval keeps it back, there is budget to spare, and the others come sooner.
func (g *agency) best(now int64) (slot int64, index float64) {
	for {
		slot = g.queues[planned].first()
		if slot < 0 {
			return -1, -1
		}
		i := &g.items[slot]
		if a := now - i.last; a >= g.s.interval {
			return slot, float64(i.rate) * float64(a) * float64(a) * 0.5e-18
		}
		if g.price <= float64(g.s.interval)*math.Sqrt(leastRate/day) {
			return -1, -1 // all are polled as often as they may be
		}
		g.reprice(1 / 1.2)
	}
}

// wakes is when there will be something to do.
func (g *agency) wakes(now int64) int64 {
	if g.probing && g.pending > 0 {
		return math.MaxInt64
	}
	if g.blocked() {
		return g.s.inside(g.paused)
	}
	at := g.pageDue()
	if n := g.queues[planned].first(); n >= 0 {
		at = min(at, g.items[n].last+g.s.interval)
	}
	if n := g.queues[delayed].first(); n >= 0 {
		at = min(at, g.items[n].due)
	}
	return at
}

// give notes a turn.
func (s *Schedule) give(g *agency, slot int64, why Why) Turn {
	s.charge(g)
	g.given[why]++
	if why == Walk {
		g.pages.asked = s.now
		return Turn{why, Insertion{Agency: g.handle}}
	}
	if why == Index {
		g.learn(uint32(slot), s.now)
	}
	g.items[slot].urgent = None
	g.move(uint32(slot), inFlight, 0)
	return Turn{why, Insertion{g.handle, uint32(slot)}}
}

// Fairness. Agencies share the turns by start-time fair queueing: each has a virtual time that moves on by 1/share with
// each of its turns, and the one that is behind comes first; one that had nothing to do starts at the virtual time of the
// others and has saved nothing. What would be best for all together is a share in proportion to Σ√λ. Every agency has half
// of what is fair by the number of its insertions, and the rest goes to those that would be given more than that.
//
// One that is very small beside the others is not kept waiting for as long as that: it has a turn a minute, as long as
// such turns are no more than a tenth of all.
const (
	floor   = 0.52 // of a fair share; a little more than half, as shares are not hit exactly
	atLeast = 60   // seconds
	atMost  = 10   // turns for each agency
)

// charge moves the virtual time of an agency on by a turn.
func (s *Schedule) charge(g *agency) {
	roots, above, n := 0.0, 0.0, 0
	for _, g := range s.agencies {
		if g != nil {
			roots += g.roots
			n++
		}
	}
	fair := func(g *agency) float64 { return floor * float64(g.count) / max(float64(s.count), 1) }
	more := func(g *agency) float64 { return max(g.roots/max(roots, 1e-30)-fair(g), 0) }
	for _, g := range s.agencies {
		if g != nil {
			above += more(g)
		}
	}
	share := fair(g) + (1-floor)*more(g)/max(above, 1e-30)
	s.virtual = max(s.virtual, g.ready)
	g.ready = s.virtual + min(1/max(share, 1e-7), max(atLeast*s.o.Budget, atMost*float64(n)))
}

// round is how long taking turns takes with the whole budget, in nanoseconds.
func (s *Schedule) round() float64 { return float64(s.count) / s.o.Budget * 1e9 }

// cap is how long an insertion may wait, in nanoseconds.
func (s *Schedule) cap() float64 {
	most := float64(s.interval) + 4*s.round()
	if s.o.Staleness > 0 {
		most = max(float64(s.o.Staleness), float64(s.interval)+1.1*s.round()+1e9)
	}
	return max(most, 2e9)
}

// Memory is what a restart must know of an insertion.
func (s *Schedule) Memory(name Insertion) Memory {
	i := &s.agencies[name.Agency].items[name.Slot]
	m := Memory{Leads: i.leads, Expected: i.expected, Burst: i.burst}
	if i.born != 0 {
		m.Born = time.Unix(int64(i.born), 0).UTC()
	}
	if !i.unread {
		m.LastPoll = s.outside(i.last)
	}
	return m
}

// Len is the number of insertions of an agency in the schedule.
func (s *Schedule) Len(a Agency) int { return s.agencies[a].count }

// Count is how many turns were given for each reason, by Why, since the agency was entered.
func (s *Schedule) Count(a Agency) [len(whys)]uint64 { return s.agencies[a].given }
