// Package schedule decides what is asked next. It is a pure structure: no clock, no goroutine, no network and no store; the
// caller says what time it is. It is not safe for concurrent use.
//
// Insertions that must be looked at now are urgent and come first, in the order in which they became so. All others take
// turns, the one that was polled the longest ago first. Agencies take turns with each other, so that a large one does not
// starve a small one. What is in flight is not given out again before its Result.
package schedule

import (
	"container/heap"
	"slices"
	"time"
)

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	Budget    float64       // 5; requests per second that may be spent on everything
	Interval  time.Duration // least time between two regular polls of one insertion; 0: none
	Staleness time.Duration // the cap: no insertion waits longer; 0: four times what taking turns needs
	Seed      uint64        // of the jitter
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
}

// Turn is what to ask now. Walk names an agency, all other reasons an insertion.
type Turn struct {
	Why       Why
	Insertion Insertion
}

// Schedule holds all insertions that are to be polled. The zero value is not usable; see New.
type Schedule struct {
	o        Options
	agencies []*agency // by handle; nil: free
	next     int       // whose turn it is
}

type agency struct {
	items   []*item // by slot; nil: free
	free    []uint32
	count   int
	due     dueHeap
	urgent  []*item
	flying  int
	paused  time.Time // nothing is given out before
	probing bool      // one at a time
}

type item struct {
	name   Insertion
	memory Memory
	due    time.Time
	index  int // in the heap; -1 elsewhere
	urgent Why // None: it is not
	failed bool
	flying bool
	gone   bool
}

// New returns an empty schedule.
func New(o Options) *Schedule {
	if o.Budget <= 0 {
		o.Budget = 5
	}
	return &Schedule{o: o}
}

// Enter adds an agency. learned is what Learned returned of it, in this process or another; nil or anything else: nothing.
func (s *Schedule) Enter(learned []byte) Agency {
	a := &agency{}
	if n := slices.Index(s.agencies, nil); n >= 0 {
		s.agencies[n] = a
		return Agency(n)
	}
	s.agencies = append(s.agencies, a)
	return Agency(len(s.agencies) - 1)
}

// Leave takes an agency out, with all of its insertions. None of them may be in flight.
func (s *Schedule) Leave(a Agency) { s.agencies[a] = nil }

// Learned is what a restart must know of an agency beside the memory of its insertions.
func (s *Schedule) Learned(a Agency) []byte { return nil }

// Add puts an insertion into the schedule. One that was never polled waits its turn as any other; see Urge.
func (s *Schedule) Add(a Agency, m Memory, now time.Time) Insertion {
	g := s.agencies[a]
	i := &item{name: Insertion{Agency: a}, memory: m, due: now, index: -1}
	if !m.LastPoll.IsZero() {
		i.due = m.LastPoll.Add(s.o.Interval)
	}
	if n := len(g.free); n > 0 {
		i.name.Slot, g.free = g.free[n-1], g.free[:n-1]
		g.items[i.name.Slot] = i
	} else {
		i.name.Slot = uint32(len(g.items))
		g.items = append(g.items, i)
	}
	g.count++
	heap.Push(&g.due, i)
	return i.name
}

// Remove takes an insertion out of the schedule; it may be in flight.
func (s *Schedule) Remove(name Insertion) {
	g := s.agencies[name.Agency]
	i := g.items[name.Slot]
	i.gone = true
	g.leaveHeap(i)
	if i.flying {
		g.flying--
	}
	g.items[name.Slot] = nil
	g.free = append(g.free, name.Slot)
	g.count--
}

// Urge lets an insertion be polled soon, before all that is not urgent, for a reason: Urgent or Hint. One that is urgent
// already keeps its place, one that is in flight is polled once more, one that waits after a failure waits no longer.
func (s *Schedule) Urge(name Insertion, why Why) {
	g := s.agencies[name.Agency]
	i := g.items[name.Slot]
	if i.urgent != None {
		return
	}
	i.urgent = why
	if i.flying {
		return // its Result queues it
	}
	g.leaveHeap(i)
	g.urgent = append(g.urgent, i)
}

// Pause gives out nothing of an agency before until; the zero time ends a pause. With probing, afterwards one insertion
// is given out at a time.
func (s *Schedule) Pause(a Agency, until time.Time, probing bool) {
	g := s.agencies[a]
	g.paused, g.probing = until, probing
}

