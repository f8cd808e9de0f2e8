package schedule_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// The market that judges the schedule is fitted to public figures, not to anyone's data. It is seeded,
// and knows nothing of the schedule, nor the schedule of it but what a request shows. A request
// takes no time and none fails. Numbers of time are days.
const (
	day        = 24 * time.Hour
	lifeSpread = 0.9  // sigma of the lognormal lifetimes
	attraction = 1.4  // sigma of the lognormal attractiveness, whose mean is 1
	topShare   = 0.08 // of the insertions
	topFactor  = 3.0  // get this many times more
	liftEvery  = 30.0 // an insertion is lifted to the top of the results at these ages
	liftPeak   = 3.0  // by so much more than its rate, fading within a day
	offspring  = 0.15 // contact requests that one brings about, two hours later on average
	decayScale = 1.5  // the rate falls with age as (1 + age/1.5)^−0.8
	decayPower = 0.8
	warmUp     = 1.0
)

var (
	medianLife = [2]float64{20, 75}   // of rentals and of sales
	atFirst    = [2]float64{2.0, 0.7} // contact requests a day at age 0
	weekdays   = [7]float64{15.5, 16.2, 15.5, 14.8, 13.3, 11.2, 13.5}
	hours      = [24]float64{
		1.3, .7, .5, .4, .5, .9, 2.0, 3.6, 5.0, 5.8, 6.0, 5.7,
		6.1, 5.6, 5.6, 5.9, 6.5, 6.5, 6.0, 5.6, 6.1, 6.2, 4.5, 3.0,
	}
	epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
)

// hour is how many times more contact requests than on average come at a moment, heaviest how many
// at most.
func hour(at float64) float64 {
	h := int(math.Floor(at * 24))
	return weekdays[((h/24)%7+7)%7] * 7 / 100 * hours[(h%24+24)%24] * 24 / 100
}

const heaviest = 16.2 * 7 / 100 * 6.5 * 24 / 100

// ad is an insertion of the market, from its birth until it is gone, with the moments of its
// contact requests.
type ad struct {
	name       string
	born, gone float64
	rate       float64 // contact requests a day at age 0, without those that others bring about
	leads      []float64

	last          float64 // poll
	next          int     // of leads: the first that was not found yet
	polled, ended bool
}

func decay(age float64) float64 { return math.Pow(1+max(age, 0)/decayScale, -decayPower) }

// rateAt is how many contact requests a day come at a moment, whatever the hour.
func (a *ad) rateAt(at float64) float64 {
	age, rate := at-a.born, a.rate*decay(at-a.born)/(1-offspring)
	if age > liftEvery {
		rate *= 1 + liftPeak*math.Exp(-math.Mod(age, liftEvery))
	}
	return rate
}

// slot is a place in the list: the insertions that hold it, one after the other, until a moment.
func slot(seed uint64, n int, until float64) (ads []*ad) {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	kind := n % 100 / 50
	lifetime := func(median float64) float64 {
		return min(max(median*math.Exp(lifeSpread*r.NormFloat64()), 0.25), 1000)
	}
	// One that is there at the beginning is found rather by its length: a long life covers more
	// moments than a short one.
	life := lifetime(medianLife[kind] * math.Exp(lifeSpread*lifeSpread))
	for born := -life * r.Float64(); born < until; life = lifetime(medianLife[kind]) {
		rate := (1 - offspring) * atFirst[kind]
		rate *= math.Exp(attraction*r.NormFloat64() - attraction*attraction/2)
		if r.Float64() < topShare {
			rate *= topFactor
		}
		name := strconv.Itoa(n) + "#" + strconv.Itoa(len(ads))
		one := &ad{name: name, born: born, gone: born + life, rate: rate}
		one.attract(r, min(one.gone, until))
		ads = append(ads, one)
		born = one.gone
	}
	return ads
}

