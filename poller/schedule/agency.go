package schedule

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

const none = math.MaxUint32

// item is an insertion. Times are nanoseconds of the schedule's own clock.
type item struct {
	last      int64   // last good answer; of one that never had one, an interval before it was added
	due       int64   // when it is its turn; after a failure, when it may come back
	rate      float32 // contact requests a second
	leads     float32
	expected  float32
	burst     float32
	born      uint32 // seconds since 1970; 0: unknown until the first answer
	sight     uint32 // eighths of a second; the last walk that saw the record
	changed   uint32 // the members that had changed when any of them had last
	changedAt uint32
	place     [2]int32 // in planned or retries, and in aged; in the list of free slots, the next
	where     uint8
	urgent    Why
	flags     uint8
}

// Where an item is.
const (
	free uint8 = iota
	waiting
	flying
	delayed // after a failure
)

const (
	unread   uint8 = 1 << iota // never had a good answer
	failed                     // the last answer was not good
	guessed                    // nobody knows when it was born
	expected                   // a contact request is known that no walk can have betrayed yet
)

// agency is what waits at one of them, and what was learned there.
type agency struct {
	s       *Schedule
	handle  Agency
	items   []item // by slot
	free    uint32 // the first free slot
	aloft   int    // how many are in flight
	count   int
	unread  int           // that never had a good answer
	planned queue[uint32] // what waits, by due
	aged    queue[uint32] // the same by last poll
	retries queue[uint32] // what failed, by due
	urgents []uint32      // the first that became so first; some may be so no more
	urgent  int
	counted bool // what waits counts for the cap

	paused  int64 // nothing is given out before
	probing bool  // one at a time
	given   [len(whys)]uint64

	urgentDebt, retryDebt, walkDebt int

	roots, rates float64 // Σ√λ and Σλ, a second
	worth        float64 // Σ√λ when the weights were set
	price        float64 // S, in nanoseconds·√(1/s): an insertion is polled every S/√λ
	nominal      float64 // S by the share of the budget, when it was set last
	lateness     float64 // how long those polled in their turn had waited, against what was planned; smoothed
	weight       float64
	ready        int64 // virtual time
	wakes        int64
	place        [3]int32

	curve curve
	pages pages
	hints *hints
}

func newAgency(s *Schedule, handle Agency) *agency {
	g := &agency{s: s, handle: handle, free: none, counted: true, weight: 1, lateness: 1, curve: newCurve(), place: [3]int32{-1, -1, -1}}
	due := func(slot uint32) int64 { return g.items[slot].due }
	plan := func(slot uint32) *int32 { return &g.items[slot].place[0] }
	g.planned = queue[uint32]{key: due, place: plan}
	g.retries = queue[uint32]{key: due, place: plan}
	g.aged = queue[uint32]{
		key:   func(slot uint32) int64 { return g.items[slot].last },
		place: func(slot uint32) *int32 { return &g.items[slot].place[1] },
	}
	return g
}

// after is how long after its last poll an insertion is polled again: S/√λ, within the interval and a share of the cap. The
// shares differ, so that those that were polled together do not all come back together.
func (g *agency) after(slot uint32) float64 {
	share := 0.8 + 0.1*float64(slot*2654435761>>16)/(1<<16)
	most := max(share*float64(g.s.cap), float64(g.s.interval))
	return min(max(g.price/math.Sqrt(float64(g.items[slot].rate)), float64(g.s.interval)), most)
}

// wait puts an item into its turn.
func (g *agency) wait(slot uint32) {
	i := &g.items[slot]
	i.where, i.due = waiting, i.last+int64(g.after(slot))
	g.planned.put(slot)
	g.aged.put(slot)
	if g.counted {
		g.s.ages.add(i.last, 1)
		g.s.older(g)
	}
	if i.urgent != None {
		g.enqueue(slot)
	}
}

// leave takes an item out of wherever it is.
func (g *agency) leave(slot uint32) {
	i := &g.items[slot]
	switch i.where {
	case waiting:
		g.planned.drop(slot)
		g.aged.drop(slot)
		if g.counted {
			g.s.ages.add(i.last, -1)
			g.s.older(g)
		}
	case delayed:
		g.retries.drop(slot)
	case flying:
		g.aloft--
	}
	i.where = free
}

func (g *agency) fly(slot uint32) {
	g.leave(slot)
	i := &g.items[slot]
	if i.urgent != None {
		i.urgent = None
		g.urgent--
	}
	i.where = flying
	g.aloft++
}

