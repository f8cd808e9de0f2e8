package trace

import "testing"

// These are loose versions of what `go run ./poller/schedule/simulate` shows for large markets and two weeks: a scheduler
// that fails here is broken.

func kept(t *testing.T, f *Figures) {
	t.Helper()
	if !f.Kept() {
		t.Errorf("oldest %s with a cap of %s, one more than the budget in %s, %d early, %d missed", f.Oldest, f.Cap, f.Tightest, f.Early, f.Missed)
	}
}

// better says how much lower the mean latency is than with taking turns.
func better(t *testing.T, turns, f *Figures, least float64) {
	t.Helper()
	if x := turns.Mean().Seconds() / f.Mean().Seconds(); !(x >= least) {
		t.Errorf("%.2f times better than taking turns, want %.2f", x, least)
	}
}

func TestTheSchedulerIsFarBetterThanTakingTurns(t *testing.T) {
	tr, o := small(Market{}, Run{})
	f, turns, oracle := o.Simulate(tr, Real), o.Simulate(tr, Turns), o.Simulate(tr, CappedOracle)
	kept(t, f)
	better(t, turns, f, 1.8)
	if x := f.Mean().Seconds() / oracle.Mean().Seconds(); x > 1.25 || x < 0.97 {
		t.Errorf("%.2f times worse than the oracle", x)
	}
	if f.Within() < 0.45 {
		t.Errorf("%.2f within five minutes", f.Within())
	}
	if walks := part(f.Walks, f.Requests); walks == 0 || walks > 0.1 {
		t.Errorf("%.3f of the requests are for lists that betray nothing", walks)
	}
}

func TestRecordsThatLieCostLittle(t *testing.T) {
	for name, records := range map[string]Records{
		"volatile": {Always: true}, "edits": {Edits: 20}, "blurred": {Recall: 1, Always: true, OneMember: true},
	} {
		tr, o := small(Market{}, Run{})
		plain := o.Simulate(tr, Real)
		o.Records = records
		f := o.Simulate(tr, Real)
		kept(t, f)
		if loss := f.Mean().Seconds()/plain.Mean().Seconds() - 1; loss > 0.08 {
			t.Errorf("%s: %.0f %% worse than records that never change", name, 100*loss)
		}
	}
}