// attract makes the contact requests of an insertion.
func (a *ad) attract(r *rand.Rand, end float64) {
	come := func(at, likely float64) {
		if at < end && r.Float64()*heaviest < likely*hour(at) {
			a.leads = append(a.leads, at)
		}
	}
	// The integral of the decay, turned round, gives the moments of a falling rate, as if all hours
	// were the heaviest.
	sum, power := 0.0, 1-decayPower
	for at := a.born; at < end; {
		sum += r.ExpFloat64() / (a.rate * heaviest)
		at = a.born + decayScale*(math.Pow(1+sum*power/decayScale, 1/power)-1)
		come(at, 1)
	}
	for lift := liftEvery; a.born+lift < end; lift += liftEvery {
		left := a.rate*decay(lift)*liftPeak*heaviest - r.ExpFloat64()
		for ; left > 0; left -= r.ExpFloat64() {
			age := lift + r.ExpFloat64()
			come(a.born+age, decay(age)/decay(lift))
		}
	}
	for k := 0; k < len(a.leads); k++ {
		for left := offspring - r.ExpFloat64(); left > 0; left -= r.ExpFloat64() {
			if at := a.leads[k] + r.ExpFloat64()/12; at < end {
				a.leads = append(a.leads, at)
			}
		}
	}
	slices.Sort(a.leads)
}

// market is a run of the schedule against one market.
type market struct {
	seed             uint64
	insertions, days int
	perSecond        float64

	schedule *schedule.Schedule
	slots    [][]*ad
	shown    []int // by slot: which of its insertions the list showed last; -1: none
	byName   map[string]*ad
	end, cap float64

	mean, oracle, turns float64 // latency, in minutes
	p95                 float64
	missed              int
	oldest              float64 // longest that an insertion waited
}

func moment(at float64) time.Time { return epoch.Add(time.Duration(at * float64(day))) }

func (m *market) run() {
	m.cap = 4 * float64(m.insertions) / m.perSecond / 86400
	m.end = warmUp + float64(m.days)
	for n := range m.insertions {
		m.slots, m.shown = append(m.slots, slot(m.seed, n, m.end+m.cap)), append(m.shown, -1)
	}
	m.schedule, m.byName = schedule.New(schedule.Options{Rate: m.perSecond}, epoch), map[string]*ad{}
	size := max(m.insertions/100, 1) // of a page
	for n := range m.slots {
		m.list(n, 0)
	}
	gap, every := 1/m.perSecond/86400, m.sweep()/100 // a page of the list is due
	var latencies []float64
	for now, walked, page := gap, 0.0, 0; now < m.end+m.cap; now += gap {
		if now-walked > every {
			walked, page = now, (page+1)%100
			for n := page * size; n < min((page+1)*size, m.insertions); n++ {
				m.list(n, now)
			}
			continue
		}
		turn, _ := m.schedule.Next(moment(now))
		if turn == schedule.None {
			continue
		}
		a := m.byName[turn.Reference]
		m.oldest = max(m.oldest, now-a.last)
		a.last = now
		var created []time.Time
		for ; a.next < len(a.leads) && a.leads[a.next] <= now; a.next++ {
			if at := a.leads[a.next]; at >= warmUp && at < m.end {
				latencies = append(latencies, (now-at)*1440)
			}
			created = append(created, moment(a.leads[a.next]))
		}
		if !a.polled {
			created = created[max(0, len(created)-100):]
		}
		a.polled = true
		m.schedule.Polled("A100", turn.Reference, moment(now), created)
		if a.ended {
			m.schedule.Remove("A100", turn.Reference)
			delete(m.byName, turn.Reference)
		}
	}
	for _, a := range m.byName {
		m.oldest = max(m.oldest, m.end+m.cap-a.last)
		for _, at := range a.leads[a.next:] {
			if at >= warmUp && at < m.end {
				m.missed++
			}
		}
	}
	for _, l := range latencies {
		m.mean += l / float64(len(latencies))
	}
	slices.Sort(latencies)
	m.p95 = latencies[len(latencies)*95/100]
	m.judge(1 / every / 86400)
}

// list shows a slot of the list: what is new in it, and what it shows no longer, is urgent.
func (m *market) list(n int, now float64) {
	k := m.shown[n]
	if k >= 0 && m.slots[n][k].gone > now {
		return
	}
	appeared := time.Time{}
	if k >= 0 {
		before := m.slots[n][k]
		before.ended, appeared = true, moment(now)
		m.schedule.Urge("A100", before.name)
	}
	for k++; m.slots[n][k].gone <= now; k++ {
	}
	m.shown[n] = k
	a := m.slots[n][k]
	a.last, m.byName[a.name] = now, a
	m.schedule.Add("A100", a.name, appeared, time.Time{}, moment(now))
	if !appeared.IsZero() {
		m.schedule.Urge("A100", a.name)
	}
}