// delay lets an item that waits nowhere come back at a moment.
func (g *agency) delay(slot uint32, due int64) {
	i := &g.items[slot]
	i.where, i.due = delayed, due
	g.retries.put(slot)
}

// settle follows the number of insertions with S; it is called when that or the budget has changed. What the polls
// show afterwards corrects it.
func (g *agency) settle() {
	nominal := g.roots / (g.s.o.Budget * float64(max(g.count, 1)) / float64(max(g.s.count, 1))) * 1e9
	switch {
	case g.count == 0:
		return
	case g.nominal == 0:
		g.price = nominal
	case nominal > 1.2*g.nominal || nominal < g.nominal/1.2:
		g.price *= nominal / g.nominal
	default:
		return
	}
	g.nominal = nominal
	g.replan()
}

// replan sets all due times anew.
func (g *agency) replan() {
	for _, slot := range g.planned.list {
		g.items[slot].due = g.items[slot].last + int64(g.after(slot))
	}
	g.planned.rebuild()
}

// learn corrects S by a poll in turn. On average over the polls the square root of λ times the time waited is Σ√λ divided
// by the polls a second, whatever was planned: where those polled had waited for longer than planned, the budget is smaller
// than S says. When S is off by a fifth, all is planned anew.
func (g *agency) learn(slot uint32, now int64) {
	planned := g.after(slot)
	if planned < g.price/math.Sqrt(float64(g.items[slot].rate)) { // the cap lets it be polled
		return
	}
	r := float64(now-g.items[slot].last) / max(planned, 1)
	g.lateness += (min(max(r, 0.1), 10) - g.lateness) / 32
	if g.lateness > 1.2 || g.lateness < 1/1.2 {
		g.price *= g.lateness
		g.lateness = 1
		g.replan()
	}
}

func (g *agency) blocked(now int64) bool { return now < g.paused || g.probing && g.aloft > 0 }

// take says what is best to ask at an agency now.
func (g *agency) take(now int64) (uint32, Why) {
	if g.blocked(now) {
		return none, None
	}
	slot, index := g.best(now)
	if s := g.urgentOne(); s != none && (g.urgentDebt <= 0 || slot == none) {
		return s, g.items[s].urgent
	}
	if s, ok := g.retries.first(); ok && g.items[s].due <= now && (g.retryDebt <= 0 || slot == none) {
		return s, Retry
	}
	if v := g.pageIndex(now); v > 0 && v > index*(1-g.informative()) {
		return none, Walk
	}
	if slot == none {
		return none, None
	}
	return slot, g.reason(slot, Index)
}

// best is the insertion whose turn comes first, if its interval has passed, and what it is worth: λa²/2 in contact requests
// times seconds. Where only its interval keeps it back, there is budget to spare, and the others come sooner.
func (g *agency) best(now int64) (slot uint32, index float64) {
	for {
		slot, ok := g.planned.first()
		if !ok {
			return none, -1
		}
		i := &g.items[slot]
		if a := now - i.last; a >= g.s.interval {
			return slot, float64(i.rate) * float64(a) * float64(a) * 0.5e-18
		}
		if old, _ := g.aged.first(); now-g.items[old].last < g.s.interval {
			return none, -1
		}
		g.price /= 1.2
		g.replan()
	}
}

func (g *agency) reason(slot uint32, why Why) Why {
	if u := g.items[slot].urgent; u != None {
		return u
	}
	return why
}

// pay notes what kind of turn was given. What is urgent gets seven turns of ten, what failed before every second and
// pages of a list without hints every third, as long as others wait.
func (g *agency) pay(why Why) {
	g.given[why]++
	debt := func(d *int, mine bool, costs, others int) {
		if mine {
			*d = min(*d+costs, 100)
		} else {
			*d = max(*d-others, -others)
		}
	}
	debt(&g.urgentDebt, why == Urgent || why == Hint, 3, 7)
	debt(&g.retryDebt, why == Retry, 1, 1)
	debt(&g.walkDebt, why == Walk, 2, 1)
}

// urgentOne is the one that has been urgent the longest.
func (g *agency) urgentOne() uint32 {
	for len(g.urgents) > 0 {
		slot := g.urgents[0]
		if i := &g.items[slot]; i.urgent != None && i.where == waiting {
			return slot
		}
		g.urgents = g.urgents[1:]
	}
	return none
}

// enqueue makes an item that waits urgent. What is urgent no more is thrown out when it is most of the queue.
func (g *agency) enqueue(slot uint32) {
	if len(g.urgents) > 2*g.urgent+16 {
		kept := g.urgents[:0]
		for _, s := range g.urgents {
			if i := &g.items[s]; i.urgent != None && i.where == waiting && s != slot {
				kept = append(kept, s)
			}
		}
		g.urgents = kept
	}
	g.urgents = append(g.urgents, slot)
}

