package schedule

import (
	"math"
	"time"
)

// pages are those of an agency's list. One that is read shows new insertions, and records that betray contact requests.
type pages struct {
	read   []int64 // when each was read last
	of     int
	next   int
	since  int64 // when the first one was read
	asked  int64 // a page is being read since; 0: none
	rounds int   // how often the last page was read
	born   float64
	bornAt int64
	before float64 // ν as another process had it
}

const (
	mostPages   = 1 << 16
	askedFor    = 60 * second // a walk that reports nothing for so long will not
	leastPage   = 2 * second
	idlePage    = 30 * second // of pages that betray nothing
	bornFading  = 7 * day
	leastLife   = 5 * day // insertions are published at least so long, on average: a bound of ν
	recentBirth = day
	unsure      = 3600 // seconds that ν is not believed after
)

// Read says that page n (from 0) of the walk of an agency, of so many as the last one had, was read at a moment. It ends
// a Walk turn.
func (s *Schedule) Read(a Agency, n, of int, at time.Time) {
	g, now := s.agencies[a], s.past(at)
	p := &g.pages
	if of <= 0 || of > mostPages || n < 0 || n >= of {
		p.asked = 0
		return
	}
	for len(p.read) < of {
		p.read = append(p.read, now)
	}
	p.read = p.read[:of]
	if p.of == 0 {
		p.since = now
	}
	p.of, p.asked = of, 0
	p.read[n] = now
	p.next = (n + 1) % of
	if p.next == 0 {
		p.rounds++
	}
	s.touch(g)
}

// appeared counts an insertion that was added for the first time.
func (g *agency) appeared(i *item, now int64) {
	if g.pages.rounds == 0 || i.born == 0 || i.age(now) > recentBirth {
		return
	}
	g.pages.fade(now)
	g.pages.born++
}

func (p *pages) fade(now int64) {
	if p.bornAt > 0 {
		p.born *= math.Exp(-float64(now-p.bornAt) / 1e9 / bornFading)
	}
	p.bornAt = now
}

// appearing is ν: how many insertions appear in a second.
func (g *agency) appearing(now int64) float64 {
	p := &g.pages
	if p.born == 0 && p.before == 0 {
		return 0
	}
	watched := min(float64(now-p.since)/1e9, bornFading)
	fade := math.Exp(-float64(now-p.bornAt) / 1e9 / bornFading)
	return min((p.born*fade+p.before*unsure)/(watched+unsure), float64(g.count+10)/leastLife)
}

// pageIndex is the index of the next page of the cycle: νμ₀a³/3 for what appears there, and JΛa²/2 for what it betrays,
// both per page, divided by the requests that it costs, those for false hints among them. It is 0 if none may be read now.
func (g *agency) pageIndex(now int64) float64 {
	p := &g.pages
	if p.of == 0 || p.asked > 0 && now < p.asked+askedFor || now < p.read[p.next]+g.pageInterval() {
		return 0
	}
	j := g.informative()
	if j == 0 && g.walkDebt > 0 {
		return 0
	}
	a := float64(now-p.read[p.next]) / 1e9
	v := g.appearing(now) * g.curve.rate[0] / day * a * a * a / 3
	if j > 0 {
		v += j * g.rates * a * a / 2
		v /= 1 + g.hints.c*float64(g.count)/float64(p.of)
	}
	return v / float64(p.of)
}

func (g *agency) pageInterval() int64 {
	if g.informative() > 0 {
		return max(leastPage, g.s.interval)
	}
	return max(idlePage, g.s.interval)
}

// pageDue is when a page may be read.
func (g *agency) pageDue() int64 {
	p := &g.pages
	blind := g.informative() == 0
	if p.of == 0 || blind && (p.born+p.before == 0 || g.walkDebt > 0) {
		return math.MaxInt64 // a debt is paid by polls, not by time
	}
	at := p.read[p.next] + g.pageInterval()
	if p.asked > 0 {
		at = max(at, p.asked+askedFor)
	}
	return at
}
