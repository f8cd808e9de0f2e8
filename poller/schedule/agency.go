package schedule

import "math"

// agency is what waits at one of them, and what was learned there.
type agency struct {
	s        *Schedule
	handle   Agency
	items    []item // by slot
	free     uint32 // the first free slot
	flying   uint32 // the first slot that is in flight
	aloft    int    // how many are in flight
	count    int
	unread   int // that never had a good answer
	lanes    []lane
	arrivals []uint32
	queue    []uint32 // urgent ones, some of which may be so no more
	urgent   int
	delays   delays
	delayed  int
	ages     ages
	counted  bool // what waits counts for the cap

	paused  int64 // nothing is given out before
	probing bool  // one at a time
	given   [len(whys)]uint64

	urgentDebt, retryDebt, walkDebt int

	roots, rates  float64 // Σ√λ and Σλ, a second
	worth, weight float64
	key           [orders]int64
	place         [orders]int32

	curve curve
	pages pages
	hints *hints
}

func (g *agency) blocked(now int64) bool { return now < g.paused || g.probing && g.aloft > 0 }

// take says what is best to ask at an agency now; the slot stays where it is.
func (g *agency) take(now int64) (uint32, Why) {
	if g.blocked(now) {
		return none, None
	}
	g.settle()
	slot, index := g.best(now)
	if s := g.urgentOne(); s != none && (g.urgentDebt <= 0 || slot == none) {
		return s, g.items[s].urgent
	}
	if s := g.matured(now); s != none && (g.retryDebt <= 0 || slot == none) {
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
	for len(g.queue) > 0 {
		slot := g.queue[0]
		if i := &g.items[slot]; i.urgent != None && (i.where == waiting || i.where == arriving) {
			return slot
		}
		g.queue = g.queue[1:]
	}
	return none
}

// enqueue makes an item that waits urgent. What is urgent no more is thrown out when it is most of the queue.
func (g *agency) enqueue(slot uint32) {
	if len(g.queue) > 2*g.urgent+16 {
		kept := g.queue[:0]
		for _, s := range g.queue {
			if i := &g.items[s]; i.urgent != None && (i.where == waiting || i.where == arriving) {
				kept = append(kept, s)
			}
		}
		g.queue = kept
	}
	g.queue = append(g.queue, slot)
}

// matured is the one that failed and has waited the longest since it should come back.
func (g *agency) matured(now int64) uint32 {
	for len(g.delays) > 0 {
		d := g.delays[0]
		if i := &g.items[d.slot]; i.where != delayed || i.due() != d.due {
			g.delays.pop()
			continue
		}
		if d.due > now {
			return none
		}
		return d.slot
	}
	return none
}

// delay lets an item that waits nowhere come back at a moment. Its links hold the moment, so that what stands in the
// heap of another delay is known as void.
func (g *agency) delay(slot uint32, due int64) {
	i := &g.items[slot]
	i.where, i.next, i.prev = delayed, uint32(due>>32), uint32(due)
	g.delayed++
	if len(g.delays) > 2*g.delayed+16 {
		old := g.delays
		g.delays = nil
		for _, d := range old {
			if i := &g.items[d.slot]; i.where == delayed && i.due() == d.due && d.slot != slot {
				g.delays.put(d.due, d.slot)
			}
		}
	}
	g.delays.put(due, slot)
}

func (i *item) due() int64 { return int64(i.next)<<32 | int64(i.prev) }

// leave takes an item out of wherever it is.
func (g *agency) leave(slot uint32) {
	i := &g.items[slot]
	switch i.where {
	case waiting, arriving:
		g.unwait(slot)
	case delayed:
		g.delayed--
	case flying:
		g.land(slot)
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
	i.where, i.next, i.prev = flying, g.flying, none
	if g.flying != none {
		g.items[g.flying].prev = slot
	}
	g.flying = slot
	g.aloft++
}

func (g *agency) land(slot uint32) {
	i := &g.items[slot]
	if i.prev == none {
		g.flying = i.next
	} else {
		g.items[i.prev].next = i.next
	}
	if i.next != none {
		g.items[i.next].prev = i.prev
	}
	g.aloft--
}

// due is when there will be something to do; now if there may be already.
func (g *agency) due(now int64) int64 {
	if g.probing && g.aloft > 0 {
		return math.MaxInt64
	}
	if now < g.paused {
		return g.paused
	}
	if g.urgentOne() != none || len(g.arrivals) > 0 {
		return now
	}
	at := g.pageDue()
	if _, last := g.oldest(); last < math.MaxInt64 {
		at = min(at, last+g.s.interval)
	}
	if g.matured(math.MinInt64); len(g.delays) > 0 {
		at = min(at, g.delays[0].due)
	}
	return at
}
