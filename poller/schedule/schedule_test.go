package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/schedule"
)

var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

// polled is the memory of an insertion that was polled at a moment.
func polled(minutes int) schedule.Memory {
	return schedule.Memory{Born: at(-10000), LastPoll: at(minutes)}
}

func next(t *testing.T, s *schedule.Schedule, now time.Time, why schedule.Why, want schedule.Insertion) {
	t.Helper()
	if got, _ := s.Next(now); got.Why != why || got.Insertion != want {
		t.Fatalf("Next is %v for %s, want %v for %s", got.Insertion, got.Why, want, why)
	}
}

func nothing(t *testing.T, s *schedule.Schedule, now time.Time, want time.Duration) {
	t.Helper()
	if got, wait := s.Next(now); got.Why != schedule.None || wait != want {
		t.Fatalf("Next is %v for %s in %s, want nothing for %s", got.Insertion, got.Why, wait, want)
	}
}

func TestUrgentOnesComeFirstInTheOrderInWhichTheyBecameSo(t *testing.T) {
	s := schedule.New(schedule.Options{Interval: time.Minute})
	a := s.Enter(nil)
	var i []schedule.Insertion
	for range 3 {
		i = append(i, s.Add(a, polled(0), at(0)))
	}
	s.Prioritize(i[2], schedule.Hint)
	s.Prioritize(i[1], schedule.Urgent)
	s.Prioritize(i[2], schedule.Urgent)
	next(t, s, at(0), schedule.Hint, i[2])
	next(t, s, at(0), schedule.Urgent, i[1])
	nothing(t, s, at(0), time.Minute)
	s.Prioritize(i[2], schedule.Urgent) // while it is in flight
	s.Polled(i[2], at(0), nil)
	next(t, s, at(0), schedule.Urgent, i[2])
	s.Put(i[2], at(30))
	s.Prioritize(i[2], schedule.Urgent) // it waits no longer
	next(t, s, at(0), schedule.Urgent, i[2])
}

func TestNoInsertionIsPolledBeforeItsIntervalHasPassed(t *testing.T) {
	s := schedule.New(schedule.Options{Interval: time.Minute})
	i := s.Add(s.Enter(nil), polled(0), at(0))
	nothing(t, s, at(0), time.Minute)
	next(t, s, at(1), schedule.Index, i)
	nothing(t, s, at(5), 0)
	s.Polled(i, at(5), nil)
	nothing(t, s, at(5), time.Minute)
}

func TestAFailedOneWaitsAndComesBack(t *testing.T) {
	s := schedule.New(schedule.Options{Interval: time.Minute})
	i := s.Add(s.Enter(nil), polled(0), at(0))
	next(t, s, at(1), schedule.Index, i)
	s.Put(i, at(11))
	nothing(t, s, at(5), 6*time.Minute)
	next(t, s, at(11), schedule.Retry, i)
}

func TestAPauseHoldsAnAgencyAndThenLetsOneGoAtATime(t *testing.T) {
	s := schedule.New(schedule.Options{Interval: time.Minute})
	a := s.Enter(nil)
	for range 2 {
		s.Add(a, polled(-60), at(0))
	}
	s.Pause(a, at(10), true)
	nothing(t, s, at(4), 6*time.Minute)
	first, _ := s.Next(at(10))
	nothing(t, s, at(10), 0)
	s.Polled(first.Insertion, at(10), nil)
	second, _ := s.Next(at(10))
	if second.Why == schedule.None || second.Insertion == first.Insertion {
		t.Fatalf("after %v %v is given out", first, second)
	}
	s.Pause(a, time.Time{}, false)
	third := s.Add(a, polled(-60), at(0))
	next(t, s, at(10), schedule.Index, third)
}

func TestWhatWasRemovedIsNotGivenOut(t *testing.T) {
	s := schedule.New(schedule.Options{})
	a := s.Enter(nil)
	i, k := s.Add(a, polled(-60), at(0)), s.Add(a, polled(-60), at(0))
	s.Prioritize(i, schedule.Urgent)
	s.Remove(i)
	s.Remove(k)
	nothing(t, s, at(1), 0)
	k = s.Add(a, polled(-60), at(0))
	next(t, s, at(1), schedule.Index, k)
	s.Remove(k)
	s.Polled(k, at(1), nil)
	nothing(t, s, at(1), 0)
}

func TestAnAgencyThatLeftIsNotGivenOut(t *testing.T) {
	s := schedule.New(schedule.Options{})
	a, b := s.Enter(nil), s.Enter(nil)
	s.Prioritize(s.Add(a, polled(-60), at(0)), schedule.Urgent)
	i := s.Add(b, polled(-60), at(0))
	s.Leave(a)
	next(t, s, at(1), schedule.Index, i)
	nothing(t, s, at(1), 0)
	a = s.Enter(nil)
	nothing(t, s, at(1), 0)
	i = s.Add(a, polled(-60), at(1))
	next(t, s, at(1), schedule.Index, i)
}

