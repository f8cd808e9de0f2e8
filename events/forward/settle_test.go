package forward

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"doorbell/events"
)

func TestAKeyWideHaltOfTwoHundredAgenciesIsToldAtOnceAndThenTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.run(20*time.Minute, func() {
			for n := range 200 {
				w.halt(fmt.Sprintf("N%d", n), "sha256:1")
				time.Sleep(100 * time.Millisecond) // twenty seconds in all
			}
		})
		if d := s.deliveries(); len(d) != 2 || len(d[1].Events) < 190 {
			t.Errorf("%d deliveries", len(d))
		}
		if late := s.begun[0].Sub(w.history[0].RecordedTime); late > 2*time.Second {
			t.Errorf("the first came after %s", late)
		}
		if d := s.begun[1].Sub(s.begun[0]); d > 32*time.Second {
			t.Errorf("the others came %s later", d)
		}
		wantIDs(t, s, w.history)
	})
}

func TestHaltsOfOtherKeysAndOtherAlertsAreNotSwallowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.run(20*time.Minute, func() {
			for n := range 6 {
				agency := fmt.Sprintf("N%d", n)
				// a stale watch stands before the halt in the same agency: it must not be taken for done with it
				w.publish(w.stamp(&events.WatchStale{Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, Operation: "insertions"}))
				w.halt(agency, "sha256:"+fmt.Sprint(n%2))
			}
		})
		all := s.ids()
		slices.Sort(all)
		if got := len(slices.Compact(all)); got != 12 || len(s.ids()) != 12 {
			t.Errorf("%d events, %d different ones, want 12", len(s.ids()), got)
		}
		halts := 0
		for _, d := range s.deliveries() {
			if d.Events[0].Type == events.TypeAccessHalted {
				halts++
			}
		}
		if halts > 4 {
			t.Errorf("%d deliveries of halts of two causes", halts)
		}
	})
}

func TestHaltsThatKeepComingAreNotWaitedForForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.run(20*time.Minute, func() {
			for n := range 40 {
				w.halt(fmt.Sprintf("N%d", n), "sha256:1")
				time.Sleep(8 * time.Second)
			}
		})
		wantIDs(t, s, w.history)
		for n := 1; n < len(s.begun); n++ {
			if d := s.begun[n].Sub(s.begun[n-1]); d > 40*time.Second {
				t.Errorf("%s between two", d)
			}
		}
		if n := len(s.deliveries()); n > 12 { // of five minutes
			t.Errorf("%d alerts", n)
		}
	})
}

func TestHaltsThatWaitedForLongAreOneAlertAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.run(time.Second)
		for n := range 50 {
			w.halt(fmt.Sprintf("N%d", n), "sha256:1")
		}
		time.Sleep(time.Hour)
		w.run(15 * time.Second)
		if d := s.deliveries(); len(d) != 1 || len(d[0].Events) != 50 {
			t.Errorf("%d deliveries", len(d))
		}
	})
}

func TestMachinesGetEachHaltAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 0)
		w := newWorld(t, Route{Receiver: s})
		w.run(6*time.Second, func() {
			for n := range 4 {
				w.halt(fmt.Sprintf("N%d", n), "sha256:1")
			}
		})
		if n := len(s.deliveries()); n != 4 {
			t.Errorf("%d deliveries", n)
		}
	})
}

func TestKilledWhileHaltsSettleNoneIsLost(t *testing.T) {
	for _, step := range []string{stepSent, stepMarked, stepDone} {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", 20)
				w := newWorld(t, Route{Receiver: s, Filter: Filter{Only: Alerts}})
				w.run(time.Second)
				if !w.crash(step, 1, func() {
					for n := range 10 {
						agency := fmt.Sprintf("N%d", n)
						w.publish(w.stamp(&events.WatchStale{Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}}))
						w.halt(agency, "k")
					}
				}) {
					t.Fatal("it was never there")
				}
				w.run(time.Hour)
				all := s.ids()
				slices.Sort(all)
				if n := len(slices.Compact(all)); n != 20 {
					t.Errorf("%d of 20", n)
				}
			})
		})
	}
}

func TestTheEndDoesNotWaitForHaltsToSettle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		begin := time.Now()
		w.run(time.Second, func() {
			w.halt("A100", "k")
			time.Sleep(time.Second)
			w.halt("B200", "k")
		})
		if d := time.Since(begin); d > 7*time.Second {
			t.Errorf("ended after %s", d)
		}
		if s.called() != 1 {
			t.Error("the second halt was sent alone")
		}
		w.run(time.Minute)
		wantIDs(t, s, w.history)
	})
}

func TestAnAlertAmongManyHaltsOfOneAgencyIsNotSwallowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		refused := func(n int) {
			w.publish(w.stamp(&events.AccessHalted{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Scope: events.ScopeInsertion, ProbableReason: "insertion_not_allowed",
				PropertyReferenceID: string(rune('a' + n)), Key: events.KeyRef{Fingerprint: "sha256:1"},
			}))
		}
		w.run(20*time.Minute, func() {
			refused(0)
			w.publish(w.stamp(&events.WatchStale{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Operation: "insertions"}))
			for n := range recent + 10 { // more than are known by name: they are done before the alert among them
				refused(n + 1)
			}
		})
		if len(s.ids()) != len(w.history) {
			t.Errorf("%d of %d alerts came", len(s.ids()), len(w.history))
		}
	})
}
