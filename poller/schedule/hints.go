package schedule

import (
	"math"
	"math/bits"
	"time"
)

// hints are what was learned about whether the records of an agency betray contact requests: their members that change,
// a bit for each. Recall ρ is how often a member has changed when the first walk after a contact request read the record,
// c how often it changes without one. Informativeness J = ρ−c is what a hint is worth: without the subtraction a time
// stamp that changes on every reading would look perfect, be acted on, and confirm itself by the polls that it causes.
type hints struct {
	sights  float64
	changes [32]float64 // of each bit, but for those that a contact request explains
	trials  [trials]uint32
	count   int // of all trials so far; the ring holds the latest
	cycle   float64

	set       uint32 // the members that are acted on, or would be
	recall, c float64
	j         float64 // 0: they are not acted on
	chooseIn  int
}

const (
	trials      = 256
	leastTrials = 12
	leastHits   = 6
	clearly     = 3.0 // as often must a member change for a contact request than without
	restless    = 0.3 // a member that changes so often without says nothing
	ticks       = 8   // a second
)

// HintFigures are the measured quality of an agency's hints.
type HintFigures struct {
	Recall float64 // part of the contact requests that the members betray
	Rate   float64 // part of the sights at which one of them has changed without any
	J      float64 // what pages are worth for them: 0 while not acting
	Acting bool    // changes of the members let insertions be polled
	Bits   uint32  // the best members
	Trials int     // contact requests that this was measured with
}

// Hints are what was measured of an agency's hints.
func (s *Schedule) Hints(a Agency) HintFigures {
	h := s.agencies[a].hints
	if h == nil {
		return HintFigures{}
	}
	return HintFigures{h.recall, h.c, h.j, h.j > 0, h.set, h.count}
}

// informative is J; 0 while hints are not acted on.
func (g *agency) informative() float64 {
	if g.hints == nil {
		return 0
	}
	return g.hints.j
}

// Seen says that a walk read the record of an insertion, and which of its members had changed since the walk before: a bit
// for each. If that betrays a contact request, the insertion becomes urgent.
func (s *Schedule) Seen(name Insertion, changed uint32, at time.Time) {
	g := s.agencies[name.Agency]
	i := &g.items[name.Slot]
	if i.where == free {
		return
	}
	now := g.tickOf(s.past(at))
	if g.hints == nil {
		g.hints = &hints{}
	}
	h, before := g.hints, i.sight
	i.sight = now
	if before == 0 || now <= before {
		return // the first: nothing can have changed since
	}
	h.cycle += (float64(now-before) - h.cycle) / min(h.sights+1, 1000)
	h.see(changed)
	explained := i.flags&expected != 0
	i.flags &^= expected
	if explained {
		h.try(changed, changed)
	}
	if changed&^h.noise() != 0 {
		i.changed, i.changedAt = changed, now
	}
	if h.chooseIn--; h.chooseIn <= 0 {
		h.choose()
	}
	if changed&h.set != 0 && h.j > 0 && !explained {
		s.Urge(name, Hint)
	}
}

// tickOf is a moment in eighths of a second since the schedule's first moment; never 0.
func (g *agency) tickOf(t int64) uint32 {
	return uint32(min(max((t-g.s.began)/(second/ticks), 0)+1, math.MaxUint32))
}

func (h *hints) see(changed uint32) {
	if h.sights++; h.sights > 1e6 { // forget slowly
		h.sights /= 2
		for b := range h.changes {
			h.changes[b] /= 2
		}
	}
	for m := changed; m != 0; m &= m - 1 {
		h.changes[bits.TrailingZeros32(m)]++
	}
}

// try notes which members had changed after a contact request. Those of them that were counted as changes without one
// are so no more.
func (h *hints) try(changed, counted uint32) {
	h.trials[h.count%trials] = changed
	h.count++
	h.sights = max(0, h.sights-1)
	for m := counted; m != 0; m &= m - 1 {
		b := bits.TrailingZeros32(m)
		h.changes[b] = max(0, h.changes[b]-1)
	}
	h.chooseIn = min(h.chooseIn, 16)
}

// rate is c of a set of members, at the most.
func (h *hints) rate(set uint32) (c float64) {
	for m := set; m != 0; m &= m - 1 {
		c += h.changes[bits.TrailingZeros32(m)]
	}
	return min(1, (c+0.5)/(h.sights+1))
}

func (h *hints) noise() (set uint32) {
	if h.sights < 100 {
		return 0
	}
	for b, n := range h.changes {
		if n > restless*h.sights {
			set |= 1 << b
		}
	}
	return set
}

func (h *hints) hits(set uint32) (n float64) {
	for _, m := range h.trials[:min(h.count, trials)] {
		if m&set != 0 {
			n++
		}
	}
	return n
}

// choose finds the set of members with the largest J, one after the other, and says whether it is acted on.
func (h *hints) choose() {
	h.chooseIn = 4096
	n := float64(min(h.count, trials))
	h.set, h.recall, h.c, h.j = 0, 0, 0, 0
	if n == 0 {
		return
	}
	noise := h.noise()
	best := 0.02 // what a further member must add
	for {
		add := uint32(0)
		for b := range 32 {
			set := h.set | 1<<b
			if set == h.set || noise&set != 0 {
				continue
			}
			if j := h.hits(set)/n - h.rate(set); j > best {
				best, add = j, set
			}
		}
		if add == 0 {
			break
		}
		h.set = add
		best += 0.02
	}
	hits := h.hits(h.set)
	h.recall, h.c = hits/n, h.rate(h.set)
	sure := h.recall - 1.64*math.Sqrt((h.recall*(1-h.recall)+1/n)/n)
	if n >= leastTrials && hits >= leastHits && sure >= clearly*h.c {
		h.j = min(max(0, h.recall-h.c), 0.98)
	}
}

// betray notes what the walks have shown of a contact request that was just found. The walk after it may be still to
// come, or its sight was kept; an older one counts as a miss.
func (g *agency) betray(i *item, created int64) {
	h := g.hints
	if h == nil || i.sight == 0 || created < g.s.began {
		return
	}
	x := g.tickOf(created)
	switch late := float64(i.changedAt) - float64(x); {
	case x >= i.sight:
		i.flags |= expected
	case i.changedAt > 0 && late >= 0 && late <= 1.25*h.cycle+ticks:
		h.try(i.changed, i.changed)
	default:
		h.try(0, 0)
	}
}
