package schedule_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/schedule"
	"doorbell/poller/schedule/trace"
)

// near wants two figures to differ by no more than a part of the second.
func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if !(math.Abs(got-want) <= part*math.Abs(want)) {
		t.Errorf("%s: %.6g, want %.6g within %g %%", what, got, want, 100*part)
	}
}

func TestWithEqualRatesTheForecastIsThatOfTakingTurns(t *testing.T) {
	p := schedule.Plan{Rates: []schedule.RateCount{{PerDay: 0.25, Count: 10000}}, Budget: 5}
	for what, f := range map[string]schedule.Forecast{"index": p.Forecast(), "turns": p.Turns()} {
		near(t, what+": mean N/2B", f.Mean.Seconds(), 1000, 1e-9)
		near(t, what+": median", f.Median.Seconds(), 1000, 1e-9)
		near(t, what+": p95", f.P95.Seconds(), 1900, 1e-9)
		near(t, what+": within five minutes", f.WithinFive, 300.0/2000, 1e-9)
		near(t, what+": within one", f.WithinOne, 60.0/2000, 1e-9)
		near(t, what+": mean age", f.MeanAge.Seconds(), 1000, 1e-9)
		near(t, what+": oldest", f.Oldest.Seconds(), 2000, 1e-9)
		near(t, what+": polls", f.Polls, 5, 1e-9)
	}
}

func TestWithoutLimitsTheMeanIsTheLeastThatIsPossible(t *testing.T) {
	rates := []schedule.RateCount{{PerDay: 40, Count: 100}, {PerDay: 2, Count: 1000}, {PerDay: 0.2, Count: 5000}}
	p := schedule.Plan{Rates: rates, Budget: 3, Staleness: 1000 * time.Hour}
	roots, sum := 0.0, 0.0
	for _, r := range rates {
		roots += r.Count * math.Sqrt(r.PerDay/86400)
		sum += r.Count * r.PerDay / 86400
	}
	f := p.Forecast()
	near(t, "mean (Σ√λ)²/2BΣλ", f.Mean.Seconds(), roots*roots/(2*3*sum), 1e-8)
	near(t, "polls", f.Polls, 3, 1e-9)
	near(t, "mean of turns", p.Turns().Mean.Seconds(), 6100/(2*3.0), 1e-9)
}

func TestTheIntervalLeavesRequestsUnspentAndTheCapTakesSome(t *testing.T) {
	p := schedule.Plan{Rates: []schedule.RateCount{{PerDay: 1, Count: 4}, {PerDay: 0, Count: 4}}, Budget: 5, Interval: 30 * time.Second}
	f := p.Forecast()
	near(t, "polls", f.Polls, 8/30.0, 1e-9)
	near(t, "oldest", f.Oldest.Seconds(), 30, 1e-9)
	near(t, "mean", f.Mean.Seconds(), 15, 1e-9)

	p = schedule.Plan{Rates: []schedule.RateCount{{PerDay: 100, Count: 10}, {PerDay: 0, Count: 1000}}, Budget: 1, Staleness: 30 * time.Minute}
	f = p.Forecast()
	near(t, "oldest", f.Oldest.Seconds(), 1800, 1e-6)
	near(t, "polls", f.Polls, 1, 1e-9)
	near(t, "mean", f.Mean.Seconds(), 0.5*10/(1-1000/1800.0), 1e-3) // what the cap leaves is spent on the ten
	p.Staleness = 10 * time.Minute
	if f := p.Forecast(); f.Oldest.Round(time.Millisecond) != 1010*time.Second || f.Mean != p.Turns().Mean {
		t.Errorf("a cap that cannot be held leads to %+v", f)
	}
	near(t, "budget of the cap", p.NeededForStaleness(p.Staleness), 1010/600.0, 1e-9)
	p.Walks = 0.5
	near(t, "budget of the cap and walks", p.NeededForStaleness(p.Staleness), 1010/600.0+0.5, 1e-9)
	p.Walks = 10
	near(t, "budget of the cap and a third for walks", p.NeededForStaleness(p.Staleness), 1.5*1010/600.0, 1e-9)
}

func TestACapBelowTheIntervalLowersIt(t *testing.T) {
	for _, tt := range []struct{ interval, staleness, want time.Duration }{
		{30 * time.Second, 0, 30 * time.Second},
		{30 * time.Second, time.Minute, 30 * time.Second},
		{30 * time.Second, 10 * time.Second, 9 * time.Second},
		{time.Hour, 1<<63 - 1, time.Hour},
	} {
		if got := schedule.CapLowers(tt.interval, tt.staleness); got != tt.want {
			t.Errorf("%v under a cap of %v is %v, want %v", tt.interval, tt.staleness, got, tt.want)
		}
	}
	p := schedule.Plan{Rates: trace.Rates(8), Budget: 5, Interval: 30 * time.Second, Staleness: 10 * time.Second}
	if f := p.Forecast(); f.Oldest != 9*time.Second {
		t.Errorf("the oldest is %v", f.Oldest)
	}
}

