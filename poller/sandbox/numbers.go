package sandbox

import (
	"math"
	"math/rand/v2"
	"time"
)

const day = 24 * time.Hour

// Lognormal is a distribution with a long tail.
type Lognormal struct{ Median, Sigma float64 }

// Mean is above the median.
func (l Lognormal) Mean() float64 { return l.Median * math.Exp(l.Sigma*l.Sigma/2) }

func (l Lognormal) draw(r *rand.Rand) float64 { return l.Median * math.Exp(l.Sigma*r.NormFloat64()) }

// aged is a value as it is met at a random moment: long lives are met more often.
func (l Lognormal) aged(r *rand.Rand) float64 {
	l.Median *= math.Exp(l.Sigma * l.Sigma)
	return l.draw(r)
}

// Numbers are what a [Market] lives by. Shares lie between 0 and 1. [Believable]
// has those of the Swiss market; change single ones from there.
type Numbers struct {
	AgencySize    Lognormal // insertions of an agency that does not say
	LargestAgency int

	RentDays, SaleDays       Lognormal // from publication to withdrawal
	Relisted                 float64   // of the withdrawn ones, under the same reference
	RelistedMin, RelistedMax time.Duration
	PriceChanged             float64 // once in a life
	PriceLowered             float64 // of those; by 2 to 6 %
	RankChangedPerDay        float64

	Top, Premium       float64    // the others are STANDARD
	Rooms              [5]float64 // weights of 1, 2, 3, 4, 5 and more, each or half a room more
	NetRent            [6]int     // of existing flats, by rooms; asked for is more:
	AskedMin, AskedMax float64
	NoStreet           float64
	OnlyGross          float64
	NoPrice            float64 // on request
	EmptyLister        float64
	EmptyBuy           float64 // buy:{} in a rental
	NoURLs             float64
	SameCoordinates    float64 // as another insertion

	RentRequests, SaleRequests   Lognormal     // contact requests over the whole life
	Hot                          float64       // of the rentals
	HotMin, HotMax               int           // contact requests of a hot one
	Decay, HotDecay              time.Duration // after which the flow is 1/e
	SaleSpreadMin, SaleSpreadMax time.Duration // over which those of a sale are spread evenly

	Hours    [24]float64 // weights by the hour in Europe/Zurich
	Weekdays [7]float64  // Monday first

	Email, FirstName, Salutation, Phone, ViewingWish float64 // that have it
	Template, OddMessage                             float64 // of the messages
	SamePerson, DoubleClick, Spam                    float64
	Late                                             float64 // become visible later than they were made
	LateMin, LateMax                                 time.Duration
	ScoreBeta                                        float64 // both parameters of the beta distribution
	RescoredPerDay                                   float64
}

// Believable returns the numbers of facts that are known, or inferred, of Swiss
// agencies.
func Believable() Numbers {
	return Numbers{
		AgencySize: Lognormal{12, 1.5}, LargestAgency: 2000,
		RentDays: Lognormal{20, 0.82}, SaleDays: Lognormal{75, 0.82},
		Relisted: 0.03, RelistedMin: day, RelistedMax: 90 * day,
		PriceChanged: 0.12, PriceLowered: 0.9, RankChangedPerDay: 0.01,
		Top: 0.08, Premium: 0.17,
		Rooms:    [5]float64{9, 22, 34, 26, 9},
		NetRent:  [6]int{848, 1143, 1367, 1622, 1972, 2495},
		AskedMin: 1.25, AskedMax: 1.3,
		NoStreet: 10.0 / 96, OnlyGross: 0.15, NoPrice: 0.04, EmptyLister: 0.2, EmptyBuy: 0.1, NoURLs: 0.4, SameCoordinates: 0.05,
		RentRequests: Lognormal{6, 1.18}, SaleRequests: Lognormal{3, 1.3},
		Hot: 0.01, HotMin: 200, HotMax: 600, Decay: 4 * day, HotDecay: day,
		SaleSpreadMin: 60 * day, SaleSpreadMax: 90 * day,
		Hours: [24]float64{
			1.3, .7, .5, .4, .5, .9, 2.0, 3.6, 5.0, 5.8, 6.0, 5.7,
			6.1, 5.6, 5.6, 5.9, 6.5, 6.5, 6.0, 5.6, 6.1, 6.2, 4.5, 3.0,
		},
		Weekdays: [7]float64{15.5, 16.2, 15.5, 14.8, 13.3, 11.2, 13.5},
		Email:    0.99, FirstName: 0.96, Salutation: 0.85, Phone: 0.78, ViewingWish: 0.15,
		Template: 0.35, OddMessage: 0.05, SamePerson: 0.18, DoubleClick: 0.015, Spam: 0.01,
		Late: 0.01, LateMin: 90 * time.Second, LateMax: 600 * time.Second,
		ScoreBeta: 2.2, RescoredPerDay: 0.05,
	}
}

// weight of a moment compared with the busiest one.
func (n *Numbers) weight(t time.Time) float64 {
	t = t.In(Zurich)
	monday := (int(t.Weekday()) + 6) % 7
	return n.Hours[t.Hour()] / largest(n.Hours[:]) * n.Weekdays[monday] / largest(n.Weekdays[:])
}

func largest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

func likely(r *rand.Rand, share float64) bool { return r.Float64() < share }

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Float64()*float64(most-least))
}

func days(n float64) time.Duration { return time.Duration(n * float64(day)) }

// weighted draws an index.
func weighted(r *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := r.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// beta draws from the symmetric beta distribution, as two gammas do.
func beta(r *rand.Rand, shape float64) float64 {
	x, y := gamma(r, shape), gamma(r, shape)
	return x / (x + y)
}

// gamma is the method of Marsaglia and Tsang, for shapes of 1 and more.
func gamma(r *rand.Rand, shape float64) float64 {
	d := max(shape, 1) - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := math.Pow(1+c*x, 3)
		if v > 0 && math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
