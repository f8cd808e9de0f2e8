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
		t.Errorf("oldest %s with a cap of %s, %d early, %d missed", f.Oldest, f.Cap, f.Early, f.Missed)
	}
}

// These are loose versions of what `go run ./poller/schedule/simulate` shows for large markets and two weeks: a scheduler
// that fails here is broken.

func TestTheSchedulerIsFarBetterThanTakingTurns(t *testing.T) {
	f := small(Market{}, Run{})
	kept(t, f)
	near(t, "taking turns", f.Turns.Mean.Seconds(), 1010, 15) // half a round, and a hundredth for walks
	if x := f.Turns.Mean.Seconds() / f.Found.Mean.Seconds(); x < 1.8 {
		t.Errorf("%.2f times better than taking turns", x)
	}
	if x := f.Found.Mean.Seconds() / f.Oracle.Mean.Seconds(); x > 1.25 || x < 0.97 {
		t.Errorf("%.2f times worse than the oracle", x)
	}
	if f.Found.WithinFive < 0.45 || f.Found.Median > f.Found.Mean {
		t.Errorf("%.2f within five minutes, the median is %s", f.Found.WithinFive, f.Found.Median)
	}
	if again := small(Market{}, Run{}); !reflect.DeepEqual(f, again) {
		t.Error("two runs of one market differ")
	}
}

func TestRecordsThatBetrayAreUsedAndThoseThatLieCostLittle(t *testing.T) {
	plain := small(Market{}, Run{})
	for name, tt := range map[string]struct {
		run  Run
		most float64 // of the mean without
	}{
		"volatile": {Run{Edits: 1e6}, 1.08},
		"edits":    {Run{Edits: 20}, 1.08},
		"betray":   {Run{Betray: true, Edits: 2}, 0.4}, // it takes half a day to learn that
	} {
		f := small(Market{}, tt.run)
		kept(t, f)
		if x := f.Found.Mean.Seconds() / plain.Found.Mean.Seconds(); x > tt.most {
			t.Errorf("%s: %.2f times as long as with records that never change", name, x)
		}
	}
}

func TestTwoAgenciesShareTheBudget(t *testing.T) {
	one, f := small(Market{Hot: 20}, Run{}), small(Market{Agencies: 2, Hot: 20}, Run{})
	kept(t, f)
	if x := f.Found.Mean.Seconds() / one.Found.Mean.Seconds(); x > 1.1 {
		t.Errorf("%.2f times as long as in one agency", x)
	}
	if n := f.Requests; 3*min(n[0], n[1]) < max(n[0], n[1]) {
		t.Errorf("the agencies get %v requests", n)
	}
}

func TestBrokenPromisesAreNoticed(t *testing.T) {
	for _, f := range []Figures{{Missed: 1}, {Early: 1}, {Oldest: 2 * time.Hour}} {
		if f.Cap = time.Hour; f.Kept() {
			t.Errorf("%+v", f)
		}
	}
}
