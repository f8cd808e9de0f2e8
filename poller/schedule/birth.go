package schedule

import (
	"math"
	"time"
)

// Where the birth of an insertion is not known, its first answer tells something about it: the insertion is older than its
// oldest contact request, and one that gets fewer and fewer is ageing. Ages are tried that lie beyond the oldest contact
// request by so many days and more, each 1.4 times as far as the one before.
const (
	guesses    = 24
	guessFirst = 0.1 * day
	guessRatio = 1.4
	usualAge   = 30 * day // half of what is in a list is older, before anything is known
)

// guess sets the birth of an insertion from its first answer, of all that was ever asked or only of the latest.
func (g *agency) guess(i *item, at int64, created []time.Time) {
	room := [fullWindow]float64{}
	shown, oldest := room[:0], 0.0
	for _, x := range created {
		if !x.IsZero() {
			shown = append(shown, max(0, float64(at-g.s.inside(x))/1e9))
			oldest = max(oldest, shown[len(shown)-1])
		}
	}
	age := g.curve.likelyAge(shown, oldest, len(created) < fullWindow)
	i.flags |= guessed
	i.born = birthOf(at - int64(min(age, 1e9)*1e9))
}

// likelyAge is the mean of the logarithms of the ages, as likely as they are where contact requests came so long ago.
// whole: these are all that ever came. Else what is shown begins with the oldest, which then says nothing.
func (c *curve) likelyAge(shown []float64, oldest float64, whole bool) float64 {
	n := float64(len(shown))
	if !whole {
		n--
	}
	weights, top, far := [guesses]float64{}, math.Inf(-1), guessFirst
	for k := range weights {
		age, since := oldest+far, 0.0
		if !whole {
			since = far
		}
		before := 1 + age/usualAge
		weights[k] = math.Log(far/(before*before)) + c.likely(n, c.rate[unborn]*shape(since, age))
		for _, ago := range shown {
			weights[k] += logPrior[bucketOf(age-ago)]
		}
		if !whole {
			weights[k] -= logPrior[bucketOf(far)]
		}
		top = max(top, weights[k])
		far *= guessRatio
	}
	sum, all, far := 0.0, 0.0, guessFirst
	for _, w := range weights {
		w = math.Exp(w - top)
		sum += w * math.Log(oldest+far)
		all += w
		far *= guessRatio
	}
	return math.Exp(sum / all)
}

// shape is how many contact requests come between two ages, as it was believed before.
func shape(from, to float64) (sum float64) {
	for b := bucketOf(from); b < unborn && ageEdges[b] < to; b++ {
		sum += prior[b] / day * (min(to, ageEdges[b+1]) - max(from, ageEdges[b]))
	}
	return sum
}

// likely is the logarithm of how likely it is that n contact requests came where r were to expect of a factor of 1, but
// for a term that is the same for all r.
func (c *curve) likely(n, r float64) float64 {
	spread := math.Log(1 + 1/c.k)
	top, weights := math.Inf(-1), [grid]float64{}
	for q := range weights {
		off := gridLog[q] + spread/2
		weights[q] = n*gridLog[q] - r*gridFactor[q] - off*off/(2*spread)
		top = max(top, weights[q])
	}
	sum := 0.0
	for _, w := range weights {
		sum += math.Exp(w - top)
	}
	return top + math.Log(sum)
}
