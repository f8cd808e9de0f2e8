package schedule

import (
	"maps"
	"math"
	"slices"
	"time"
)

// RateCount is a number of insertions that get contact requests at the same rate.
type RateCount struct {
	PerDay float64 `json:"perDay"` // contact requests a day of each
	Count  float64 `json:"count"`  // insertions; an expectation need not be whole
}

// Plan is what a forecast is made of. Everything in it may be odd; a forecast takes the nearest that makes sense.
type Plan struct {
	Rates     []RateCount
	Budget    float64       // requests per second that may be spent on everything
	Walks     float64       // requests per second that walks wish for; while polls wait they get at most a third
	Interval  time.Duration // least time between two polls of one insertion
	Staleness time.Duration // the cap; 0: as in Options. A lower one lowers Interval
	Answer    time.Duration // that polls take to be answered
	AtOnce    int           // polls that may wait for answers at a time; 0: any number
}

// Forecast is what may be expected of a Plan, as long as rates stay what they are. Latency is that of a contact request,
// from its creation to the answer that shows it. An insertion is not polled while it is being asked, and an answer is
// taken to show what was true when half of its time had passed.
type Forecast struct {
	Mean, Median, P95 time.Duration
	WithinOne         float64       // share of the contact requests that are found within a minute
	WithinFive        float64       // and within five
	MeanAge           time.Duration // how long ago an insertion was polled
	Oldest            time.Duration // and at most
	Polls, Walks      float64       // requests per second that are spent
}

// Limits of what is believed. The least rate is that of the schedule: nothing is never asked.
const (
	leastRate, mostRate     = 1e-5, 1e6 // contact requests a day
	leastBudget, mostBudget = 1e-6, 1e9 // requests a second
	mostCount               = 1e15
	leastInterval           = 1e-6 // seconds
)

// walkShare is the part of the budget that walks get at most while polls wait.
const walkShare = 1.0 / 3

// CapLowers is the interval between two polls under a cap: one that is not well below the cap would use up the time in
// which the poll can be made.
func CapLowers(interval, staleness time.Duration) time.Duration {
	if staleness <= 0 {
		return interval
	}
	return min(interval, staleness/10*9+staleness%10*9/10)
}

// Forecast is what the schedule may be expected to reach when it knows the rates: all insertions at one price, as [every] has
// it. What it has to learn costs it a little more.
func (p Plan) Forecast() Forecast { return p.load().forecast() }

// Turns is what taking turns may be expected to reach with the same budget: all at the same interval.
func (p Plan) Turns() Forecast {
	l := p.load()
	l.interval = max(l.interval, l.n/l.polls)
	l.cap = l.interval
	return l.forecast()
}

// Needed is the least budget with which the mean latency is at most a wished one. False: no budget brings it there, as Interval
// stands in its way.
func (p Plan) Needed(wished time.Duration) (float64, bool) {
	tooSlow := func(budget float64) bool {
		p.Budget = budget
		return p.Forecast().Mean > wished
	}
	if tooSlow(mostBudget) {
		return 0, false
	}
	return bisect(leastBudget, mostBudget, tooSlow), true
}

// NeededForStaleness is the least budget with which no insertion waits longer than a cap.
func (p Plan) NeededForStaleness(staleness time.Duration) float64 {
	l := p.load()
	polls := l.n / max(staleness.Seconds(), 1e-9)
	return min(polls+l.wished, polls/(1-walkShare))
}

// load is a Plan made sane, in seconds.
type load struct {
	rates         []RateCount // per second
	n             float64     // insertions
	total         float64     // contact requests per second
	least, most   float64     // rates
	budget        float64
	wished        float64 // by walks
	polls         float64 // the part of the budget that polls may have
	interval, cap float64
	answer        float64
}

func (p Plan) load() load {
	l := load{budget: within(p.Budget, leastBudget, mostBudget), wished: within(p.Walks, 0, mostBudget), least: math.Inf(1)}
	for _, r := range p.Rates {
		r = RateCount{within(r.PerDay, leastRate, mostRate) / day, within(r.Count, 0, mostCount)}
		if r.Count == 0 {
			continue
		}
		l.rates = append(l.rates, r)
		l.n += r.Count
		l.total += r.Count * r.PerDay
		l.least, l.most = min(l.least, r.PerDay), max(l.most, r.PerDay)
	}
	l.polls = max(l.budget-l.wished, l.budget*(1-walkShare))
	if l.answer = within(p.Answer.Seconds(), 0, mostBudget); p.AtOnce > 0 && l.answer > 0 {
		l.polls = min(l.polls, float64(p.AtOnce)/l.answer)
	}
	turns := l.n / l.polls
	l.interval = max(CapLowers(p.Interval, p.Staleness).Seconds(), leastInterval) + l.answer
	l.cap = l.interval + 4*l.n/l.budget
	if p.Staleness > 0 {
		l.cap = p.Staleness.Seconds()
	}
	l.cap = max(l.cap, turns, l.interval)
	return l
}