// due is when there will be something to do; now if there may be already.
func (g *agency) due(now int64) int64 {
	if g.probing && g.aloft > 0 {
		return math.MaxInt64
	}
	if now < g.paused {
		return g.paused
	}
	if g.urgentOne() != none {
		return now
	}
	at := g.pageDue()
	if old, ok := g.aged.first(); ok {
		at = min(at, g.items[old].last+g.s.interval)
	}
	if slot, ok := g.retries.first(); ok {
		at = min(at, g.items[slot].due)
	}
	return at
}

// oldest is the last poll of the one that waits the longest.
func (g *agency) oldest() int64 {
	slot, ok := g.aged.first()
	if !ok {
		return math.MaxInt64
	}
	return g.items[slot].last
}

// Memory is what a restart must know of an insertion.
func (s *Schedule) Memory(name Insertion) Memory {
	i := &s.agencies[name.Agency].items[name.Slot]
	m := Memory{Leads: i.leads, Expected: i.expected, Burst: i.burst, Guessed: i.flags&guessed != 0}
	if i.born != 0 {
		m.Born = s.outside(int64(i.born) * second)
	}
	if i.flags&unread == 0 {
		m.LastPoll = s.outside(i.last)
	}
	return m
}

// Len is the number of insertions of an agency in the schedule.
func (s *Schedule) Len(a Agency) int { return s.agencies[a].count }

// Oldest is when the agency's insertion that waits the longest was polled last; zero if there is none, or it never was.
func (s *Schedule) Oldest(a Agency) time.Time {
	g := s.agencies[a]
	if g.count == 0 || g.unread > 0 {
		return time.Time{}
	}
	oldest := int64(math.MaxInt64)
	for n := range g.items {
		if i := &g.items[n]; i.where != free {
			oldest = min(oldest, i.last)
		}
	}
	return s.outside(oldest)
}

// Count is how many turns were given for each reason, by Why, since the agency was entered.
func (s *Schedule) Count(a Agency) [len(whys)]uint64 { return s.agencies[a].given }

// learnedVersion changes with what follows, and with what the numbers mean.
const learnedVersion = 2

// learned is what is kept of an agency, in this order, little-endian.
type learned struct {
	Version        uint8
	Leads, Days    [ageBuckets]float64
	Apart          float64
	Excess, Square float64
	Appeared       float64 // ν, a day
	Sights, Cycle  float64
	Changes        [32]float64
	Trials         [trials]uint32
	Count          uint32
}

// Learned is what a restart must know of an agency beside the memory of its insertions. It is about two kilobytes.
func (s *Schedule) Learned(a Agency) []byte {
	g := s.agencies[a]
	l := learned{
		Version: learnedVersion, Leads: g.curve.leads, Days: g.curve.days, Apart: g.curve.apart, Excess: g.curve.excess, Square: g.curve.square,
		Appeared: g.appearing(s.now) * day,
	}
	if h := g.hints; h != nil {
		l.Sights, l.Cycle, l.Changes, l.Trials, l.Count = h.sights, h.cycle, h.changes, h.trials, uint32(h.count)
	}
	b, err := binary.Append(nil, binary.LittleEndian, &l)
	if err != nil {
		return nil // cannot be: all of it has a fixed size
	}
	return b
}

// recall takes up what was learned before. What is damaged in any way is forgotten as a whole.
func (g *agency) recall(b []byte) {
	l := learned{}
	if len(b) != binary.Size(&l) || binary.Read(bytes.NewReader(b), binary.LittleEndian, &l) != nil || !l.sound() {
		return
	}
	g.curve.leads, g.curve.days, g.curve.apart, g.curve.excess, g.curve.square = l.Leads, l.Days, l.Apart, l.Excess, l.Square
	g.curve.fit()
	g.pages.before = l.Appeared / day
	if l.Sights > 0 {
		g.hints = &hints{sights: l.Sights, cycle: l.Cycle, changes: l.Changes, trials: l.Trials, count: int(l.Count)}
		g.hints.choose()
	}
}

func (l *learned) sound() bool {
	numbers := append([]float64{l.Apart, l.Square, l.Appeared, l.Sights, l.Cycle}, l.Leads[:]...)
	numbers = append(append(numbers, l.Days[:]...), l.Changes[:]...)
	for _, x := range numbers {
		if !(x >= 0 && x < 1e12) {
			return false
		}
	}
	return l.Version == learnedVersion && math.Abs(l.Excess) < 1e12
}