// sweep is how often the whole list is worth being read for what appears there: when a page of it
// gains as much as a poll.
func (m *market) sweep() float64 {
	roots, rate, span := 0.0, 0.0, m.end+m.cap
	for _, ads := range m.slots {
		roots += math.Sqrt(ads[0].rateAt(0))
		for _, a := range ads[1:] {
			rate += a.rateAt(a.born)
		}
	}
	budget := m.perSecond * 86400
	return math.Cbrt(3 * roots * roots / (2 * budget * budget) / (rate / 100 / span))
}

// judge computes what taking turns and a schedule that knows the true rates need, four times a day.
func (m *market) judge(walks float64) {
	polls := 86400 * max(m.perSecond-walks, m.perSecond*2/3)
	weight := 0.0
	for at := warmUp; at < m.end; at += 0.25 {
		var rates []float64
		sum, fastest := 0.0, 0.0
		for _, ads := range m.slots {
			for _, a := range ads {
				if a.born <= at && at < a.gone {
					rates = append(rates, a.rateAt(at))
					sum, fastest = sum+a.rateAt(at), max(fastest, a.rateAt(at))
				}
			}
		}
		every := func(price, rate float64) float64 { return min(price/math.Sqrt(rate), m.cap) }
		low, high := 0.0, m.cap*math.Sqrt(fastest)
		for range 60 {
			price, spent := (low+high)/2, 0.0
			for _, rate := range rates {
				spent += 1 / every(price, rate)
			}
			if spent > polls {
				low = price
			} else {
				high = price
			}
		}
		oracle := 0.0
		for _, rate := range rates {
			oracle += rate * every(high, rate) / 2 / sum
		}
		weight += sum
		m.oracle += (1440*oracle - m.oracle) * sum / weight
		m.turns += (720*float64(len(rates))/polls - m.turns) * sum / weight
	}
}

// figures are what five markets show on average.
type figures struct{ mean, p95, turns, oracle, better, against float64 }

func judged(tb testing.TB, insertions, days int) (f figures) {
	tb.Helper()
	for seed := uint64(1); seed <= 5; seed++ {
		m := market{seed: seed, insertions: insertions, days: days}
		m.perSecond = float64(insertions) / 2000
		m.run()
		tb.Logf("seed %d: mean %.2f min, p95 %.1f; turns %.2f, oracle %.2f: %.2f × better, %.3f × oracle",
			seed, m.mean, m.p95, m.turns, m.oracle, m.turns/m.mean, m.mean/m.oracle)
		if m.missed > 0 || m.oldest > m.cap {
			tb.Errorf("seed %d: %d contact requests never found, an insertion waited %.2f of the cap",
				seed, m.missed, m.oldest/m.cap)
		}
		for to, x := range map[*float64]float64{
			&f.mean: m.mean, &f.p95: m.p95, &f.turns: m.turns, &f.oracle: m.oracle,
			&f.better: m.turns / m.mean, &f.against: m.mean / m.oracle,
		} {
			*to += x / 5
		}
	}
	if f.better < 2 || f.against > 1.22 {
		tb.Errorf("%.2f × better than turns, want 2.0; %.3f × the oracle, want 1.22",
			f.better, f.against)
	}
	return f
}

// TestTheMarketIsServedTwiceAsFastAsInTurns judges a tenth of the insertions with a tenth of the
// requests.
func TestTheMarketIsServedTwiceAsFastAsInTurns(t *testing.T) { judged(t, 1000, 7) }

// BenchmarkMarket prints latencies in minutes, for 10,000 insertions and five requests a second
// over two weeks.
func BenchmarkMarket(b *testing.B) {
	for b.Loop() {
		f := judged(b, 10_000, 14)
		b.ReportMetric(f.mean, "mean")
		b.ReportMetric(f.p95, "p95")
		b.ReportMetric(f.turns, "turns")
		b.ReportMetric(f.oracle, "oracle")
		b.ReportMetric(f.better, "×better")
		b.ReportMetric(f.against, "×oracle")
	}
}
