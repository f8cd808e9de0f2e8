package trace

import (
	"reflect"
	"testing"
	"time"
)

// small simulates a market of two days, which takes a fraction of a second, with as many requests for each insertion as
// 10,000 get of 5 a second.
func small(m Market, o Run) *Figures {
	const insertions = 2500
	m.Seed, m.Insertions = 1, insertions
	o.Budget, o.Page = float64(insertions)/2000, insertions/100
	o.WarmUp, o.Measured = 8*time.Hour, 2*Day
	return o.Simulate(m)
}

// kept wants that no promise was broken.
func kept(t *testing.T, f *Figures) {
	t.Helper()
	if !f.Kept() {
		t.Errorf("oldest %s with a cap of %s, one more than the budget in %s, %d early, %d missed", f.Oldest, f.Cap, f.Tightest, f.Early, f.Missed)
	}
}

// These are loose versions of what `go run ./poller/schedule/simulate` shows for large markets and two weeks: a scheduler
// that fails here is broken.

func TestTheSchedulerIsFarBetterThanTakingTurns(t *testing.T) {
	f := small(Market{}, Run{})
	kept(t, f)
	near(t, "taking turns", f.Turns.Mean.Seconds(), 1010, 15) // half a round, and a hundredth for walks
	if x := f.Turns.Mean.Seconds() / f.Mean().Seconds(); x < 1.8 {
		t.Errorf("%.2f times better than taking turns", x)
	}
	if x := f.Mean().Seconds() / f.Oracle.Mean.Seconds(); x > 1.25 || x < 0.97 {
		t.Errorf("%.2f times worse than the oracle", x)
	}
	if f.Within(5*time.Minute) < 0.45 || f.Quantile(0.5) > f.Mean() {
		t.Errorf("%.2f within five minutes, the median is %s", f.Within(5*time.Minute), f.Quantile(0.5))
	}
	if again := small(Market{}, Run{}); !reflect.DeepEqual(f, again) {
		t.Error("two runs of one market differ")
	}
}

func TestRecordsThatBetrayAreUsedAndThoseThatLieCostLittle(t *testing.T) {
	plain := small(Market{}, Run{})
	for name, tt := range map[string]struct {
		records Records
		most    float64 // of the mean without
	}{
		"volatile": {Records{Always: true}, 1.08},
		"edits":    {Records{Edits: 20}, 1.08},
		"betray":   {Records{Betray: true, Edits: 20, Always: true}, 0.4}, // it takes half a day to learn that
	} {
		f := small(Market{}, Run{Records: tt.records})
		kept(t, f)
		if x := f.Mean().Seconds() / plain.Mean().Seconds(); x > tt.most {
			t.Errorf("%s: %.2f times as long as with records that never change", name, x)
		}
	}
}

func TestTwoAgenciesShareTheBudget(t *testing.T) {
	one, f := small(Market{Hot: 20}, Run{}), small(Market{Agencies: 2, Hot: 20}, Run{})
	kept(t, f)
	if x := f.Mean().Seconds() / one.Mean().Seconds(); x > 1.1 {
		t.Errorf("%.2f times as long as in one agency", x)
	}
	for k, a := range f.Agencies {
		if 4*a.Requests < f.Requests {
			t.Errorf("agency %d gets %d of %d requests", k, a.Requests, f.Requests)
		}
	}
}

func TestBrokenPromisesAreNoticed(t *testing.T) {
	s := &simulation{f: &Figures{Tightest: time.Hour, Cap: time.Hour, Agencies: make([]Share, 1)}, sent: make([]time.Duration, 3)}
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
	for _, f := range []Figures{{Missed: 1}, {Early: 1}, {Oldest: 2 * time.Hour}} {
		if f.Tightest, f.Cap = time.Second, time.Hour; f.Kept() {
			t.Errorf("%+v", f)
		}
	}
}
