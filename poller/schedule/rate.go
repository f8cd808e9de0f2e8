package schedule

import (
	"math"
	"time"
)

const (
	second = int64(time.Second)
	day    = 86400.0 // seconds
	// So long is a contact request remembered: less of an insertion that grows older without our knowing its age. And so
	// long does it make more of them likely.
	fadedBorn   = 40 * day
	fadedUnborn = 14 * day
	fading      = day / 12
	excite      = 0.1 // further contact requests that each brings soon
)

// A curve is how many contact requests an insertion of an age gets: learned from all insertions of an agency together.
type curve struct {
	leads [ageBuckets]float64
	days  [ageBuckets]float64 // that all insertions together had in these ages
	rate  [ageBuckets]float64 // contact requests a day, from the two above
	// Insertions differ from their curve by a factor with mean 1 and variance 1/k, by the method of moments.
	excess, square float64
	k              float64
	refitIn        int
	refitAt        int64
}

// The last bucket is that of insertions whose birth is not known.
const (
	ageBuckets = 10
	unborn     = ageBuckets - 1
)

var (
	ageEdges = [unborn]float64{0, day / 4, day, 2 * day, 4 * day, 8 * day, 16 * day, 32 * day, 64 * day}
	prior    = [ageBuckets]float64{.30, .24, .18, .13, .09, .06, .04, .03, .02, .09}
)

const (
	priorDays  = 20      // insertion-days that the prior is worth
	likelyAge  = 3 * day // at least, where nothing is known
	fullWindow = 20      // contact requests: a first answer of so many may not show all
)

func newCurve() curve {
	c := curve{k: 0.3}
	c.fit()
	return c
}

func bucketOf(age float64) int {
	for b := unborn - 1; b > 0; b-- {
		if age >= ageEdges[b] {
			return b
		}
	}
	return 0
}

// fit makes the rates: the prior, scaled to what was seen on the whole, gives way to what was seen of an age.
func (c *curve) fit() {
	seen, would := 1.0, 1.0
	for b := range ageBuckets {
		seen += c.leads[b]
		would += c.days[b] * prior[b]
	}
	for b := range ageBuckets {
		c.rate[b] = (c.leads[b] + priorDays*prior[b]*seen/would) / (c.days[b] + priorDays)
	}
	if c.square > 0.05 {
		c.k = 1 / min(max(c.excess/c.square, 0.1), 16)
	}
}

// refit does it now and then, and forgets slowly: what was seen two months ago counts a third.
func (c *curve) refit(now int64) {
	if c.refitIn--; c.refitIn > 0 {
		return
	}
	c.refitIn = 64
	if c.refitAt > 0 && now > c.refitAt {
		passed := float64(now-c.refitAt) / 1e9
		old, recent := math.Exp(-passed/(60*day)), math.Exp(-passed/(4*day))
		for b := range ageBuckets {
			c.leads[b] *= old
			c.days[b] *= old
		}
		c.excess, c.square = c.excess*recent, c.square*recent
	}
	c.refitAt = now
	c.fit()
}

// expect adds the time between two ages to what was seen, and returns how many contact requests it lets expect, each
// faded by the time until the second age.
func (c *curve) expect(from, to float64) (sum float64) {
	const faded = fadedBorn
	for b := bucketOf(from); b < unborn && ageEdges[b] < to; b++ {
		u, v := max(from, ageEdges[b]), to
		if b+1 < unborn {
			v = min(to, ageEdges[b+1])
		}
		c.days[b] += (v - u) / day
		sum += c.rate[b] / day * faded * (math.Exp((v-to)/faded) - math.Exp((u-to)/faded))
	}
	return sum
}

// answer folds a good answer at a moment into what is known of an insertion: created are the creation times of contact
// requests by the schedule's clock. It must be called before the item's last poll is set.
func (g *agency) answer(i *item, at int64, created []time.Time) {
	from, history := i.last, i.flags&unread != 0
	skip := time.Time{}
	if history {
		from, skip = g.history(i, at, created)
	}
	passed := max(0, float64(at-from)/1e9)
	if history {
		i.leads, i.expected, i.burst = 0, 0, 0
	}
	faded := i.faded()
	fade := math.Exp(-passed / faded)
	n, r := float64(i.leads)*fade, float64(i.expected)*fade
	burst := float64(i.burst) * math.Exp(-passed/fading)
	if i.born == 0 {
		r += g.curve.expectUnborn(passed)
	} else {
		age := i.age(at)
		r += g.curve.expect(max(0, age-passed), age)
	}
	for _, x := range created {
		if x.IsZero() && history || !skip.IsZero() && x.Equal(skip) {
			continue
		}
		ago := passed / 2
		if !x.IsZero() {
			ago = max(0, float64(at-g.s.inside(x))/1e9)
			if !history {
				g.betray(i, g.s.inside(x))
			}
		}
		n += math.Exp(-ago / faded)
		burst += math.Exp(-ago / fading)
		b := unborn
		if i.born != 0 {
			b = bucketOf(max(0, i.age(at)-ago))
		}
		g.curve.leads[b]++
	}
	i.leads, i.expected, i.burst = float32(n), float32(r), float32(burst)
	g.curve.learn(n, r, max(1, float64(at-i.last)/1e9)/day)
	g.curve.refit(at)
}