// within is v between two limits; the lower one for what is no number.
func within(v, low, high float64) float64 {
	if !(v > low) {
		return low
	}
	return min(v, high)
}

// every is the square-root rule: how long after a poll of an insertion the next one is due. S is in seconds or nanoseconds, as
// the others are.
func every(s, rate, interval, cap float64) float64 {
	return max(min(s/math.Sqrt(rate), cap), interval)
}

// price is the least S that the polls can pay: above it requests would be left over, below it they do not suffice.
func (l load) price() float64 {
	return bisect(l.interval*math.Sqrt(l.least), l.cap*math.Sqrt(l.most), func(s float64) bool { return l.spent(s) > l.polls })
}

// every is how long after a poll of an insertion the next one is due.
func (l load) every(s, rate float64) float64 { return every(s, rate, l.interval, l.cap) }

func (l load) spent(s float64) (polls float64) {
	for _, r := range l.rates {
		polls += r.Count / l.every(s, r.PerDay)
	}
	return polls
}

// forecast sums up over all insertions. A contact request comes at any moment between two polls, so its latency is even
// between half an answer and that and the interval.
func (l load) forecast() (f Forecast) {
	if l.n > 0 {
		s := l.price()
		var mean, age, oldest float64
		for _, r := range l.rates {
			t := l.every(s, r.PerDay)
			mean += r.Count * r.PerDay * (t + l.answer) / 2
			age += r.Count * t / 2
			oldest = max(oldest, t)
		}
		found := func(seconds float64) (share float64) {
			for _, r := range l.rates {
				share += r.Count * r.PerDay * min(max(seconds-l.answer/2, 0)/l.every(s, r.PerDay), 1)
			}
			return share / l.total
		}
		quantile := func(q float64) time.Duration {
			return duration(bisect(leastInterval/1e3, oldest+l.answer, func(x float64) bool { return found(x) < q }))
		}
		f = Forecast{
			Mean: duration(mean / l.total), Median: quantile(0.5), P95: quantile(0.95), WithinOne: found(60), WithinFive: found(300),
			MeanAge: duration(age / l.n), Oldest: duration(oldest), Polls: l.spent(s),
		}
	}
	f.Walks = min(l.wished, max(l.budget-f.Polls, l.budget*walkShare))
	return f
}

// bisect is the least point between two positive ones at which something is no longer so, to a few parts in 10¹².
func bisect(low, high float64, so func(float64) bool) float64 {
	if !so(low) {
		return low
	}
	for high > low*(1+1e-12) {
		middle := math.Sqrt(low) * math.Sqrt(high)
		if middle <= low || middle >= high {
			break
		}
		if so(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// duration is a number of seconds, or the longest duration that there is.
func duration(seconds float64) time.Duration {
	if seconds >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(seconds * 1e9)
}

// Rates are how the rates of an agency's insertions lie, and from how many contact requests that was learned. Those that
// were never polled count as what the others are on average.
func (s *Schedule) Rates(a Agency) (rates []RateCount, learned float64) {
	g := s.agencies[a]
	count := map[float64]float64{}
	for n := range g.items {
		switch i := &g.items[n]; {
		case i.where == free:
		case i.unread:
			count[octave(g.mean())]++
		default:
			count[octave(float64(i.rate))]++
		}
	}
	for _, rate := range slices.Sorted(maps.Keys(count)) {
		rates = append(rates, RateCount{PerDay: rate, Count: count[rate]})
	}
	for _, n := range g.curve.leads {
		learned += n
	}
	return rates, learned
}

// octave is the middle of the half octave that a rate a second lies in, a day.
func octave(rate float64) float64 {
	n := math.Floor(2 * math.Log2(min(max(rate*day, leastRate), mostRate)/leastRate))
	return leastRate * math.Exp2((n+0.5)/2)
}
