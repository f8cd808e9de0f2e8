package schedule_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/schedule"
)

// drive asks as often as five requests a second allow, and answers at once: each insertion gets
// contact requests at its rate a day.
type drive struct {
	*schedule.Schedule
	now   time.Time
	gap   time.Duration
	rate  map[string]float64
	last  map[string]time.Time
	polls map[string]int
	whys  map[schedule.Why]int
	worst time.Duration // longest that one waited
	r     *rand.Rand
}

func newDrive(o schedule.Options) *drive {
	o.Rate = 5
	d := &drive{
		Schedule: schedule.New(o, epoch), now: epoch, gap: 200 * time.Millisecond, r: rand.New(rand.NewPCG(1, 2)),
		rate: map[string]float64{}, last: map[string]time.Time{}, polls: map[string]int{}, whys: map[schedule.Why]int{},
	}
	return d
}

// add adds insertions of an agency that were polled so long ago, or never.
func (d *drive) add(agency string, n int, rate float64, ago time.Duration) (added []string) {
	for range n {
		reference := fmt.Sprintf("%s#%d", agency, len(d.rate))
		last := time.Time{}
		if d.last[reference] = d.now; ago > 0 {
			last = d.now.Add(-ago)
			d.last[reference] = last
		}
		d.rate[reference] = rate
		d.Add(agency, reference, time.Time{}, last, d.now)
		added = append(added, reference)
	}
	return added
}

func (d *drive) step() schedule.Turn {
	d.now = d.now.Add(d.gap)
	turn, _ := d.Next(d.now)
	d.whys[turn.Why]++
	if i := turn.Reference; turn.Why != schedule.None {
		var created []time.Time
		for x := d.last[i]; d.rate[i] > 0; created = append(created, x) {
			x = x.Add(time.Duration(d.r.ExpFloat64() / d.rate[i] * float64(day)))
			if x.After(d.now) {
				break
			}
		}
		d.worst = max(d.worst, d.now.Sub(d.last[i]))
		d.last[i] = d.now
		d.polls[i]++
		d.Polled(turn.Agency, i, d.now, created)
	}
	return turn
}

func (d *drive) run(turns int) {
	for range turns {
		d.step()
	}
}

// ofAgency is how often the insertions of an agency were polled.
func (d *drive) ofAgency(agency string) (n int) {
	for reference, polls := range d.polls {
		if reference[:len(agency)] == agency {
			n += polls
		}
	}
	return n
}

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

func newSchedule(interval time.Duration, references ...string) *schedule.Schedule {
	s := schedule.New(schedule.Options{Rate: 5, Interval: interval}, epoch)
	for _, reference := range references {
		s.Add("A100", reference, time.Time{}, epoch.Add(-max(interval, time.Second)), at(0))
	}
	return s
}

func next(t *testing.T, s *schedule.Schedule, minute int, why schedule.Why, want string) {
	t.Helper()
	if got, _ := s.Next(at(minute)); got.Why != why || got.Reference != want {
		t.Fatalf("minute %d: %s %q, want %s %q", minute, got.Why, got.Reference, why, want)
	}
}

func nothing(t *testing.T, s *schedule.Schedule, minute int, want time.Duration) {
	t.Helper()
	if got, wait := s.Next(at(minute)); got.Why != schedule.None || wait != want {
		t.Fatalf("minute %d: %s %q, wait %s; want nothing for %s", minute, got.Why, got.Reference, wait, want)
	}
}

func TestUrgentOnesComeInTheOrderInWhichTheyBecameSo(t *testing.T) {
	s := newSchedule(time.Hour, "a", "b", "c")
	for range 3 {
		turn, _ := s.Next(at(0))
		s.Polled("A100", turn.Reference, at(0), nil)
	}
	for _, reference := range []string{"b", "c", "b", "a"} {
		s.Urge("A100", reference)
	}
	for _, want := range []string{"b", "c", "a"} {
		next(t, s, 1, schedule.Urgent, want)
	}
	s.Urge("A100", "c") // in flight: once more
	s.Polled("A100", "c", at(1), nil)
	next(t, s, 1, schedule.Urgent, "c")
	nothing(t, s, 1, 0)
}

