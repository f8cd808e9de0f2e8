// Package trace judges the scheduler: it makes up a market, lets the scheduler poll it in virtual time, and says how long
// the contact requests of the market waited until they were found, against what taking turns and a scheduler that knows the
// true rates would need.
//
// The market is the only one there is: what a plan assumes of insertions that nobody knows yet are its rates, too. It is
// fitted to public figures and nobody's data. It is seeded. It knows nothing of the scheduler, and the scheduler nothing of
// it but what a request shows. A request takes no time and none fails.
package trace

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"doorbell/poller/schedule"
)

// Day is a day.
const Day = 24 * time.Hour

// The market. Ages and times are in days where they are numbers.
const (
	rentShare  = 0.5                    // of the slots; the others are for sale
	lifeSpread = 0.9                    // sigma of the lognormal lifetimes
	attraction = 1.4                    // sigma of the lognormal attractiveness, whose mean is 1
	topShare   = 0.08                   // of the insertions
	topFactor  = 3.0                    // they get so many times more
	bumpEvery  = 30.0                   // an insertion is lifted to the top of the results at these ages
	bumpPeak   = 3.0                    // by so much more than its rate,
	bumpFades  = 1.0                    // fading
	offspring  = 0.15                   // contact requests that one brings about,
	excitation = 2 * time.Hour          // so much later on average
	longest    = 1000 * Day             // no insertion lives longer
	shortest   = Day / 4                // nor shorter
	leastLead  = 250 * time.Microsecond // between two contact requests
)

var (
	medianLife = [2]float64{20, 75}   // of rentals and of sales
	atFirst    = [2]float64{2.0, 0.7} // contact requests a day at age 0, those that others bring about included
)

// Market is what a trace is made of. Zero values mean the defaults that stand beside them.
type Market struct {
	Seed       uint64
	Insertions int           // 10,000; always so many at once, as each that goes is followed by another
	Agencies   int           // 1; they have equally many
	Span       time.Duration // 15 days; from the first moment of the simulation to the last
	Hot        float64       // 1; the first half of the slots has so many times more contact requests
}

func (m Market) withDefaults() Market {
	m.Insertions, m.Agencies = cmp.Or(m.Insertions, 10_000), cmp.Or(m.Agencies, 1)
	m.Span, m.Hot = cmp.Or(m.Span, 15*Day), cmp.Or(m.Hot, 1)
	return m
}

// Trace is what happens in a market. Moments are durations since its beginning, which is a Monday at midnight; what was
// there at the beginning was born before it, at a negative one.
type Trace struct {
	Market
	Insertions []Insertion     // by slot, then by birth
	Leads      []time.Duration // when contact requests were created: those of one insertion stand together, the oldest first
	slots      []int32         // the first insertion of each slot, and the end
}

// Insertion is one that some slot holds from Born to Gone.
type Insertion struct {
	Born, Gone  time.Duration
	slot        int32
	first, last int32   // of its contact requests; last does not belong to them
	rate        float64 // contact requests a day at age 0, without those that others bring about
}

// New makes the trace of a market: equal ones are equal.
func New(m Market) *Trace {
	m = m.withDefaults()
	t := &Trace{Market: m, slots: make([]int32, 0, m.Insertions+1)}
	for slot := range m.Insertions {
		t.slots = append(t.slots, int32(len(t.Insertions)))
		t.fill(slot)
	}
	t.slots = append(t.slots, int32(len(t.Insertions)))
	return t
}

// Agency is the one that a slot belongs to.
func (t *Trace) Agency(slot int) int { return slot * t.Agencies / t.Market.Insertions }

// Of are the contact requests of an insertion.
func (t *Trace) Of(i int) []time.Duration { return t.Leads[t.Insertions[i].first:t.Insertions[i].last] }

// fill makes all insertions of a slot. A slot has a generator of its own, so that it does not depend on the others.
func (t *Trace) fill(slot int) {
	r := rand.New(rand.NewPCG(t.Seed, uint64(slot)))
	offer := 0
	if float64(slot%100) >= rentShare*100 {
		offer = 1
	}
	// The one that is there at the beginning is found rather by its length: a long life covers more moments than a short one.
	life := lifetime(medianLife[offer]*math.Exp(lifeSpread*lifeSpread), r)
	born := -time.Duration(r.Float64() * float64(life))
	for born < t.Span {
		one := Insertion{slot: int32(slot), Born: born, Gone: born + life, rate: (1 - offspring) * atFirst[offer] * attractiveness(r)}
		if 2*slot < t.Market.Insertions {
			one.rate *= t.Hot
		}
		t.add(one, r)
		born, life = one.Gone, lifetime(medianLife[offer], r)
	}
}

func lifetime(median float64, r *rand.Rand) time.Duration {
	return min(max(days(median*math.Exp(lifeSpread*r.NormFloat64())), shortest), longest)
}

func attractiveness(r *rand.Rand) float64 {
	a := math.Exp(attraction*r.NormFloat64() - attraction*attraction/2)
	if r.Float64() < topShare {
		a *= topFactor
	}
	return a
}

func days(d float64) time.Duration { return time.Duration(d * float64(Day)) }

func inDays(d time.Duration) float64 { return float64(d) / float64(Day) }