func TestWalksGetAThirdWhilePollsWaitAndTheRestWhereTheyDoNot(t *testing.T) {
	p := schedule.Plan{Rates: trace.Rates(10000), Budget: 3, Walks: 2, Interval: 30 * time.Second}
	f := p.Forecast()
	near(t, "walks of a busy schedule", f.Walks, 1, 1e-9)
	near(t, "polls of a busy schedule", f.Polls, 2, 1e-9)
	p.Rates = trace.Rates(3)
	f = p.Forecast()
	near(t, "walks of an idle schedule", f.Walks, 2, 1e-9)
	near(t, "polls of an idle schedule", f.Polls, 0.1, 1e-9)
	if f := (schedule.Plan{Budget: 3, Walks: 2}).Forecast(); f != (schedule.Forecast{Walks: 2}) {
		t.Errorf("without insertions the forecast is %+v", f)
	}
}

func TestTheBudgetNeededIsTheLeastThatIsEnough(t *testing.T) {
	p := schedule.Plan{Rates: trace.Rates(10000), Walks: 0.5, Interval: 30 * time.Second}
	for _, wished := range []time.Duration{5 * time.Minute, 20 * time.Second} {
		budget, ok := p.Needed(wished)
		if !ok {
			t.Fatalf("%v cannot be reached", wished)
		}
		q := p
		q.Budget = budget * 1.000001
		if got := q.Forecast().Mean; got > wished {
			t.Errorf("%g requests/s lead to %v, more than %v", budget, got, wished)
		}
		q.Budget = budget * 0.999
		if got := q.Forecast().Mean; got <= wished {
			t.Errorf("%v is reached with less than %g requests/s: %v", wished, budget, got)
		}
	}
	if budget, ok := p.Needed(14 * time.Second); ok {
		t.Errorf("%g requests/s are said to beat half of the interval", budget)
	}
	if budget, ok := (schedule.Plan{}).Needed(time.Second); !ok || budget > 1e-6 {
		t.Errorf("without insertions %g requests/s are needed", budget)
	}
}

func TestAForecastIsTotal(t *testing.T) {
	odd := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, -1, 0.25, 1e-300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}))
	rapid.Check(t, func(rt *rapid.T) {
		p := schedule.Plan{
			Budget: odd.Draw(rt, "budget"), Walks: odd.Draw(rt, "walks"),
			Interval: time.Duration(rapid.Int64().Draw(rt, "interval")), Staleness: time.Duration(rapid.Int64().Draw(rt, "staleness")),
		}
		for range rapid.IntRange(0, 5).Draw(rt, "groups") {
			p.Rates = append(p.Rates, schedule.RateCount{PerDay: odd.Draw(rt, "rate"), Count: odd.Draw(rt, "count")})
		}
		f, turns := p.Forecast(), p.Turns()
		for _, f := range []schedule.Forecast{f, turns} {
			for _, d := range []time.Duration{f.Mean, f.Median, f.P95, f.MeanAge, f.Oldest} {
				if d < 0 || d > f.Oldest {
					rt.Fatalf("a duration of %v in %+v", d, f)
				}
			}
			for _, v := range []float64{f.WithinOne, f.WithinFive} {
				if !(v >= 0 && v <= 1+1e-9) {
					rt.Fatalf("a share of %v in %+v", v, f)
				}
			}
			if !(f.Polls >= 0 && f.Walks >= 0) || f.Median > f.P95 || f.WithinOne > f.WithinFive {
				rt.Fatalf("%+v", f)
			}
		}
		if float64(f.Mean) > float64(turns.Mean)*(1+1e-9)+1 && p.Staleness <= 0 {
			rt.Fatalf("%v is worse than %v of taking turns", f.Mean, turns.Mean)
		}
		wished := time.Duration(rapid.Int64().Draw(rt, "wished"))
		if budget, ok := p.Needed(wished); ok != (budget > 0) || budget > 1e9 {
			rt.Fatalf("%v takes %v requests/s, %v", wished, budget, ok)
		}
		if needed := p.NeededForStaleness(wished); !(needed >= 0) {
			rt.Fatalf("a cap of %v takes %v requests/s", wished, needed)
		}
	})
}