func TestANudgedOneComesBeforeUrgentOnesOnce(t *testing.T) {
	s := newSchedule(time.Hour, "a", "b", "c")
	for range 3 {
		turn, _ := s.Next(at(0))
		s.Polled("A100", turn.Reference, at(0), nil)
	}
	nudged := func(want string) {
		t.Helper()
		if got := s.NextNudge(at(1)); got.Reference != want {
			t.Fatalf("nudged is %q, want %q", got.Reference, want)
		}
	}
	nudged("")
	s.Urge("A100", "a", "c")
	for _, reference := range []string{"b", "b", "c", "b"} {
		if !s.Nudge("A100", reference) {
			t.Errorf("%s is not known", reference)
		}
	}
	if s.Nudge("A100", "d") || s.Nudge("B200", "a") {
		t.Error("what is not there is nudged")
	}
	nudged("b")
	s.Nudge("A100", "b") // in flight: once more
	next(t, s, 1, schedule.Urgent, "c")
	nudged("")
	s.Polled("A100", "b", at(1), nil)
	nudged("b")
	next(t, s, 1, schedule.Urgent, "a")
	s.Put("A100", "b", at(9))
	nothing(t, s, 1, 8*time.Minute)
	s.Nudge("A100", "b") // it waits no longer
	nudged("b")
}

func TestNoInsertionIsPolledBeforeItsIntervalHasPassed(t *testing.T) {
	s := newSchedule(2*time.Minute, "a")
	next(t, s, 0, schedule.Index, "a")
	nothing(t, s, 0, 0)
	s.Polled("A100", "a", at(1), nil)
	nothing(t, s, 2, time.Minute)
	next(t, s, 3, schedule.Index, "a")
}

func TestANewInsertionIsPolledAtOnce(t *testing.T) {
	s := newSchedule(time.Hour)
	s.Add("A100", "a", time.Time{}, time.Time{}, at(1))
	for _, w := range s.Waits("A100") {
		if !w.Never || !w.Since.Equal(at(1)) {
			t.Errorf("%+v", w)
		}
	}
	next(t, s, 1, schedule.Index, "a")
}

func TestAFailedOneWaitsAndComesBack(t *testing.T) {
	s := newSchedule(time.Minute, "a")
	next(t, s, 0, schedule.Index, "a")
	s.Put("A100", "a", at(7))
	nothing(t, s, 1, 6*time.Minute)
	next(t, s, 7, schedule.Retry, "a")
	s.Put("A100", "a", at(20))
	s.Urge("A100", "a")
	next(t, s, 8, schedule.Urgent, "a")
}

func TestAPauseHoldsAnAgencyAndThenLetsOneGoAtATime(t *testing.T) {
	s := newSchedule(time.Minute, "a", "b")
	s.Pause("A100", at(5), true)
	nothing(t, s, 1, 4*time.Minute)
	turn, _ := s.Next(at(5))
	nothing(t, s, 5, 0)
	s.Polled("A100", turn.Reference, at(5), nil)
	if other, _ := s.Next(at(5)); other.Reference == turn.Reference || other.Why == schedule.None {
		t.Fatalf("after %v %v", turn, other)
	}
	s.Pause("A100", time.Time{}, false)
	next(t, s, 6, schedule.Index, turn.Reference)
}

func TestInsertionsArePolledByTheSquareRootOfTheirRates(t *testing.T) {
	d := newDrive(schedule.Options{Staleness: 24 * time.Hour})
	slow, fast := d.add("A100", 150, 200, time.Minute), d.add("A100", 150, 3200, time.Minute)
	d.run(30_000)
	clear(d.polls)
	d.run(30_000)
	few, many := 0, 0
	for n := range slow {
		few += d.polls[slow[n]]
		many += d.polls[fast[n]]
	}
	if ratio := float64(many) / float64(few); math.Abs(ratio-4) > 0.6 {
		t.Fatalf("16 times as many contact requests bring %.1f times as many polls, want about 4", ratio)
	}
}

