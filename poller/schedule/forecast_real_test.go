package schedule_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// TestTheForecastOfLearnedRatesIsWhatTheScheduleReaches lets a schedule poll insertions whose rates never change, and holds
// what it reaches against two forecasts: one that was told the rates, and one of what the schedule has learned of them.
func TestTheForecastOfLearnedRatesIsWhatTheScheduleReaches(t *testing.T) {
	p := schedule.Plan{
		Rates: []schedule.RateCount{{PerDay: 24, Count: 10}, {PerDay: 3, Count: 60}, {PerDay: 0.3, Count: 230}}, Budget: 0.05, Interval: time.Minute,
	}
	e := newEternal(p, 40*24*time.Hour)
	mean, five := e.run(20 * 24 * time.Hour)
	told := p.Forecast()
	near(t, "mean, of a forecast that was told the rates", told.Mean.Seconds(), mean, 0.1)
	near(t, "mean of turns is twice as long", p.Turns().Mean.Seconds(), 1.8*mean, 0.1)
	var learned float64
	p.Rates, learned = e.schedule.Rates(e.agency)
	count := 0.0
	for _, r := range p.Rates {
		count += r.Count
	}
	if count != 300 || learned < 5000 {
		t.Errorf("%g insertions, learned from %g contact requests", count, learned)
	}
	own := p.Forecast()
	near(t, "mean, of a forecast of learned rates", own.Mean.Seconds(), mean, 0.12)
	near(t, "within five minutes", own.WithinFive, five, 0.1)
}

// eternal are insertions that are there for ever, and get contact requests at rates that never change.
type eternal struct {
	schedule *schedule.Schedule
	agency   schedule.Agency
	every    time.Duration
	end      time.Time
	coming   map[schedule.Insertion][]time.Time
}

func newEternal(p schedule.Plan, span time.Duration) *eternal {
	s := schedule.New(schedule.Options{Budget: p.Budget, Interval: p.Interval})
	e := &eternal{
		schedule: s, agency: s.Enter(nil), every: time.Duration(1e9 / p.Budget), end: epoch.Add(span), coming: map[schedule.Insertion][]time.Time{},
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for _, r := range p.Rates {
		mean := 24 * float64(time.Hour) / r.PerDay
		for range int(r.Count) {
			i := s.Add(e.agency, schedule.Memory{Born: epoch.Add(-14 * 24 * time.Hour)}, epoch)
			for at := epoch.Add(-14 * 24 * time.Hour); at.Before(e.end); at = at.Add(time.Duration(draw.ExpFloat64() * mean)) {
				e.coming[i] = append(e.coming[i], at)
			}
		}
	}
	return e
}

// run polls to the end, and returns the mean latency of contact requests that came after a warm-up, in seconds, and the
// share that was found within five minutes.
func (e *eternal) run(warmUp time.Duration) (mean, five float64) {
	found := 0.0
	for now := epoch; now.Before(e.end); now = now.Add(e.every) {
		turn, _ := e.schedule.Next(now)
		switch turn.Why {
		case schedule.None:
			continue
		case schedule.Walk:
			e.schedule.Read(e.agency, 0, 1, now)
			continue
		}
		list := e.coming[turn.Insertion]
		n := 0
		for ; n < len(list) && !list[n].After(now); n++ {
			if list[n].Sub(epoch) < warmUp {
				continue
			}
			found++
			mean += now.Sub(list[n]).Seconds()
			if now.Sub(list[n]) <= 5*time.Minute {
				five++
			}
		}
		e.schedule.Polled(turn.Insertion, now, list[:n])
		e.coming[turn.Insertion] = list[n:]
	}
	return mean / found, five / found
}