// TestTheForecastIsWhatPollingByTheIndexGives asks, at each turn, the insertion whose λa²/2 is the largest of those that
// may be asked, one beyond the cap first, and counts how long made-up contact requests wait.
func TestTheForecastIsWhatPollingByTheIndexGives(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit schedule.Plan
		days  float64
	}{
		{"busy", schedule.Plan{Budget: 0.1}, 6},
		{"with an interval", schedule.Plan{Budget: 1, Interval: 5 * time.Minute}, 1},
		{"with a cap", schedule.Plan{Budget: 0.1, Staleness: 90 * time.Minute}, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.limit
			p.Rates = []schedule.RateCount{{PerDay: 60, Count: 10}, {PerDay: 10, Count: 40}, {PerDay: 1, Count: 150}, {PerDay: 0.1, Count: 200}}
			got, want := pollByIndex(p, tt.days*86400), p.Forecast()
			near(t, "mean", got.mean, want.Mean.Seconds(), 0.03)
			near(t, "median", got.median, want.Median.Seconds(), 0.04)
			near(t, "p95", got.p95, want.P95.Seconds(), 0.05)
			near(t, "within five minutes", got.five, want.WithinFive, 0.04)
			near(t, "mean age", got.age, want.MeanAge.Seconds(), 0.03)
			near(t, "oldest", got.oldest, want.Oldest.Seconds(), 0.05)
			near(t, "polls", got.polls, want.Polls, 0.02)
		})
	}
}

type observed struct{ mean, median, p95, five, age, oldest, polls float64 }

func pollByIndex(p schedule.Plan, until float64) (o observed) {
	var rates, last []float64
	for _, r := range p.Rates {
		for range int(r.Count) {
			rates, last = append(rates, r.PerDay/86400), append(last, 0)
		}
	}
	most := p.Staleness.Seconds()
	if most == 0 {
		most = 4 * float64(len(rates)) / p.Budget
	}
	for i := range last {
		last[i] = -most * math.Mod(float64(i)*math.Phi, 1) // spread, else they reach the cap together for ever
	}
	var latencies []latency
	begin := until / 3
	for now := 0.0; now < until; now += 1 / p.Budget {
		best, worth := -1, 0.0
		for i, at := range last {
			age := now - at
			w := rates[i] * age * age / 2
			if age > most-float64(len(rates))/p.Budget/100 {
				w = math.Inf(1)
			}
			if age >= p.Interval.Seconds() && w > worth {
				best, worth = i, w
			}
		}
		if best < 0 {
			continue
		}
		age := now - last[best]
		last[best] = now
		if now < begin {
			continue
		}
		o.polls++
		o.age += age * age / 2
		o.oldest = max(o.oldest, age)
		latencies = append(latencies, latency{age, rates[best]})
	}
	o.polls /= until - begin
	o.age /= (until - begin) * float64(len(rates))
	o.sum(latencies)
	return o
}

// latency is an interval between two polls, in which contact requests came evenly.
type latency struct{ interval, rate float64 }

func (o *observed) sum(all []latency) {
	total := 0.0
	for _, l := range all {
		total += l.rate * l.interval
		o.mean += l.rate * l.interval * l.interval / 2
	}
	o.mean /= total
	found := func(x float64) (share float64) {
		for _, l := range all {
			share += l.rate * min(l.interval, x)
		}
		return share / total
	}
	quantile := func(q float64) float64 {
		low, high := 0.0, o.oldest
		for range 50 {
			if middle := (low + high) / 2; found(middle) < q {
				low = middle
			} else {
				high = middle
			}
		}
		return high
	}
	o.median, o.p95, o.five = quantile(0.5), quantile(0.95), found(300)
}

// TestTheRatesThatAPlanAssumesAreThoseOfTheMarket counts the insertions of a trace by their rates.
func TestTheRatesThatAPlanAssumesAreThoseOfTheMarket(t *testing.T) {
	made := map[int]float64{}
	sample, sum, roots := 0.0, 0.0, 0.0
	simulated := trace.New(trace.Market{Seed: 1, Insertions: 60_000, Span: time.Hour})
	for n := range simulated.Insertions {
		i := &simulated.Insertions[n]
		if i.Born > 0 || i.Gone <= 0 {
			continue
		}
		rate := i.Rate(0)
		made[octave(rate)]++
		sample++
		sum += rate
		roots += math.Sqrt(rate)
	}
	saidSum, saidRoots, count := 0.0, 0.0, 0.0
	for _, r := range trace.Rates(sample) {
		if got := made[octave(r.PerDay)]; math.Abs(got-r.Count) > 5*math.Sqrt(r.Count)+3 {
			t.Errorf("rates of 2^%d a day: %.0f of %.0f, %.0f are said", octave(r.PerDay), got, sample, r.Count)
		}
		saidSum += r.Count * r.PerDay
		saidRoots += r.Count * math.Sqrt(r.PerDay)
		count += r.Count
	}
	near(t, "insertions", count, 60_000, 1e-9)
	near(t, "contact requests", saidSum, sum, 0.08) // a few of them weigh much
	near(t, "gain over taking turns", count*saidSum/saidRoots/saidRoots, sample*sum/roots/roots, 0.06)
}

func octave(rate float64) int { return int(math.Floor(math.Log2(rate))) }
