package schedule

import (
	"math"
	"math/bits"
	"time"
)

// hints are what was learned about whether the records of an agency betray contact requests: by their members that change,
// a bit for each. Recall ρ is how often a member has changed when the first walk after a contact request read the record,
// c how often it changes without one. Informativeness J = ρ−c is what a hint is worth: without the subtraction a time
// stamp that changes on every reading would look perfect, be acted on, and confirm itself by the polls that it causes.
type hints struct {
	records
	set       uint32  // the members that are acted on, or the one that comes closest
	recall, c float64 // of the best one
	j         float64 // 0: none is acted on
	chooseIn  int
}

// records are counts, which fade.
type records struct {
	Sights  float64     // readings of records
	Changes [32]float64 // at which a member had changed, but for those that a contact request explains
	Trials  float64     // contact requests
	Hits    [32]float64 // after which a member had changed
	Cycle   float64     // ticks between two readings of a record, on average
}

const (
	leastHits = 6
	clearly   = 3.0 // as often must a member change for a contact request than without
	restless  = 0.3 // a member that changes so often without says nothing
	ticks     = 8   // a second
)

// HintFigures are the measured quality of an agency's hints.
type HintFigures struct {
	Recall float64 // part of the contact requests that the best member betrays
	Rate   float64 // part of the sights at which it has changed without any
	Acting bool    // changes of the members let insertions be polled
	Bits   uint32  // the members; while not acting the best
	Trials int     // contact requests that this was measured with, older ones counted less
}

// Hints are what was measured of an agency's hints.
func (s *Schedule) Hints(a Agency) HintFigures {
	h := &s.agencies[a].hints
	return HintFigures{h.recall, h.c, h.j > 0, h.set, int(math.Round(h.Trials))}
}

// Seen says that a walk read the record of an insertion, and which of its members had changed since the walk before: a bit
// for each. If that betrays a contact request, the insertion becomes urgent.
func (s *Schedule) Seen(name Insertion, changed uint32, at time.Time) {
	g := s.agencies[name.Agency]
	i, h := &g.items[name.Slot], &g.hints
	if i.where == free {
		return
	}
	now, before := tickOf(s.answered(at)), i.sight
	i.sight = now
	if before == 0 || now <= before {
		return // the first: nothing can have changed since
	}
	h.Sights++
	h.Cycle += (float64(now-before) - h.Cycle) / min(h.Sights, 1000)
	count(&h.Changes, changed, 1)
	if h.Sights > 1e6 {
		halve(&h.Sights, &h.Changes)
	}
	explained := i.awaited
	if i.awaited = false; explained {
		h.try(changed)
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
func tickOf(t int64) uint32 { return uint32(min(max(t/(second/ticks), 0)+1, math.MaxUint32)) }

func count(all *[32]float64, members uint32, n float64) {
	for m := members; m != 0; m &= m - 1 {
		b := bits.TrailingZeros32(m)
		all[b] = max(0, all[b]+n)
	}
}

func halve(n *float64, all *[32]float64) {
	*n /= 2
	for b := range all {
		all[b] /= 2
	}
}

// try notes which members had changed after a contact request. They are counted as changes without one no more.
func (h *hints) try(changed uint32) {
	h.Trials++
	count(&h.Hits, changed, 1)
	if h.Trials > 256 {
		halve(&h.Trials, &h.Hits)
	}
	h.Sights = max(0, h.Sights-1)
	count(&h.Changes, changed, -1)
	h.chooseIn = min(h.chooseIn, 16)
}

// noise are the members that change so often that it says nothing.
func (h *hints) noise() (set uint32) {
	for b, n := range h.Changes {
		if h.Sights >= 100 && n > restless*h.Sights {
			set |= 1 << b
		}
	}
	return set
}

// choose finds the members that surely change more often after a contact request than without.
func (h *hints) choose() {
	h.chooseIn, h.set, h.recall, h.c, h.j = 4096, 0, 0, 0, 0
	best, likely, noise := 0.0, uint32(0), h.noise()
	for b, hits := range h.Hits {
		if hits == 0 || noise&(1<<b) != 0 {
			continue
		}
		n := h.Trials
		recall, c := hits/n, min(1, (h.Changes[b]+0.5)/(h.Sights+1))
		sure := recall - 1.64*math.Sqrt((recall*(1-recall)+1/n)/n)
		if recall-c > best {
			best, likely, h.recall, h.c = recall-c, 1<<b, recall, c
		}
		if n >= 2*leastHits && hits >= leastHits && sure >= clearly*c {
			h.set |= 1 << b
			h.j = max(h.j, min(recall-c, 0.98))
		}
	}
	if h.set == 0 {
		h.set = likely
	}
}

// betrayed notes what the walks have shown of a contact request that was just found. The walk after it may be still to
// come, or its sight was kept; an older one counts as a miss.
func (g *agency) betrayed(i *item, created int64) {
	if i.sight == 0 || created < 0 {
		return
	}
	x := tickOf(created)
	switch late := float64(i.changedAt) - float64(x); {
	case x >= i.sight:
		i.awaited = true
	case i.changedAt > 0 && late >= 0 && late <= 1.25*g.hints.Cycle+ticks:
		g.hints.try(i.changed)
	default:
		g.hints.try(0)
	}
}

// pages are those of an agency's list. Where hints are acted on, one that is read betrays contact requests.
type pages struct {
	read  []int64 // when each was read last
	next  int
	asked int64 // a page is being read since; 0: none
}

const (
	mostPages = 1 << 16
	askedFor  = 60 * second // a walk that reports nothing for so long will not
	leastPage = 2 * second
)

// Read says that page n (from 0) of the walk of an agency, of so many as the last one had, was read at a moment. It ends
// a Walk turn.
func (s *Schedule) Read(a Agency, n, of int, at time.Time) {
	p, now := &s.agencies[a].pages, s.answered(at)
	p.asked = 0
	if of <= 0 || of > mostPages || n < 0 || n >= of {
		return
	}
	for len(p.read) < of {
		p.read = append(p.read, now)
	}
	p.read = p.read[:of]
	p.read[n] = now
	p.next = (n + 1) % of
}

// pageDue is when a page may be read for what it betrays.
func (g *agency) pageDue() int64 {
	p := &g.pages
	if g.hints.j == 0 || len(p.read) == 0 {
		return math.MaxInt64
	}
	at := p.read[p.next] + max(leastPage, g.s.interval)
	if p.asked > 0 {
		at = max(at, p.asked+askedFor)
	}
	return at
}

// pageIndex is the index of the next page: JΛa²/2 for what it betrays, divided by the requests that it costs, those for
// false hints among them. It is 0 if none may be read now.
func (g *agency) pageIndex(now int64) float64 {
	if now < g.pageDue() {
		return 0
	}
	of, a := float64(len(g.pages.read)), float64(now-g.pages.read[g.pages.next])/1e9
	return g.hints.j * g.rates / of * a * a / 2 / (1 + g.hints.c*float64(g.count)/of)
}
