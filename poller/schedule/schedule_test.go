package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/schedule"
)

var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func target(agency string, n int) schedule.Target {
	return schedule.Target{Agency: agency, Reference: fmt.Sprintf("%s#%d##", agency, n)}
}

func next(t *testing.T, s *schedule.Schedule, now time.Time, want schedule.Target) {
	t.Helper()
	got, _, ok := s.Next(now)
	if !ok || got != want {
		t.Fatalf("Next is %v (%t), want %v", got, ok, want)
	}
}

func nothing(t *testing.T, s *schedule.Schedule, now time.Time, want time.Duration) {
	t.Helper()
	if got, wait, ok := s.Next(now); ok || wait != want {
		t.Fatalf("Next is %v (%t) in %s, want nothing for %s", got, ok, wait, want)
	}
}

func TestTheOneThatHasBeenDueTheLongestIsNext(t *testing.T) {
	s := schedule.New()
	for n, due := range []int{3, 1, 2} {
		s.Add(target("A", n), at(due))
	}
	nothing(t, s, at(0), time.Minute)
	next(t, s, at(5), target("A", 1))
	next(t, s, at(5), target("A", 2))
	s.Result(target("A", 1), at(4))
	next(t, s, at(5), target("A", 0))
	next(t, s, at(5), target("A", 1))
	nothing(t, s, at(5), 0)
}

func TestUrgentOnesComeFirstInTheOrderInWhichTheyBecameSo(t *testing.T) {
	s := schedule.New()
	for n := range 3 {
		s.Add(target("A", n), at(0))
	}
	s.Urge(target("A", 2))
	s.Urge(target("A", 9)) // not known before
	s.Urge(target("A", 2))
	next(t, s, at(1), target("A", 2))
	next(t, s, at(1), target("A", 9))
	s.Urge(target("A", 2)) // while it is in flight
	s.Result(target("A", 2), at(30))
	next(t, s, at(1), target("A", 2))
}

func TestAgenciesTakeTurns(t *testing.T) {
	s := schedule.New()
	for n := range 100 {
		s.Urge(target("A", n))
	}
	s.Add(target("B", 0), at(0))
	next(t, s, at(1), target("A", 0))
	next(t, s, at(1), target("B", 0))
	next(t, s, at(1), target("A", 1))
}

func TestAPauseHoldsAnAgencyAndThenLetsOneGoAtATime(t *testing.T) {
	s := schedule.New()
	s.Add(target("A", 0), at(0))
	s.Add(target("A", 1), at(0))
	s.Pause("A", at(10), true)
	nothing(t, s, at(4), 6*time.Minute)
	next(t, s, at(10), target("A", 0))
	nothing(t, s, at(10), 0)
	s.Result(target("A", 0), at(60))
	next(t, s, at(10), target("A", 1))
	s.Pause("A", time.Time{}, false)
	s.Add(target("A", 2), at(0))
	next(t, s, at(10), target("A", 2))
}

func TestWhatWasRemovedIsNotGivenOut(t *testing.T) {
	s := schedule.New()
	s.Urge(target("A", 0))
	s.Add(target("A", 1), at(0))
	s.Remove(target("A", 0))
	s.Remove(target("A", 1))
	nothing(t, s, at(1), 0)
	s.Add(target("A", 1), at(0))
	next(t, s, at(1), target("A", 1))
	s.Remove(target("A", 1))
	s.Result(target("A", 1), at(0))
	nothing(t, s, at(1), 0)
}

// TestNothingIsLostOrGivenOutTwice does random things and holds the schedule against a plain map.
func TestNothingIsLostOrGivenOutTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedule.New()
		known, flying := map[schedule.Target]bool{}, map[schedule.Target]bool{}
		minute := 0
		draw := func() schedule.Target {
			return target(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(rt, "agency"), rapid.IntRange(0, 5).Draw(rt, "n"))
		}
		due := func() time.Time { return at(minute + rapid.IntRange(0, 3).Draw(rt, "due")) }
		rt.Repeat(map[string]func(*rapid.T){
			"add":  func(*rapid.T) { x := draw(); s.Add(x, due()); known[x] = true },
			"urge": func(*rapid.T) { x := draw(); s.Urge(x); known[x] = true },
			"remove": func(*rapid.T) {
				x := draw()
				if !flying[x] {
					s.Remove(x)
					delete(known, x)
				}
			},
			"result": func(rt *rapid.T) {
				for x := range flying {
					s.Result(x, due())
					delete(flying, x)
					return
				}
			},
			"next": func(rt *rapid.T) {
				minute++
				x, wait, ok := s.Next(at(minute))
				switch {
				case ok && (flying[x] || !known[x]):
					rt.Fatalf("%v was given out, known %t, in flight %t", x, known[x], flying[x])
				case ok:
					flying[x] = true
				case wait == 0 && len(known) > len(flying):
					rt.Fatalf("%d of %d are in flight, and no other will ever be due", len(flying), len(known))
				}
			},
		})
		for x := range flying {
			s.Result(x, at(minute))
		}
		given := map[schedule.Target]bool{}
		for range 100 {
			if x, _, ok := s.Next(at(minute + 10)); ok {
				given[x] = true
			}
		}
		if len(given) != len(known) {
			rt.Fatalf("%d given out at the end, %d known", len(given), len(known))
		}
	})
}

func TestAForgottenAgencyIsNotGivenOutAndComesBackEmpty(t *testing.T) {
	s := schedule.New()
	for _, agency := range []string{"A", "B", "C"} {
		s.Add(target(agency, 1), at(0))
		s.Urge(target(agency, 2))
	}
	next(t, s, at(1), target("A", 2))
	next(t, s, at(1), target("B", 2))
	s.Pause("B", at(1000), true)
	s.Result(target("B", 2), at(5))
	s.Forget("B")
	s.Forget("Z")
	next(t, s, at(1), target("C", 2))
	next(t, s, at(1), target("A", 1))
	next(t, s, at(1), target("C", 1))
	s.Add(target("B", 3), at(2))
	nothing(t, s, at(1), time.Minute)
	next(t, s, at(2), target("B", 3))
}
