package schedule

import (
	"cmp"
	"math"
	"slices"
)

// Lanes. An insertion with rate λ a day waits in lane ⌊2·log₂(λ/λmin)⌋, and a lane is a queue in the order of the last
// polls: whatever the lane's rate is, its head is the best of the lane. So a decision compares heads only.
const (
	lanes    = 64
	leastDay = 1e-5 // λmin, contact requests a day
	none     = math.MaxUint32
)

var (
	laneRate [lanes]float64 // contact requests a second of the lane's middle
	laneRoot [lanes]float64
)

func init() {
	for l := range laneRate {
		laneRate[l] = leastDay * math.Exp2((float64(l)+0.5)/2) / day
		laneRoot[l] = math.Sqrt(laneRate[l])
	}
}

// laneOf is the lane of a rate in contact requests a second. What is no number is in the first.
func laneOf(rate float64) uint8 {
	l := 2 * math.Log2(rate*(day/leastDay))
	if !(l > 0) {
		return 0
	}
	return uint8(min(l, lanes-1))
}

// item is an insertion. Times are nanoseconds of the schedule's own clock.
type item struct {
	last       int64  // last good answer; of one that never had one, an interval before it was added
	born       uint32 // seconds since 1970; 0: unknown until the first answer
	leads      float32
	expected   float32
	burst      float32
	next, prev uint32 // in its lane, or in the list of those in flight, or of free slots; or when it is due after a failure
	sight      uint32 // eighths of a second; the last walk that saw the record
	changed    uint32 // the members that had changed when any of them had last
	changedAt  uint32
	lane       uint8
	where      uint8
	urgent     Why
	flags      uint8
}

// Where an item is.
const (
	free uint8 = iota
	waiting
	arriving // will be waiting, see settle
	flying
	delayed // after a failure
)

const (
	unread   uint8 = 1 << iota // never had a good answer
	failed                     // the last answer was not good
	guessed                    // nobody knows when it was born
	expected                   // a contact request is known that no walk can have betrayed yet
)

// lane is a queue of slots. The time of its head stands here, for the sake of the cache.
type lane struct {
	oldest     int64
	head, tail uint32
	number     uint8
}

// linkLimit is how far from the ends of a lane a place is looked for.
const linkLimit = 16

// wait puts an item into its lane, in the order of the last polls.
func (g *agency) wait(slot uint32) {
	i := &g.items[slot]
	g.ages.add(i.last, 1)
	if g.counted {
		g.s.ages.add(i.last, 1)
	}
	g.s.older(g, i.last)
	l := g.lane(i.lane)
	i.where = waiting
	after := l.tail
	for range linkLimit {
		if after == none || g.items[after].last <= i.last {
			g.link(l, slot, after)
			return
		}
		after = g.items[after].prev
	}
	after = none
	for range linkLimit {
		before := l.head
		if after != none {
			before = g.items[after].next
		}
		if g.items[before].last > i.last {
			g.link(l, slot, after)
			return
		}
		after = before
	}
	i.where = arriving
	g.arrivals = append(g.arrivals, slot)
}

// settle puts all arrivals into their lanes at once, which takes one pass over these lanes.
func (g *agency) settle() {
	if len(g.arrivals) == 0 {
		return
	}
	slices.SortFunc(g.arrivals, func(a, b uint32) int {
		x, y := &g.items[a], &g.items[b]
		return cmp.Or(cmp.Compare(x.lane, y.lane), cmp.Compare(y.last, x.last))
	})
	var l *lane
	after := uint32(none)
	for _, slot := range g.arrivals {
		i := &g.items[slot]
		if i.where != arriving {
			continue
		}
		if l == nil || l.number != i.lane {
			l = g.lane(i.lane)
			after = l.tail
		}
		for after != none && g.items[after].last > i.last {
			after = g.items[after].prev
		}
		i.where = waiting
		g.link(l, slot, after)
	}
	g.arrivals = g.arrivals[:0]
}

// lane finds a lane, and makes it at its first use: most agencies are small and need few.
func (g *agency) lane(number uint8) *lane {
	n, found := slices.BinarySearchFunc(g.lanes, number, func(l lane, n uint8) int { return cmp.Compare(l.number, n) })
	if !found {
		if len(g.lanes) == cap(g.lanes) {
			g.lanes = append(make([]lane, 0, len(g.lanes)+4), g.lanes...) // append alone would double them
		}
		g.lanes = slices.Insert(g.lanes, n, lane{head: none, tail: none, number: number})
	}
	return &g.lanes[n]
}

func (g *agency) link(l *lane, slot, after uint32) {
	i := &g.items[slot]
	i.prev = after
	if after == none {
		i.next = l.head
		l.head, l.oldest = slot, i.last
	} else {
		i.next = g.items[after].next
		g.items[after].next = slot
	}
	if i.next == none {
		l.tail = slot
	} else {
		g.items[i.next].prev = slot
	}
}

// unwait takes an item out of its lane.
func (g *agency) unwait(slot uint32) {
	i := &g.items[slot]
	g.ages.add(i.last, -1)
	if g.counted {
		g.s.ages.add(i.last, -1)
	}
	if i.where == waiting {
		g.unlink(g.lane(i.lane), slot)
	}
	i.where = free
}

func (g *agency) unlink(l *lane, slot uint32) {
	i := &g.items[slot]
	if i.next == none {
		l.tail = i.prev
	} else {
		g.items[i.next].prev = i.prev
	}
	if i.prev != none {
		g.items[i.prev].next = i.next
		return
	}
	l.head = i.next
	if l.head != none {
		l.oldest = g.items[l.head].last
	}
}

// best is the head with the largest index, and the index: λa²/2 in contact requests times seconds. Heads that are younger
// than the interval do not count. There is none if the index is negative.
func (g *agency) best(now int64) (slot uint32, index float64) {
	slot, most := none, -1.0
	due := now - g.s.interval
	for n := range g.lanes {
		l := &g.lanes[n]
		if l.head == none || l.oldest > due {
			continue
		}
		if v := laneRoot[l.number] * float64(now-l.oldest); v > most {
			slot, most = l.head, v
		}
	}
	if slot == none {
		return none, -1
	}
	return slot, most * most * 0.5e-18
}

// oldest is the head that waits the longest.
func (g *agency) oldest() (slot uint32, last int64) {
	slot, last = none, math.MaxInt64
	for n := range g.lanes {
		if l := &g.lanes[n]; l.head != none && l.oldest < last {
			slot, last = l.head, l.oldest
		}
	}
	return slot, last
}
