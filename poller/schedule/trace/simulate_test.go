package trace

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// small is a market of two days that takes a fraction of a second, with as many requests for each insertion as 10,000 get
// of 5 a second.
func small(m Market, o Run) (*Trace, Run) {
	if m.Insertions == 0 {
		m.Insertions = 2500
	}
	m.Seed = 1
	o.Budget = float64(m.Insertions) / 2000
	o.Page = m.Insertions / 100
	if o.Measured == 0 && raced {
		o.Measured = Day
	}
	if o.Measured == 0 {
		o.Measured = 2 * Day
	}
	o.WarmUp = 8 * time.Hour
	m.Span = o.Needs(m.Insertions)
	return New(m), o
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func TestTakingTurnsFindsOneAfterHalfARound(t *testing.T) {
	tr, o := small(Market{}, Run{})
	f := o.Simulate(tr, Turns)
	left := 1 - float64(f.Walks+f.Urgents)/float64(f.Requests) // for turns
	near(t, "mean", seconds(f.Mean()), 1000/left, 25)
	near(t, "99 of 100", seconds(f.Quantile(0.99)), 1980/left, 60)
	near(t, "within five minutes", f.Within(), 0.15*left, 0.015)
	near(t, "walks", part(f.Walks, f.Requests), 0.015, 0.006)
	near(t, "a second", f.PerSecond(), o.Budget, 0.001)
	if f.Missed != 0 || f.Forced != 0 {
		t.Errorf("missed %d, forced %d", f.Missed, f.Forced)
	}
}

func part(n, of int) float64 { return float64(n) / float64(of) }

// best is what no policy that only knows the rates can beat: (Σ√λ)²/(2BΣλ).
func (t *Trace) best(at time.Duration, budget float64) float64 {
	roots, sum := 0.0, 0.0
	for i := range t.Insertions {
		if one := &t.Insertions[i]; one.Born <= at && at < one.Gone {
			rate := one.Rate(at) / Day.Seconds()
			roots, sum = roots+math.Sqrt(rate), sum+rate
		}
	}
	return roots * roots / (2 * budget * sum)
}

func TestTheOracleFindsThemAsSoonAsTheTheorySays(t *testing.T) {
	tr, o := small(Market{}, Run{})
	want, n := 0.0, 0.0
	for at := o.WarmUp; at < o.WarmUp+o.Measured; at += Day / 4 {
		want, n = want+tr.best(at, o.Budget), n+1
	}
	f := o.Simulate(tr, Oracle)
	near(t, "mean", seconds(f.Mean())/(want/n), 1, 0.08)
	capped := o.Simulate(tr, CappedOracle)
	if capped.Oldest > capped.Cap || !capped.Kept() {
		t.Errorf("oldest %s, cap %s", capped.Oldest, capped.Cap)
	}
	near(t, "the cap costs", seconds(capped.Mean())/seconds(f.Mean()), 1, 0.1)
}

func TestProportionHasTheMeanOfTakingTurnsAndALongTail(t *testing.T) {
	tr, o := small(Market{}, Run{})
	turns, f := o.Simulate(tr, Turns), o.Simulate(tr, Proportional)
	near(t, "mean", seconds(f.Mean())/seconds(turns.Mean()), 1, 0.2)
	if f.Quantile(0.99) < 4*turns.Quantile(0.99) || f.Oldest < 2*f.Mean() {
		t.Errorf("99 of 100 within %s, %s with turns", f.Quantile(0.99), turns.Quantile(0.99))
	}
}

func TestWithEqualRatesNothingBeatsTakingTurns(t *testing.T) {
	tr, o := small(Market{Equal: true}, Run{Measured: 2 * Day}) // in a day one learns too little
	turns := o.Simulate(tr, Turns)
	near(t, "oracle", seconds(o.Simulate(tr, Oracle).Mean())/seconds(turns.Mean()), 1, 0.03)
	near(t, "doorbell", seconds(o.Simulate(tr, Real).Mean())/seconds(turns.Mean()), 1.1, 0.2)
}

func TestEqualRunsHaveEqualFigures(t *testing.T) {
	tr, o := small(Market{Insertions: 1000}, Run{Records: Records{Recall: 0.5, Edits: 1}})
	for _, p := range []Policy{Turns, Oracle, Real} {
		a, b := o.Simulate(tr, p), o.Simulate(tr, p)
		a.Spent, b.Spent = 0, 0
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%v: two runs of one trace differ", p)
		}
	}
}