func TestNoInsertionWaitsLongerThanTheCap(t *testing.T) {
	for name, tt := range map[string]struct{ staleness, cap time.Duration }{
		"automatic":  {0, 800 * time.Second}, // four rounds
		"short":      {5 * time.Minute, 5 * time.Minute},
		"impossible": {time.Second, 221 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(schedule.Options{Staleness: tt.staleness})
			d.add("A100", 950, 0.001, time.Nanosecond) // all were polled at once
			d.add("A100", 50, 500, time.Nanosecond)
			d.run(60_000)
			if d.worst > tt.cap {
				t.Fatalf("one has waited %s, the cap is %s", d.worst, tt.cap)
			}
		})
	}
}

// TestAFloodOfNewInsertionsKeepsTheCap lets an agency list 3,000 new ones beside a busy one and a
// small one.
func TestAFloodOfNewInsertionsKeepsTheCap(t *testing.T) {
	d := newDrive(schedule.Options{Interval: 30 * time.Second})
	d.add("A100", 500, 50, time.Minute)
	d.add("B200", 1, 0.1, time.Minute)
	d.run(5000)
	for _, reference := range d.add("A100", 3000, 1, 0) {
		d.Urge("A100", reference)
	}
	d.worst = 0
	clear(d.polls)
	sweep := 0
	for ; d.whys[schedule.Urgent] < 3000; sweep++ {
		d.step()
	}
	if sweep > 6010 {
		t.Errorf("%d turns until all 3,000 were polled", sweep)
	}
	if n := d.ofAgency("B200"); n < 2 {
		t.Errorf("meanwhile the small agency was polled %d times", n)
	}
	d.run(20_000)
	if limit := d.Stand("A100", d.now).Cap; d.worst > limit {
		t.Errorf("one has waited %s, the cap is %s", d.worst, limit)
	}
}

func TestABunchThatIsNearTheCapIsPolledInTime(t *testing.T) {
	d := newDrive(schedule.Options{Staleness: 20 * time.Minute})
	d.add("A100", 2000, 50, time.Nanosecond)
	d.add("B200", 1800, 0.001, 7*time.Minute) // 13 minutes are left, it takes 6
	for _, reference := range d.add("A100", 1500, 50, time.Nanosecond) {
		d.Urge("A100", reference)
	}
	d.run(20_000)
	if d.worst > 20*time.Minute {
		t.Fatalf("one has waited %s, the cap is 20 minutes", d.worst)
	}
}

func TestUrgentOnesFailedOnesAndTheOthersShareTheTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		urgent, failed int
		want           map[schedule.Why]int // of 200
	}{
		"urgent":          {300, 0, map[schedule.Why]int{schedule.Urgent: 100, schedule.Index: 100}},
		"failed":          {0, 300, map[schedule.Why]int{schedule.Retry: 100, schedule.Index: 100}},
		"urgent, failed":  {300, 300, map[schedule.Why]int{schedule.Urgent: 100, schedule.Retry: 50, schedule.Index: 50}},
		"none":            {0, 0, map[schedule.Why]int{schedule.Index: 200}},
		"few urgent ones": {5, 0, map[schedule.Why]int{schedule.Urgent: 5, schedule.Index: 195}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(schedule.Options{})
			d.add("A100", 400, 1, time.Minute)
			for _, reference := range d.add("B200", tt.urgent, 1, time.Minute) {
				d.Urge("B200", reference)
			}
			for _, reference := range d.add("A100", tt.failed, 1, time.Minute) {
				d.Put("A100", reference, d.now)
			}
			d.run(200)
			if !maps.Equal(d.whys, tt.want) {
				t.Errorf("%v, want %v", d.whys, tt.want)
			}
			if n := d.Turns("B200")["urgent"]; int(n) != d.whys[schedule.Urgent] {
				t.Errorf("%d were counted, %d given", n, d.whys[schedule.Urgent])
			}
		})
	}
}