// add makes the contact requests of an insertion: those that come to it, and those that these bring about.
func (t *Trace) add(one Insertion, r *rand.Rand) {
	one.first = int32(len(t.Leads))
	end := inDays(min(one.Gone, t.Span) - one.Born)
	next := func(age float64) float64 { // as if all hours were the busiest
		return ageOf(expected(age) + r.ExpFloat64()/(one.rate*heaviest))
	}
	for age := next(0); age < end; age = next(age) {
		t.come(one, age, 1, r)
	}
	for bump := bumpEvery; bump < end; bump += bumpEvery {
		t.bump(one, bump, end, r)
	}
	for k := int(one.first); k < len(t.Leads); k++ {
		t.bringAbout(t.Leads[k], min(one.Gone, t.Span), r)
	}
	own := t.Leads[one.first:]
	slices.Sort(own)
	one.last = int32(len(t.Leads))
	t.Insertions = append(t.Insertions, one)
}

// bump adds those that come because the insertion was lifted to the top at an age.
func (t *Trace) bump(one Insertion, bump, end float64, r *rand.Rand) {
	for k, n := 0, poisson(one.rate*decay(bump)*bumpPeak*bumpFades*heaviest, r); k < n; k++ {
		if age := bump + bumpFades*r.ExpFloat64(); age < end {
			t.come(one, age, decay(age)/decay(bump), r)
		}
	}
}

// come adds a contact request, or none when this is not the hour for it.
func (t *Trace) come(one Insertion, age, likely float64, r *rand.Rand) {
	at := one.Born + days(age)
	if r.Float64()*heaviest < likely*Hour(at) {
		t.Leads = append(t.Leads, at)
	}
}

func (t *Trace) bringAbout(at, end time.Duration, r *rand.Rand) {
	for n := poisson(offspring, r); n > 0; n-- {
		if later := at + leastLead + time.Duration(float64(excitation)*r.ExpFloat64()); later < end {
			t.Leads = append(t.Leads, later)
		}
	}
}

func poisson(mean float64, r *rand.Rand) (n int) {
	for left := mean - r.ExpFloat64(); left > 0; left -= r.ExpFloat64() {
		n++
	}
	return n
}

// The rate falls with age as (1 + age / 1.5 days)^−0.8.
const (
	decayScale = 1.5
	decayPower = 0.8
)

func decay(age float64) float64 { return math.Pow(1+age/decayScale, -decayPower) }

// expected is the integral of decay from 0, ageOf its inverse.
func expected(age float64) float64 {
	return decayScale / (1 - decayPower) * (math.Pow(1+age/decayScale, 1-decayPower) - 1)
}

func ageOf(expected float64) float64 {
	return decayScale * (math.Pow(1+expected*(1-decayPower)/decayScale, 1/(1-decayPower)) - 1)
}

// Rate is how many contact requests a day come to an insertion at a moment, whatever the hour, those that others bring
// about included on average.
func (i *Insertion) Rate(at time.Duration) float64 {
	age := inDays(at - i.Born)
	rate := i.rate * decay(max(age, 0)) / (1 - offspring)
	if age > bumpEvery {
		rate *= 1 + bumpPeak*math.Exp(-math.Mod(age, bumpEvery)/bumpFades)
	}
	return rate
}

// leastOctave is where the octaves of Rates begin, in contact requests a day.
const leastOctave = 1.0 / (1 << 17)

// Rates is how the rates of so many insertions lie at any moment, an octave in each count.
func Rates(insertions float64) []schedule.RateCount {
	rates := make([]schedule.RateCount, 25)
	for k, share := range octaves() {
		// The middle of the octave: where it matters, its insertions thin out towards the top.
		rates[k] = schedule.RateCount{PerDay: leastOctave * math.Exp2(float64(k)) * math.Sqrt2, Count: insertions * share}
	}
	return rates
}

// octaves are the shares: over all ages that an insertion may have now, how likely its attractiveness brings its rate there.
var octaves = sync.OnceValue(func() (shares [25]float64) {
	const step = 0.25
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	less := func(factor float64) float64 { return normal(math.Log(factor)/attraction + attraction/2) }
	sum := 0.0
	for offer, median := range medianLife {
		mean := median * math.Exp(lifeSpread*lifeSpread/2)
		likely := [2]float64{rentShare, 1 - rentShare}[offer] / mean
		for age := step / 2; age < inDays(longest); age += step {
			here := likely * normal(math.Log(median/age)/lifeSpread)
			average := Insertion{rate: (1 - offspring) * atFirst[offer]}
			rate, below := average.Rate(days(age)), 0.0
			for k := range shares {
				top := leastOctave * math.Exp2(float64(k+1)) / rate
				part := here * ((1-topShare)*less(top) + topShare*less(top/topFactor))
				shares[k] += part - below
				sum += part - below
				below = part
			}
		}
	}
	for k := range shares {
		shares[k] /= sum
	}
	return shares
})

// Weights of the days, Monday first, and of the hours, from midnight, in percent.
var (
	weekdays = [7]float64{15.5, 16.2, 15.5, 14.8, 13.3, 11.2, 13.5}
	hours    = [24]float64{
		1.3, .7, .5, .4, .5, .9, 2.0, 3.6, 5.0, 5.8, 6.0, 5.7, 6.1, 5.6, 5.6, 5.9, 6.5, 6.5, 6.0, 5.6, 6.1, 6.2, 4.5, 3.0,
	}
	week, heaviest = weekOf()
)

// weekOf returns the weights of all hours of a week, one on average, and the largest.
func weekOf() (w [168]float64, most float64) {
	sum := 0.0
	for h := range w {
		w[h] = weekdays[h/24] * hours[h%24]
		sum += w[h]
	}
	for h := range w {
		w[h] *= float64(len(w)) / sum
		most = max(most, w[h])
	}
	return w, most
}

// Hour is how many times more contact requests than on average come in the hour of the week of a moment.
func Hour(at time.Duration) float64 {
	h := int(at/time.Hour) % len(week)
	if at < 0 {
		h = (int(at/time.Hour) - 1) % len(week)
	}
	return week[(h+len(week))%len(week)]
}