func TestMoreThanTheBudgetInASecondIsNoticed(t *testing.T) {
	tr, o := small(Market{Insertions: 1000}, Run{})
	o.Budget = 3
	s := &simulation{Run: o, t: tr, f: &Figures{Tightest: math.MaxInt64, Agencies: make([]Share, 1)}, sent: make([]time.Duration, 3)}
	for _, at := range []time.Duration{0, 300, 600, 1000, 1300} {
		s.send(0, at*time.Millisecond)
	}
	if !s.f.Kept() {
		t.Errorf("three a second are more than three a second: %s", s.f.Tightest)
	}
	s.send(0, 1599*time.Millisecond)
	if s.f.Kept() {
		t.Errorf("four in less than a second are not: %s", s.f.Tightest)
	}
}

func TestAnInsertionThatWaitsTooLongIsNoticed(t *testing.T) {
	tr, o := small(Market{Insertions: 1000}, Run{})
	f := o.Simulate(tr, Proportional)
	f.Cap, f.Missed = o.withDefaults(tr).Cap, 0
	if f.Kept() {
		t.Errorf("oldest %s, cap %s", f.Oldest, f.Cap)
	}
}

func TestRecordsTellWhatTheyAreToldToTell(t *testing.T) {
	tr, _ := small(Market{Insertions: 1000}, Run{})
	count := func(o Records) (members [3]int, came int) {
		r := newRecords(tr, o)
		i := tr.slots[0]
		for tr.Insertions[i].last-tr.Insertions[i].first < 20 {
			i++
		}
		tr.Insertions[i].Born = min(tr.Insertions[i].Born, -1)
		slot := int(tr.Insertions[i].slot)
		from := tr.Leads[tr.Insertions[i].first] - 1
		r.appear(slot, i, from)
		for at := from; at < tr.Span; at += time.Minute {
			changed := r.changed(slot, i, at)
			for m := range members {
				members[m] += int(changed >> m & 1)
			}
		}
		return members, int(tr.Insertions[i].last - tr.Insertions[i].first)
	}
	if got, came := count(Records{Recall: 1}); got[0] < came*8/10 || got[0] > came || got[1]+got[2] > 0 {
		t.Errorf("%v of %d", got, came)
	}
	if got, came := count(Records{Recall: 0.5}); got[0] < came/5 || got[0] > came*4/5 {
		t.Errorf("%v of %d with half a recall", got, came)
	}
	if got, _ := count(Records{Edits: 20, Always: true}); got[0] != 0 || got[1] == 0 || got[2] <= got[1] {
		t.Errorf("%v of edits and a stamp", got)
	}
	if got, _ := count(Records{Always: true, OneMember: true}); got[0] == 0 || got[1]+got[2] > 0 {
		t.Errorf("%v of a stamp in the only member", got)
	}
	if got, _ := count(Records{}); got != [3]int{} {
		t.Errorf("%v of records that never change", got)
	}
}

func TestQuantilesAndMergedFiguresAgree(t *testing.T) {
	a, b := &Figures{Agencies: make([]Share, 1), Tightest: time.Second}, &Figures{Agencies: make([]Share, 1), Tightest: time.Second}
	for k := range 1000 {
		a.found(0, time.Duration(k)*time.Second)
		b.found(0, time.Duration(k+1000)*time.Second)
	}
	near(t, "median", seconds(a.Quantile(0.5)), 500, 15)
	a.Merge(b)
	near(t, "median of both", seconds(a.Quantile(0.5)), 1000, 30)
	near(t, "mean of both", seconds(a.Mean()), 999.5, 0.01)
	near(t, "within five minutes", a.Within(), 0.1505, 1e-6)
	if a.Agencies[0].Leads != 2000 || a.Agencies[0].Mean() != a.Mean() {
		t.Errorf("the share is %+v", a.Agencies[0])
	}
}
