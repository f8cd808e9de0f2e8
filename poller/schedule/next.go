package schedule

import "time"

// Next gives out what to ask now. With None it says how long there will be nothing; zero means until something is added,
// urged or resumed. The caller sends no more than the budget, and asks only when it could send.
func (s *Schedule) Next(now time.Time) (Turn, time.Duration) {
	t := s.tick(now)
	s.wake(t)
	if turn, ok := s.press(t); ok {
		return turn, 0
	}
	for g, ok := s.ready.first(); ok; g, ok = s.ready.first() {
		if slot, why := g.take(t); why != None {
			return s.give(g, slot, why, t), 0
		}
		s.park(g, t)
	}
	s.turnAt = 0
	if g, ok := s.asleep.first(); ok {
		return Turn{}, time.Duration(max(g.wakes-t, int64(time.Millisecond)))
	}
	return Turn{}, 0
}

// give notes a turn.
func (s *Schedule) give(g *agency, slot uint32, why Why, now int64) Turn {
	s.step(now)
	g.pay(why)
	s.charge(g)
	if why == Walk {
		g.pages.asked = now
		return Turn{why, Insertion{Agency: g.handle}}
	}
	if why == Index {
		g.learn(slot, now)
	}
	g.fly(slot)
	if g.probing {
		g.countAges(false)
	}
	return Turn{why, Insertion{g.handle, slot}}
}

// step measures how long a turn takes: walks of the caller and a slow API make it longer than the budget says.
func (s *Schedule) step(now int64) {
	if s.turnAt > 0 {
		least := float64(second) / s.o.Budget
		gap := min(max(float64(now-s.turnAt), 0), 8*least)
		s.pace = max(s.pace+(gap-s.pace)/64, least)
	}
	s.turnAt = now
}

// maxSpan bounds what is configured, and how far the clock jumps ahead at once.
const maxSpan = 30 * 24 * time.Hour

// tick sets our clock, which never goes back. Where the caller's does, ours goes on from where it was; where that jumps
// ahead very far, ours does not.
func (s *Schedule) tick(now time.Time) int64 {
	t := s.inside(now)
	switch {
	case s.now == 0:
		s.now, s.began = t, t
	case t > s.now+int64(maxSpan):
		s.shift -= t - s.now - int64(maxSpan)
		s.now += int64(maxSpan)
	case t > s.now:
		s.now = t
	case t < s.now-5*second:
		s.shift += s.now - t
	}
	s.ages.move(s.now)
	return s.now
}

// past is the moment of an answer, which may have come some time ago: it says nothing about how the clock stands now.
func (s *Schedule) past(at time.Time) int64 {
	if t := s.inside(at); s.now != 0 && t <= s.now {
		return t
	}
	return s.tick(at)
}

// inside is a moment by our clock, outside the reverse.
func (s *Schedule) inside(t time.Time) int64 {
	const most = 8_000_000_000 // seconds: the year 2223
	return min(max(t.Unix(), 0), most)*second + int64(t.Nanosecond()) + s.shift
}

// later is a moment until which something waits. It is not further ahead than our clock may jump: else what waits would
// never come back after a longer jump of the caller's clock that ours has still to see.
func (s *Schedule) later(t time.Time) int64 {
	if s.now == 0 {
		return s.inside(t)
	}
	return min(s.inside(t), s.now+int64(maxSpan))
}

func (s *Schedule) outside(t int64) time.Time { return time.Unix(0, t-s.shift).UTC() }
