package schedule

import "time"

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
	g.settle()
	_, oldest := g.oldest()
	g.away(func(i *item) { oldest = min(oldest, i.last) })
	return s.outside(oldest)
}

// away calls do for what is in no lane: in flight, or after a failure.
func (g *agency) away(do func(*item)) {
	for slot := g.flying; slot != none; slot = g.items[slot].next {
		do(&g.items[slot])
	}
	for _, d := range g.delays {
		if i := &g.items[d.slot]; i.where == delayed && i.due() == d.due {
			do(i)
		}
	}
}

// Cap is how long an insertion may wait at the most.
func (s *Schedule) Cap() time.Duration { return time.Duration(s.cap) }

// PastCap is how many insertions of an agency, of how many, wait longer than the cap. Its time grows with their number.
func (s *Schedule) PastCap(a Agency) (past, of int) {
	g := s.agencies[a]
	g.settle()
	before := s.now - s.cap
	for _, l := range g.lanes {
		for slot := l.head; slot != none && g.items[slot].last < before; slot = g.items[slot].next {
			past++
		}
	}
	g.away(func(i *item) {
		if i.last < before {
			past++
		}
	})
	return past, g.count
}

// Waiting is the number of an agency's insertions that are urgent.
func (s *Schedule) Waiting(a Agency) int { return s.agencies[a].urgent }

// Count is how many turns were given for each reason, by Why, since the agency was entered.
func (s *Schedule) Count(a Agency) [len(whys)]uint64 { return s.agencies[a].given }