// TestTwoAgenciesAreTreatedAlike gives one agency's insertions the rates of the other's.
func TestTwoAgenciesAreTreatedAlike(t *testing.T) {
	d := newDrive(schedule.Options{})
	for _, rate := range []float64{0.1, 1, 100} {
		d.add("A100", 200, rate, time.Minute)
		d.add("B200", 100, rate, time.Minute)
	}
	d.run(20_000)
	if a, b := d.ofAgency("A100"), d.ofAgency("B200"); math.Abs(float64(a)/float64(b)-2) > 0.1 {
		t.Errorf("with twice as many insertions it was polled %d times, the other one %d", a, b)
	}
}

func TestWhatIsNotNeededIsNotSpent(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	d.add("A100", 8, 1, 0)
	d.run(18_000) // an hour
	if sent := 18_000 - d.whys[schedule.None]; sent > 8*61 || sent < 8*59 {
		t.Fatalf("%d requests in an hour: %v", sent, d.whys)
	}
}

// TestRequestsThatAreLeftGoToTheQuietOnes lets a few hot insertions be polled as often as they may
// be.
func TestRequestsThatAreLeftGoToTheQuietOnes(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	d.add("A100", 20, 10_000, time.Minute)
	d.add("A100", 200, 0.01, time.Minute)
	d.run(3000)
	clear(d.whys)
	d.run(3000)
	if idle := d.whys[schedule.None]; idle < 700 || idle > 900 { // 220 of 300 a minute
		t.Errorf("%d of 3000 requests were not spent", idle)
	}
}

func TestAProcessThatStoodStillGoesOn(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	d.add("A100", 5, 1, time.Minute)
	for _, jump := range []time.Duration{time.Hour, 20 * 365 * day} {
		d.run(10)
		d.now = d.now.Add(jump)
		clear(d.polls)
		d.run(700)
		if len(d.polls) != 5 || slices.Max(slices.Collect(maps.Values(d.polls))) > 4 {
			t.Fatalf("after a jump by %s: %v", jump, d.polls)
		}
	}
}

// TestNobodyWaitsForeverThoughTheCapCannotBeHeld lets an API answer a fifth of what the budget
// allows.
func TestNobodyWaitsForeverThoughTheCapCannotBeHeld(t *testing.T) {
	d := newDrive(schedule.Options{Interval: 30 * time.Second})
	d.add("A100", 1000, 0, time.Minute)
	d.add("B200", 50, 0, time.Minute)
	d.gap = 1100 * time.Millisecond
	d.run(3000)
	turn, _ := d.Next(d.now)
	d.Put(turn.Agency, turn.Reference, d.now.Add(time.Minute))
	d.Pause("B200", d.now.Add(time.Minute), false)
	clear(d.polls)
	d.run(2500)
	if d.polls[turn.Reference] < 2 || d.ofAgency("B200") < 90 {
		t.Errorf("after a failure %d polls, after a pause %d", d.polls[turn.Reference], d.ofAgency("B200"))
	}
}

