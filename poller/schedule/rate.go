package schedule

import (
	"encoding/json"
	"math"
	"time"
)

const (
	day        = 86400.0  // seconds
	faded      = 30 * day // so long is a contact request remembered,
	fading     = day / 12 // and so long does it make more of them likely:
	excite     = 0.1      // so many that it brings soon
	spread     = 0.4      // 1/variance of the factor by which insertions differ from their curve
	unknownAge = 7 * day  // at the least, where nobody knows it
	fullWindow = 20       // contact requests: a first answer of so many may not show all
)

// curve is how many contact requests a day an insertion of an age gets: learned from all insertions of an agency together.
// The last bucket is that of insertions whose birth is not known.
type curve struct {
	leads, days [ageBuckets]float64
	rate        [ageBuckets]float64 // from the two above
	fitted      int64
}

const (
	ageBuckets = 10
	unborn     = ageBuckets - 1
	priorDays  = 20 // insertion-days that the prior is worth
)

var (
	ageEdges = [ageBuckets]float64{0, day / 4, day, 2 * day, 4 * day, 8 * day, 16 * day, 32 * day, 64 * day, math.MaxFloat64}
	prior    = [ageBuckets]float64{.30, .24, .18, .13, .09, .06, .04, .03, .02, .05}
)

func bucketOf(age float64) int {
	for b := unborn - 1; b > 0; b-- {
		if age >= ageEdges[b] {
			return b
		}
	}
	return 0
}

// fit makes the rates: the prior, scaled to what was seen on the whole, gives way to what was seen of an age. It forgets
// slowly: what was seen two months ago counts a third.
func (c *curve) fit(now int64) {
	old := math.Exp(-float64(max(now-c.fitted, 0)) / 1e9 / (60 * day))
	c.fitted = now
	seen, would := 1.0, 1.0
	for b := range ageBuckets {
		c.leads[b] *= old
		c.days[b] *= old
		seen += c.leads[b]
		would += c.days[b] * prior[b]
	}
	for b := range ageBuckets {
		c.rate[b] = (c.leads[b] + priorDays*prior[b]*seen/would) / (c.days[b] + priorDays)
	}
}

// expect adds the time between two ages to what was seen, and returns how many contact requests it lets expect, each
// faded by the time until the second age.
func (c *curve) expect(from, to float64, born bool) (sum float64) {
	spent := func(b int, u, v float64) {
		c.days[b] += (v - u) / day
		sum += c.rate[b] / day * faded * (math.Exp((v-to)/faded) - math.Exp((u-to)/faded))
	}
	if !born {
		spent(unborn, from, to)
		return sum
	}
	for b := bucketOf(from); b < unborn && ageEdges[b] < to; b++ {
		spent(b, max(from, ageEdges[b]), min(to, ageEdges[b+1]))
	}
	return sum
}

// answer folds a good answer at a moment into what is known of an insertion: created are the creation times of contact
// requests. It must be called before the item's last poll is set.
func (g *agency) answer(i *item, at int64, created []time.Time) {
	ago := func(x time.Time) float64 { return max(0, float64(at-g.s.inside(x))/1e9) }
	age, passed := g.age(i, at), float64(at-i.last)/1e9
	if i.unread {
		i.leads, i.expected, i.burst = 0, 0, 0
		oldest := 0.0
		for _, x := range created {
			if !x.IsZero() {
				oldest = max(oldest, ago(x))
			}
		}
		switch {
		case len(created) >= fullWindow:
			passed = oldest
		case i.born != 0:
			passed = max(age, oldest)
		default:
			passed = max(unknownAge, 1.5*oldest)
		}
	}
	fade := math.Exp(-passed / faded)
	n, burst := float64(i.leads)*fade, float64(i.burst)*math.Exp(-passed/fading)
	r := float64(i.expected)*fade + g.curve.expect(max(0, age-passed), max(age, passed), i.born != 0)
	for _, x := range created {
		since := passed / 2
		switch {
		case !x.IsZero():
			since = ago(x)
		case i.unread:
			continue
		}
		if !x.IsZero() && !i.unread {
			g.betrayed(i, g.s.inside(x))
		}
		n += math.Exp(-since / faded)
		burst += math.Exp(-since / fading)
		b := unborn
		if i.born != 0 {
			b = bucketOf(max(0, age-since))
		}
		g.curve.leads[b]++
	}
	i.leads, i.expected, i.burst = float32(n), float32(r), float32(burst)
	g.curve.fit(at)
}

// age is how old an insertion is, in seconds; 0 where that is not known.
func (g *agency) age(i *item, at int64) float64 {
	if i.born == 0 {
		return 0
	}
	return max(0, float64(g.s.outside(at).Unix()-int64(i.born)))
}

// rank sets the rate of an item: what the curve says of its age, times the mean of its factor (gamma, after the contact
// requests that it had where so many were to expect), and what those of the last hours bring.
func (g *agency) rank(i *item) {
	rate := 4 * g.mean()
	if !i.unread {
		b := unborn
		if i.born != 0 {
			b = bucketOf(g.age(i, g.s.now))
		}
		rate = g.curve.rate[b] / day * (spread + float64(i.leads)) / (spread + float64(i.expected))
		rate += excite * float64(i.burst) * math.Exp(-max(0, float64(g.s.now-i.last)/1e9)/fading) / fading
	}
	g.weigh(i, min(max(rate, leastRate/day), mostRate/day))
}

// weigh changes the rate of an item.
func (g *agency) weigh(i *item, rate float64) {
	g.roots -= math.Sqrt(float64(i.rate))
	g.rates -= float64(i.rate)
	i.rate = float32(rate)
	g.roots += math.Sqrt(float64(i.rate))
	g.rates += float64(i.rate)
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

// learned is what is kept of an agency.
type learned struct {
	Version     int                 `json:"version"`
	Leads, Days [ageBuckets]float64 `json:",omitzero"`
	Records     records             `json:"records,omitzero"`
}

// learnedVersion changes with what the numbers mean.
const learnedVersion = 4

// Learned is what a restart must know of an agency beside the memory of its insertions: about a kilobyte.
func (s *Schedule) Learned(a Agency) []byte {
	g := s.agencies[a]
	b, err := json.Marshal(learned{learnedVersion, g.curve.leads, g.curve.days, g.hints.records})
	if err != nil {
		return nil // cannot be: all numbers are finite
	}
	return b
}

// restore takes up what was learned before. What is damaged in any way is forgotten as a whole.
func (g *agency) restore(b []byte) {
	l := learned{}
	if json.Unmarshal(b, &l) != nil || l.Version != learnedVersion {
		return
	}
	g.curve.leads, g.curve.days, g.hints.records = l.Leads, l.Days, l.Records
	g.hints.choose()
}
