package schedule

import "math"

// Fairness. Agencies share the turns by start-time fair queueing: each has a virtual time that moves on by 1/weight with
// each of its turns, and the one that is behind comes first; one that had nothing to do starts at the virtual time of the
// others and has saved nothing. What would be best for all together is a share in proportion to Σ√λ. Every agency has
// half of what is fair by the number of its insertions, and the rest follows Σ√λ: share = max(½N/ΣN, c·Σ√λ), where c
// lets the shares add up to one.
//
// One that is very small beside the others is not kept waiting for as long as that: it has a turn a minute, as long as
// such turns are no more than a tenth of all.
const (
	virtual = 1 << 20 // what one turn costs who has all of the budget
	floor   = 0.52    // of a fair share; a little more than half, as shares are not hit exactly
	atLeast = 60      // seconds
	atMost  = 10      // turns for each agency
)

// touch lets an agency be looked at: something may be due there.
func (s *Schedule) touch(g *agency) {
	if g.place[0] >= 0 {
		return
	}
	s.asleep.drop(g)
	g.ready = max(g.ready, s.virtual)
	s.ready.put(g)
}

// charge moves the virtual time of an agency on by a turn.
func (s *Schedule) charge(g *agency) {
	if s.sharesIn--; s.sharesIn <= 0 {
		s.share()
	}
	g.ready = min(g.ready+int64(virtual/g.weight), s.virtual+s.ahead)
	if g.place[0] >= 0 {
		first, _ := s.ready.first()
		s.virtual = max(s.virtual, first.ready)
		s.ready.put(g)
	}
}

// recount lets the weights be set anew before the next turn where there are far more insertions than when it was
// done last, or the first of an agency: an agency whose insertions have just come had the weight of one without any.
func (s *Schedule) recount(g *agency) {
	if g.count == 1 || s.count > 2*s.shared {
		s.sharesIn = 0
	}
}

// share sets the weights. It takes a while with thousands of agencies, so it is done rarely.
func (s *Schedule) share() {
	n, count, root := 0, 0.0, 0.0
	for _, g := range s.agencies {
		if g == nil {
			continue
		}
		n++
		g.worth = g.root()
		count += float64(g.count)
		root += g.worth
	}
	s.sharesIn, s.shared = 8*n+64, s.count
	s.ahead = int64(virtual * max(atLeast*s.o.Budget, atMost*float64(n)))
	if count == 0 || root == 0 {
		return
	}
	// Those at the floor leave less to the others, which may bring more to the floor.
	left, above := 1.0, root
	for range 16 {
		per, changed := left/above, false
		left, above = 1, 0
		for _, g := range s.agencies {
			if g == nil {
				continue
			}
			fair := floor * float64(g.count) / count
			g.weight = max(fair, per*g.worth)
			if g.weight == fair {
				left -= fair
			} else {
				above += g.worth
			}
		}
		if next := left / max(above, math.SmallestNonzeroFloat64); above > 0 && math.Abs(next-per) > 1e-6*per {
			changed = true
		}
		if !changed || above == 0 {
			break
		}
	}
	for _, g := range s.agencies {
		if g != nil {
			g.weight = max(g.weight, 1e-7)
		}
	}
}

// root is Σ√λ of an agency. Hints move value from its insertions to its pages.
func (g *agency) root() float64 {
	sum, rate := g.roots, g.rates
	if j := g.informative(); j > 0 {
		return sum*math.Sqrt(1-j) + math.Sqrt(j*rate*float64(g.pages.of))
	}
	return sum
}

// park takes an agency out of the turns until there may be something to do.
func (s *Schedule) park(g *agency, now int64) {
	s.ready.drop(g)
	if at := g.due(now); at < math.MaxInt64 {
		g.wakes = at
		s.asleep.put(g)
	}
}

// wake lets all agencies be looked at whose time has come.
func (s *Schedule) wake(now int64) {
	for g, ok := s.asleep.first(); ok && g.wakes <= now; g, ok = s.asleep.first() {
		g.countAges(!g.blocked(now))
		s.touch(g)
	}
}