// TestNothingIsLostOrGivenOutTwice does random things and holds the schedule against a plain map.
func TestNothingIsLostOrGivenOutTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedule.New(schedule.Options{Interval: time.Minute})
		agencies := []schedule.Agency{s.Enter(nil), s.Enter(nil), s.Enter(nil)}
		known, inFlight := map[schedule.Insertion]bool{}, map[schedule.Insertion]bool{}
		minute := 0
		draw := func(rt *rapid.T) (i schedule.Insertion, ok bool) {
			var list []schedule.Insertion
			for _, a := range agencies {
				for slot := range uint32(40) {
					if i := (schedule.Insertion{Agency: a, Slot: slot}); known[i] {
						list = append(list, i)
					}
				}
			}
			if len(list) == 0 {
				return i, false
			}
			return rapid.SampledFrom(list).Draw(rt, "insertion"), true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				if len(known) < 20 {
					known[s.Add(rapid.SampledFrom(agencies).Draw(rt, "agency"), polled(minute-rapid.IntRange(0, 3).Draw(rt, "ago")), at(minute))] = true
				}
			},
			"urge": func(rt *rapid.T) {
				if i, ok := draw(rt); ok {
					s.Prioritize(i, schedule.Urgent)
				}
			},
			"remove": func(rt *rapid.T) {
				if i, ok := draw(rt); ok && !inFlight[i] {
					s.Remove(i)
					delete(known, i)
				}
			},
			"read": func(rt *rapid.T) {
				of := rapid.IntRange(-1, 5).Draw(rt, "of")
				s.Read(rapid.SampledFrom(agencies).Draw(rt, "agency"), rapid.IntRange(-1, 5).Draw(rt, "page"), of, at(minute))
			},
			"see": func(rt *rapid.T) {
				if i, ok := draw(rt); ok {
					s.Seen(i, rapid.Bool().Draw(rt, "changed"), at(minute))
				}
			},
			"pause": func(rt *rapid.T) {
				until := at(minute + rapid.IntRange(-2, 5).Draw(rt, "pause"))
				s.Pause(rapid.SampledFrom(agencies).Draw(rt, "agency"), until, rapid.Bool().Draw(rt, "probing"))
			},
			"jump": func(rt *rapid.T) {
				minute += rapid.IntRange(0, 100_000).Draw(rt, "minutes")
				s.Read(agencies[0], -1, 0, at(minute))
			},
			"result": func(rt *rapid.T) {
				i, ok := draw(rt)
				if !ok || !inFlight[i] {
					return
				}
				delete(inFlight, i)
				if rapid.Bool().Draw(rt, "good") {
					created := at(minute - rapid.IntRange(-10, 1000).Draw(rt, "created"))
					s.Polled(i, at(minute), []time.Time{created, {}})
				} else {
					s.Put(i, at(minute+rapid.IntRange(0, 3).Draw(rt, "wait")))
				}
			},
			"next": func(rt *rapid.T) {
				minute++
				turn, wait := s.Next(at(minute))
				i := turn.Insertion
				switch {
				case turn.Why == schedule.None && wait == 0 && stuck(known, inFlight):
					rt.Fatalf("%d of %d are in flight, and no other will ever be due", len(inFlight), len(known))
				case turn.Why == schedule.None || turn.Why == schedule.Walk:
				case inFlight[i] || !known[i]:
					rt.Fatalf("%v was given out, known %t, in flight %t", i, known[i], inFlight[i])
				default:
					inFlight[i] = true
				}
			},
		})
		for i := range inFlight {
			s.Polled(i, at(minute), nil)
		}
		for _, a := range agencies {
			s.Pause(a, time.Time{}, false)
		}
		given := map[schedule.Insertion]bool{}
		for range 100 {
			minute++
			if turn, _ := s.Next(at(minute)); turn.Why != schedule.None && turn.Why != schedule.Walk {
				given[turn.Insertion] = true
			}
		}
		if len(given) != len(known) {
			rt.Fatalf("%d given out at the end, %d known", len(given), len(known))
		}
	})
}

// stuck says whether an agency has something to be given out and nothing in flight: one that is probing waits for that.
func stuck(known, inFlight map[schedule.Insertion]bool) bool {
	waiting := map[schedule.Agency]bool{}
	for i := range known {
		waiting[i.Agency] = true
	}
	for i := range inFlight {
		delete(waiting, i.Agency)
	}
	return len(waiting) > 0
}