// learn adds an insertion to the moments, weighed by the time since it was polled last: else those that are polled often
// would count more. A count that fades varies half as much as one that does not.
func (c *curve) learn(n, r, weight float64) {
	c.excess += weight * ((n-r)*(n-r) - n/2)
	c.square += weight * r * r
}

// expectUnborn is expect for an insertion whose birth is not known.
func (c *curve) expectUnborn(passed float64) float64 {
	const faded = fadedUnborn
	c.days[unborn] += passed / day
	return c.rate[unborn] / day * faded * (1 - math.Exp(-passed/faded))
}

// The factors are taken to be lognormal: that fits markets better than the gamma distribution with its handy posterior
// mean (k+n)/(k+R), which believes too soon that nothing will come. The mean is a sum over a grid.
const (
	grid     = 24
	gridStep = 0.42
)

var gridLog, gridFactor [grid]float64

func init() {
	for q := range grid {
		gridLog[q] = -6 + gridStep*float64(q)
		gridFactor[q] = math.Exp(gridLog[q])
	}
}

// factor is the mean of the factor of an insertion that had n contact requests where r were to expect.
func (c *curve) factor(n, r float64) float64 {
	if n > 12 {
		return (c.k + n) / (c.k + r) // the grid is too coarse, and what was believed before matters little
	}
	spread := math.Log(1 + 1/c.k)
	top, weights := math.Inf(-1), [grid]float64{}
	for q := range weights {
		off := gridLog[q] + spread/2
		weights[q] = n*gridLog[q] - r*gridFactor[q] - off*off/(2*spread)
		top = max(top, weights[q])
	}
	sum, all := 0.0, 0.0
	for q, w := range weights {
		if w -= top; w > -12 {
			w = math.Exp(w)
			all += w
			sum += w * gridFactor[q]
		}
	}
	return sum / all
}

// history says since when a first answer shows all contact requests. A full one begins with its oldest, which then says
// nothing about the rate. An insertion is not younger than its contact requests.
func (g *agency) history(i *item, at int64, created []time.Time) (from int64, skip time.Time) {
	oldest := time.Time{}
	for _, x := range created {
		if !x.IsZero() && (oldest.IsZero() || x.Before(oldest)) {
			oldest = x
		}
	}
	from = at
	if !oldest.IsZero() {
		from = min(at, g.s.inside(oldest))
		if i.born != 0 {
			i.born = min(i.born, g.s.birth(oldest))
		}
	}
	if len(created) >= fullWindow {
		return from, oldest
	}
	if i.born == 0 {
		return min(from, at-int64(likelyAge*1e9)), time.Time{}
	}
	from = min(from, at-int64(i.age(at)*1e9))
	return from, time.Time{}
}

// rank sets the lane of an item for a moment.
func (g *agency) rank(i *item, now int64) {
	b := unborn
	if i.born != 0 {
		b = bucketOf(i.age(now))
	}
	rate := g.curve.rate[b] / day
	switch {
	case i.flags&unread != 0:
		rate = 4 * g.mean()
	default:
		burst := float64(i.burst) * math.Exp(-max(0, float64(now-i.last)/1e9)/fading)
		rate = rate*g.curve.factor(float64(i.leads), float64(i.expected)) + excite*burst/fading
	}
	g.roots -= laneRoot[i.lane]
	g.rates -= laneRate[i.lane]
	i.lane = laneOf(rate)
	g.roots += laneRoot[i.lane]
	g.rates += laneRate[i.lane]
}

// mean is the mean rate of insertions that are known, a second.
func (g *agency) mean() float64 {
	leads, days := 1.0, 8.0
	for b := range ageBuckets {
		leads += g.curve.leads[b]
		days += g.curve.days[b]
	}
	return leads / days / day
}

func (s *Schedule) birth(t time.Time) uint32 {
	return uint32(min(max(s.inside(t)/second, 1), math.MaxUint32))
}

func (i *item) faded() float64 {
	if i.born == 0 {
		return fadedUnborn
	}
	return fadedBorn
}

// age is how old an insertion is, in seconds.
func (i *item) age(now int64) float64 {
	return max(0, float64(now/second-int64(i.born)))
}
