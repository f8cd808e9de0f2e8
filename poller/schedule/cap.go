package schedule

import (
	"math"
	"math/bits"
)

// ages counts what waits by the time of its last poll, in buckets of a power of two of nanoseconds.
type ages struct {
	count [buckets]int32
	late  int32 // older than all buckets
	first int64 // number of the oldest bucket
	width uint8 // as a power of two
}

const buckets = 64

func (a *ages) add(last int64, n int32) {
	if b := last >> a.width; b < a.first {
		a.late += n
	} else {
		a.count[b&(buckets-1)] += n
	}
}

// move lets the newest bucket be that of a moment.
func (a *ages) move(now int64) {
	first := now>>a.width - buckets + 1
	for n := 0; a.first < first && n < buckets; n++ {
		c := &a.count[a.first&(buckets-1)]
		a.late, *c = a.late+*c, 0
		a.first++
	}
	a.first = max(a.first, first)
}

// slack is how long there is time until only the oldest may be polled, if none is to become older than the cap, at so
// many nanoseconds for each poll. It errs by less than a bucket, to the safe side.
func (a *ages) slack(now, most int64, each float64) float64 {
	least := math.Inf(1)
	sum := a.late
	if sum > 0 {
		least = float64(a.first<<a.width-buckets<<a.width+most-now) - float64(sum)*each
	}
	for b := a.first; b < a.first+buckets; b++ {
		if c := a.count[b&(buckets-1)]; c > 0 {
			sum += c
			least = min(least, float64(b<<a.width+most-now)-float64(sum)*each)
		}
	}
	return least
}

// How much of the budget the oldest get.
const (
	relaxed = iota
	half    // every other turn, so that what is urgent is not kept waiting while there is time
	all
)

// spared: one of so many turns is for others even then. What has failed, and agencies whose pause has passed without our
// looking, are not among the oldest, and where the cap cannot be held they would wait for ever.
const spared = 16

// pressure says how much of the budget the oldest need so that none becomes older than the cap. Neither time nor turns
// for others use up more of a slack than the time that passes, so that there is no need to count before it is over.
func (s *Schedule) pressure(now int64) int {
	if now < s.relaxedUntil {
		return relaxed
	}
	margin := min(second+int64(4*s.pace), s.cap/8)
	if s.ages.slack(now+margin, s.cap, s.pace*spared/(spared-1)) <= 0 {
		return all
	}
	slack := s.ages.slack(now+margin, s.cap, 2*s.pace)
	if slack <= 0 {
		return half
	}
	s.relaxedUntil = now + int64(min(slack/2, 60e9))
	return relaxed
}

// press gives out the oldest insertion if it must be its turn now.
func (s *Schedule) press(now int64) (Turn, bool) {
	p := s.pressure(now)
	if s.odd = p == half && !s.odd; p == relaxed || p == half && !s.odd {
		return Turn{}, false
	}
	if s.pressed++; p == all && s.pressed%spared == 0 {
		return Turn{}, false
	}
	for {
		g, ok := s.byAge.first()
		if !ok {
			return Turn{}, false
		}
		if g.blocked(now) {
			g.countAges(false)
			continue
		}
		slot, _ := g.aged.first()
		if now-g.items[slot].last < s.interval {
			return Turn{}, false
		}
		why := Cap
		if best, _ := g.planned.first(); best == slot {
			why = Index // it would have been its turn anyway
		}
		return s.give(g, slot, g.reason(slot, why), now), true
	}
}

// older notes that the oldest that waits at an agency may be another one.
func (s *Schedule) older(g *agency) {
	if g.counted && len(g.aged.list) > 0 {
		s.byAge.put(g)
	} else {
		s.byAge.drop(g)
	}
}

// resize sets the cap, which depends on how many insertions there are, and the buckets if it has become much longer or
// shorter.
func (s *Schedule) resize() {
	turns := float64(s.count) / s.o.Budget * 1e9
	s.cap = s.interval + int64(4*turns)
	if s.o.Staleness > 0 {
		s.cap = max(int64(s.o.Staleness), s.interval+int64(1.1*turns)+second)
	}
	s.cap = max(s.cap, 2*second)
	s.relaxedUntil = 0
	if n := s.cap >> s.ages.width; n >= 12 && n < 48 {
		return
	}
	width := uint8(bits.Len64(uint64(s.cap)) - 5) // 16 to 32 buckets are a cap
	s.ages = ages{width: width, first: s.now>>width - buckets + 1}
	for _, g := range s.agencies {
		if g != nil && g.counted {
			g.countAll(1)
		}
	}
}

func (g *agency) countAll(n int32) {
	for _, slot := range g.aged.list {
		g.s.ages.add(g.items[slot].last, n)
	}
}

// countAges says whether what waits at an agency counts for the cap: it does not while nothing of it may be asked.
func (g *agency) countAges(counts bool) {
	if counts == g.counted {
		return
	}
	n := int32(-1)
	if counts {
		n = 1
	}
	g.countAll(n)
	g.counted = counts
	g.s.relaxedUntil = 0
	g.s.older(g)
}