// TestNothingIsLostOrGivenOutTwice does random things and holds the schedule against a plain map.
func TestNothingIsLostOrGivenOutTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedule.New(schedule.Options{Rate: 5, Interval: time.Minute}, epoch)
		agencies := []string{"A100", "B200", "C300"}
		type name struct{ agency, reference string }
		known, inFlight := map[name]bool{}, map[name]bool{}
		minute := 0
		agency := func(rt *rapid.T) string { return rapid.SampledFrom(agencies).Draw(rt, "agency") }
		draw := func(rt *rapid.T) name {
			return name{agency(rt), fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "reference"))}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				n, last := draw(rt), time.Time{}
				if ago := rapid.IntRange(-1, 3).Draw(rt, "ago"); ago >= 0 {
					last = at(minute - ago)
				}
				s.Add(n.agency, n.reference, at(minute-rapid.IntRange(0, 9).Draw(rt, "age")), last, at(minute))
				known[n] = true
			},
			"urge": func(rt *rapid.T) {
				n := draw(rt)
				s.Urge(n.agency, n.reference)
			},
			"nudge": func(rt *rapid.T) {
				n := draw(rt)
				if got := s.Nudge(n.agency, n.reference); got != known[n] {
					rt.Fatalf("the nudge of %v is %t", n, got)
				}
			},
			"next nudge": func(rt *rapid.T) {
				turn := s.NextNudge(at(minute))
				n := name{turn.Agency, turn.Reference}
				switch {
				case turn.Why == schedule.None:
				case inFlight[n] || !known[n]:
					rt.Fatalf("%v was given out, known %t, in flight %t", n, known[n], inFlight[n])
				default:
					inFlight[n] = true
				}
			},
			"remove": func(rt *rapid.T) {
				n := draw(rt)
				s.Remove(n.agency, n.reference)
				delete(known, n)
				delete(inFlight, n)
			},
			"pause": func(rt *rapid.T) {
				s.Pause(agency(rt), at(minute+rapid.IntRange(-2, 5).Draw(rt, "pause")), rapid.Bool().Draw(rt, "one by one"))
			},
			"jump": func(rt *rapid.T) { minute += rapid.IntRange(0, 100_000).Draw(rt, "minutes") },
			"result": func(rt *rapid.T) {
				n := draw(rt)
				if rapid.Bool().Draw(rt, "good") {
					created := at(minute - rapid.IntRange(-10, 1000).Draw(rt, "created"))
					s.Polled(n.agency, n.reference, at(minute), []time.Time{created, {}})
				} else if inFlight[n] {
					s.Put(n.agency, n.reference, at(minute+rapid.IntRange(0, 3).Draw(rt, "wait")))
				}
				delete(inFlight, n)
			},
			"next": func(rt *rapid.T) {
				minute++
				turn, wait := s.Next(at(minute))
				n := name{turn.Agency, turn.Reference}
				waiting := map[string]bool{}
				for n := range known {
					waiting[n.agency] = true
				}
				for n := range inFlight { // with one at a time, the others of its agency wait for that
					delete(waiting, n.agency)
				}
				switch {
				case turn.Why == schedule.None && wait == 0 && len(waiting) > 0:
					rt.Fatalf("%d of %d are in flight, and no other will ever be due", len(inFlight), len(known))
				case turn.Why == schedule.None:
				case inFlight[n] || !known[n]:
					rt.Fatalf("%v was given out, known %t, in flight %t", n, known[n], inFlight[n])
				default:
					inFlight[n] = true
				}
			},
		})
		for n := range inFlight {
			s.Polled(n.agency, n.reference, at(minute), nil)
		}
		count := 0
		for _, id := range agencies {
			s.Pause(id, time.Time{}, false)
			count += s.Len(id)
		}
		given := map[schedule.Turn]bool{}
		for range 150 {
			minute++
			if turn, _ := s.Next(at(minute)); turn.Why != schedule.None {
				turn.Why = schedule.None
				given[turn] = true
			}
		}
		if len(given) != len(known) || count != len(known) {
			rt.Fatalf("%d given out at the end, %d known, %d counted", len(given), len(known), count)
		}
	})
}

func TestHowInsertionsStandIsCountedByTheCap(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := schedule.New(schedule.Options{Rate: 5, Interval: 30 * time.Second, Staleness: 10 * time.Minute}, now)
	s.Add("A100", "new", time.Time{}, time.Time{}, now.Add(-time.Minute))
	for n, ago := range []time.Duration{10 * time.Minute, 10*time.Minute + 1, 11 * time.Minute, time.Hour} {
		s.Add("A100", string(rune('a'+n)), time.Time{}, now.Add(-ago), now)
	}
	want := schedule.Standing{Cap: 10 * time.Minute, Insertions: 5, Never: 1, Past: 3, Oldest: now.Add(-time.Hour)}
	if got := s.Stand("A100", now); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