// Next gives out what to ask now. With None it says how long there will be nothing; zero means until something is added,
// urged or resumed. The caller sends no more than the budget, and asks only when it could send.
func (s *Schedule) Next(now time.Time) (Turn, time.Duration) {
	for n := range s.agencies {
		k := (s.next + n) % len(s.agencies)
		g := s.agencies[k]
		if g == nil || g.blocked(now) {
			continue
		}
		if i, why := g.take(now); i != nil {
			s.next = (k + 1) % len(s.agencies)
			i.flying = true
			g.flying++
			return Turn{why, i.name}, 0
		}
	}
	return Turn{}, s.wait(now)
}

// Polled ends the flight of an insertion, if it is in flight, with a good answer that was received at a moment. created
// are the creation times of the contact requests that were not known before, zero where unknown; at the first poll of an
// insertion of all that the answer shows.
func (s *Schedule) Polled(name Insertion, at time.Time, created []time.Time) {
	i := s.agencies[name.Agency].items[name.Slot]
	if i == nil {
		return
	}
	i.memory.LastPoll, i.failed = at, false
	s.land(i, at.Add(s.o.Interval))
}

// Put ends the flight of an insertion, if it is in flight, without a good answer: it is asked again from a moment on. When it was
// polled last stays as it was.
func (s *Schedule) Put(name Insertion, until time.Time) {
	i := s.agencies[name.Agency].items[name.Slot]
	if i == nil {
		return
	}
	i.failed = true
	s.land(i, until)
}

func (s *Schedule) land(i *item, due time.Time) {
	g := s.agencies[i.name.Agency]
	if !i.flying && i.index < 0 {
		return // it waits to be looked at again
	}
	if i.flying {
		i.flying = false
		g.flying--
	}
	g.leaveHeap(i)
	i.due = due
	if i.urgent != None {
		g.urgent = append(g.urgent, i)
		return
	}
	heap.Push(&g.due, i)
}

// Read says that page n (from 0) of the walk of an agency, of so many as the last one had, was read at a moment. It ends a Walk turn.
func (s *Schedule) Read(a Agency, n, of int, at time.Time) {}

// Seen says that a walk read the record of an insertion, and which of its members had changed since the walk before: a bit
// for each.
func (s *Schedule) Seen(name Insertion, changed uint32, at time.Time) {}

// Memory is what a restart must know of an insertion.
func (s *Schedule) Memory(name Insertion) Memory {
	return s.agencies[name.Agency].items[name.Slot].memory
}

// Len is the number of insertions of an agency in the schedule.
func (s *Schedule) Len(a Agency) int { return s.agencies[a].count }

// Oldest is when the agency's insertion that waits the longest was polled last; zero if there is none, or it never was.
func (s *Schedule) Oldest(a Agency) (oldest time.Time) {
	for _, i := range s.agencies[a].items {
		if i != nil && (oldest.IsZero() || i.memory.LastPoll.Before(oldest)) {
			oldest = i.memory.LastPoll
		}
	}
	return oldest
}

// Waiting is the number of an agency's insertions that are urgent.
func (s *Schedule) Waiting(a Agency) int { return len(s.agencies[a].urgent) }

func (g *agency) blocked(now time.Time) bool {
	return now.Before(g.paused) || g.probing && g.flying > 0
}

// take gives out an urgent insertion, else the one that has been due the longest.
func (g *agency) take(now time.Time) (*item, Why) {
	for len(g.urgent) > 0 {
		i := g.urgent[0]
		g.urgent = g.urgent[1:]
		if !i.gone {
			why := i.urgent
			i.urgent = None
			return i, why
		}
	}
	if len(g.due) == 0 || now.Before(g.due[0].due) {
		return nil, None
	}
	i := heap.Pop(&g.due).(*item)
	if i.failed {
		return i, Retry
	}
	return i, Index
}

func (g *agency) leaveHeap(i *item) {
	if i.index >= 0 {
		heap.Remove(&g.due, i.index)
	}
}

// wait is the time until the first pause ends or the first insertion is due.
func (s *Schedule) wait(now time.Time) time.Duration {
	var first time.Time
	for _, g := range s.agencies {
		if g == nil || g.probing && g.flying > 0 || len(g.due)+len(g.urgent) == 0 {
			continue
		}
		at := g.paused
		if len(g.urgent) == 0 && g.due[0].due.After(at) {
			at = g.due[0].due
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return max(first.Sub(now), time.Millisecond)
}

type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *dueHeap) Push(x any)        { i := x.(*item); i.index = len(*h); *h = append(*h, i) }
func (h *dueHeap) Pop() any {
	old := *h
	i := old[len(old)-1]
	*h = old[:len(old)-1]
	i.index = -1
	return i
}
