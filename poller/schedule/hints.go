package schedule

import (
	"math"
	"time"
)

// hints are what was learned about whether the records of an agency betray contact requests: by changing, members that are in no
// digest included. Recall ρ is how often a record has changed when the first walk after a contact request read it, c how often it
// changes without one. Informativeness J = ρ−c is what a hint is worth: without the subtraction a time stamp that changes on
// every reading would look perfect, be acted on, and confirm itself by the polls that it causes.
type hints struct {
	records
	recall, c float64
	j         float64 // 0: changes are not acted on
}

// records are counts, which fade.
type records struct {
	Readings float64 // of records, but for those that a contact request explains
	Changes  float64 // readings at which a record had changed
	Trials   float64 // contact requests
	Hits     float64 // after which the record had changed
}

const (
	leastHits = 6
	clearly   = 3.0 // as often must a record change for a contact request than without
	restless  = 0.3 // records that change so often without say nothing
	ticks     = 8   // a second
)

// HintFigures are the measured quality of an agency's hints.
type HintFigures struct {
	Recall float64 // part of the contact requests that changed records betray
	Rate   float64 // part of the readings at which a record has changed without any
	Acting bool    // changes let insertions be polled
	Trials int     // contact requests that this was measured with, older ones counted less
}

// Hints are what was measured of an agency's hints.
func (s *Schedule) Hints(a Agency) HintFigures {
	h := &s.agencies[a].hints
	return HintFigures{h.recall, h.c, h.j > 0, int(math.Round(h.Trials))}
}

// Seen says that a walk read the record of an insertion, and whether it had changed since the walk before. If that betrays a
// contact request, the insertion becomes urgent.
func (s *Schedule) Seen(name Insertion, changed bool, at time.Time) {
	g := s.agencies[name.Agency]
	i, h := &g.items[name.Slot], &g.hints
	if i.where == free {
		return
	}
	now, before := tickOf(s.answered(at)), i.readAt
	i.readAt = now
	if before == 0 || now <= before {
		return // the first: nothing can have changed since
	}
	if changed {
		i.changedAt, i.unchanged = now, before
	}
	if i.awaited {
		i.awaited = false
		h.try(changed)
		return
	}
	h.count(1, changed)
	if h.choose(); changed && h.j > 0 {
		s.Prioritize(name, Hint)
	}
}

// tickOf is a moment in eighths of a second since the schedule's first moment; never 0.
func tickOf(t int64) uint32 { return uint32(min(max(t/(second/ticks), 0)+1, math.MaxUint32)) }

// count counts a reading that no contact request explains, or, with -1, takes it back.
func (h *hints) count(n float64, changed bool) {
	if h.Readings = max(0, h.Readings+n); changed {
		h.Changes = max(0, h.Changes+n)
	}
	if h.Readings > 1e6 {
		h.Readings, h.Changes = h.Readings/2, h.Changes/2
	}
}

// try notes whether the record had changed after a contact request.
func (h *hints) try(changed bool) {
	if h.Trials++; changed {
		h.Hits++
	}
	if h.Trials > 256 {
		h.Trials, h.Hits = h.Trials/2, h.Hits/2
	}
	h.choose()
}

// choose acts on changes where records surely change more often after a contact request than without.
func (h *hints) choose() {
	h.recall, h.c, h.j = 0, min(1, (h.Changes+0.5)/(h.Readings+1)), 0
	if n := h.Trials; h.Hits > 0 && h.c < restless {
		h.recall = h.Hits / n
		sure := h.recall - 1.64*math.Sqrt((h.recall*(1-h.recall)+1/n)/n)
		if n >= 2*leastHits && h.Hits >= leastHits && sure >= clearly*h.c {
			h.j = min(h.recall-h.c, 0.98)
		}
	}
}

// betrayed notes what the walks have shown of a contact request that was just found. The walk after it may be still to
// come, or when it saw a change was kept; an older one counts as a miss.
func (g *agency) betrayed(i *item, created int64) {
	if i.readAt == 0 || created < 0 {
		return
	}
	x := tickOf(created)
	if x >= i.readAt {
		i.awaited = true
		return
	}
	late, between := int64(i.changedAt)-int64(x), int64(i.changedAt)-int64(i.unchanged)
	changed := i.changedAt > 0 && late >= 0 && late <= between+between/4+ticks // clocks differ a little
	g.hints.count(-1, changed)
	g.hints.try(changed)
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
