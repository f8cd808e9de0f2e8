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
	for ; a.first < first && first-a.first < 2*buckets; a.first++ {
		c := &a.count[a.first&(buckets-1)]
		a.late, *c = a.late+*c, 0
	}
	if a.first < first { // a long jump
		for n := range a.count {
			a.late, a.count[n] = a.late+a.count[n], 0
		}
		a.first = first
	}
}

func (a *ages) include(b *ages, sign int32) {
	a.late += sign * b.late
	for n := range a.count {
		a.count[n] += sign * b.count[n]
	}
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
		c := a.count[b&(buckets-1)]
		if c == 0 {
			continue
		}
		sum += c
		least = min(least, float64(b<<a.width+most-now)-float64(sum)*each)
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

// moveAges lets the newest bucket of all counts be that of this moment. All of them stand at the same bucket always.
func (s *Schedule) moveAges() {
	if s.now>>s.ages.width-buckets+1 <= s.ages.first {
		return
	}
	s.ages.move(s.now)
	for _, g := range s.agencies {
		if g != nil {
			g.ages.move(s.now)
		}
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
		if g == nil {
			continue
		}
		g.ages = s.emptyAges()
		for n := range g.items {
			if i := &g.items[n]; i.where == waiting || i.where == arriving {
				g.ages.add(i.last, 1)
			}
		}
	}
	for _, g := range s.agencies {
		if g != nil && g.counted {
			s.ages.include(&g.ages, 1)
		}
	}
}

func (s *Schedule) emptyAges() ages { return ages{width: s.ages.width, first: s.ages.first} }

// countAges says whether what waits at an agency counts for the cap: it does not while nothing of it may be asked.
func (g *agency) countAges(counts bool) {
	switch {
	case counts == g.counted:
		return
	case counts:
		g.s.ages.include(&g.ages, 1)
	default:
		g.s.ages.include(&g.ages, -1)
	}
	g.counted = counts
	g.s.relaxedUntil = 0
	if counts {
		g.s.byAge.put(g, math.MinInt64)
	}
}

// older notes that something with this last poll waits at an agency.
func (s *Schedule) older(g *agency, last int64) {
	if g.place[byAge] < 0 || last < g.key[byAge] {
		s.byAge.put(g, last)
	}
}

// oldest is the insertion that waits the longest of all that may be asked.
func (s *Schedule) oldest() (*agency, uint32, int64) {
	for {
		g := s.byAge.first()
		if g == nil {
			return nil, none, 0
		}
		g.settle()
		slot, last := g.oldest()
		if slot == none || !g.counted {
			s.byAge.drop(g)
			continue
		}
		if last <= g.key[byAge] {
			return g, slot, last
		}
		s.byAge.put(g, last)
	}
}
