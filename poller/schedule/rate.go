package schedule

import (
	"math"
	"time"
)

const (
	second = int64(time.Second)
	day    = 86400.0  // seconds
	faded  = 80 * day // so long is a contact request remembered,
	fading = day / 12 // and so long does it make more of them likely:
	excite = 0.1      // so many that it brings soon
)

// A curve is how many contact requests an insertion of an age gets: learned from all insertions of an agency together.
type curve struct {
	leads [ageBuckets]float64
	days  [ageBuckets]float64 // that all insertions together had in these ages
	apart float64             // days of those whose birth was guessed
	rate  [ageBuckets]float64 // contact requests a day, from the two above
	// Insertions differ from their curve by a factor with mean 1 and variance 1/k, by the method of moments.
	excess, square float64
	k              float64
	refitIn        int
	refitAt        int64
}

// The last bucket is that of insertions whose birth was guessed. They say little about the curve, so that theirs has the
// shape that was believed before: days of the bucket are contact requests to expect, and its rate is how many come for each.
const (
	ageBuckets = 10
	unborn     = ageBuckets - 1
)

var (
	ageEdges             = [ageBuckets]float64{0, day / 4, day, 2 * day, 4 * day, 8 * day, 16 * day, 32 * day, 64 * day, math.MaxFloat64}
	ageMiddles, logPrior [unborn]float64 // of the logarithms, but for the first
	prior                = [ageBuckets]float64{.30, .24, .18, .13, .09, .06, .04, .03, .02, 1}
)

func init() {
	for b := range ageMiddles {
		logPrior[b] = math.Log(prior[b])
		ageMiddles[b] = math.Sqrt2 * ageEdges[b]
	}
	ageMiddles[0], ageMiddles[1] = ageEdges[1]/2, ageEdges[1]*2
}

const (
	priorDays  = 20 // insertion-days that the prior is worth
	fullWindow = 20 // contact requests: a first answer of so many may not show all
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
		c.apart *= old
		c.excess, c.square = c.excess*recent, c.square*recent
	}
	c.refitAt = now
	c.fit()
}

// expect adds the time between two ages to what was seen, and returns how many contact requests it lets expect, each
// faded by the time until the second age.
func (c *curve) expect(from, to float64, guessed bool) (sum float64) {
	for b := bucketOf(from); b < unborn && ageEdges[b] < to; b++ {
		u, v := max(from, ageEdges[b]), min(to, ageEdges[b+1])
		rate, days := c.rate[b], (v-u)/day
		if guessed {
			rate = c.rate[unborn] * prior[b]
			c.days[unborn] += days * prior[b]
			c.apart += days
		} else {
			c.days[b] += days
		}
		sum += rate / day * faded * (math.Exp((v-to)/faded) - math.Exp((u-to)/faded))
	}
	return sum
}

// at is the rate at an age, in contact requests a day: the curve is a line through the middles of the buckets where both
// are logarithms.
func (c *curve) at(age float64, guessed bool) float64 {
	rates, level := &c.rate, 1.0
	if guessed {
		rates, level = &prior, c.rate[unborn]
	}
	b := bucketOf(age)
	if age < ageMiddles[b] {
		b--
	}
	switch {
	case b < 0:
		return level * rates[0]
	case b == unborn-1:
		return level * rates[b]
	}
	part := math.Log(age/ageMiddles[b]) / math.Log(ageMiddles[b+1]/ageMiddles[b])
	return level * rates[b] * math.Pow(rates[b+1]/rates[b], part)
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
	fade := math.Exp(-passed / faded)
	n, r := float64(i.leads)*fade, float64(i.expected)*fade
	burst := float64(i.burst) * math.Exp(-passed/fading)
	age, guess := i.age(at), i.flags&guessed != 0
	r += g.curve.expect(max(0, age-passed), age, guess)
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
		if !guess {
			b = bucketOf(max(0, age-ago))
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
	if i.born == 0 {
		g.guess(i, at, created)
	}
	oldest := time.Time{}
	for _, x := range created {
		if !x.IsZero() && (oldest.IsZero() || x.Before(oldest)) {
			oldest = x
		}
	}
	from = at
	if !oldest.IsZero() {
		from = min(at, g.s.inside(oldest))
		i.born = min(i.born, g.s.birth(oldest))
	}
	if len(created) >= fullWindow {
		return from, oldest
	}
	return min(from, at-int64(i.age(at)*1e9)), time.Time{}
}

// rank sets the rate of an item for a moment.
func (g *agency) rank(i *item, now int64) {
	rate := 4 * g.mean()
	if i.flags&unread == 0 {
		rate = g.curve.at(i.age(now), i.flags&guessed != 0) / day * g.curve.factor(float64(i.leads), float64(i.expected))
		rate += excite * float64(i.burst) * math.Exp(-max(0, float64(now-i.last)/1e9)/fading) / fading
	}
	g.roots -= math.Sqrt(float64(i.rate))
	g.rates -= float64(i.rate)
	i.rate = float32(min(max(rate, leastRate/day), mostRate/day))
	g.roots += math.Sqrt(float64(i.rate))
	g.rates += float64(i.rate)
}

// mean is the mean rate of insertions that are known, a second.
func (g *agency) mean() float64 {
	leads, days := 1+g.curve.leads[unborn], 8+g.curve.apart
	for b := range unborn {
		leads += g.curve.leads[b]
		days += g.curve.days[b]
	}
	return leads / days / day
}

func (s *Schedule) birth(t time.Time) uint32 { return birthOf(s.inside(t)) }

func birthOf(at int64) uint32 { return uint32(min(max(at/second, 1), math.MaxUint32)) }

// age is how old an insertion is, in seconds.
func (i *item) age(now int64) float64 {
	return max(0, float64(now/second-int64(i.born)))
}
