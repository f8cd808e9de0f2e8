package schedule_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// drive asks as often as the budget of five requests a second allows, and answers at once: each insertion gets contact
// requests at its rate a day. It returns how often each was polled and the longest that one waited.
type drive struct {
	s     *schedule.Schedule
	now   time.Time
	rate  map[schedule.Insertion]float64
	last  map[schedule.Insertion]time.Time
	polls map[schedule.Insertion]int
	whys  map[schedule.Why]int
	worst time.Duration
	r     *rand.Rand
}

func newDrive(o schedule.Options) *drive {
	return &drive{
		s: schedule.New(o), now: epoch, r: rand.New(rand.NewPCG(1, 2)),
		rate: map[schedule.Insertion]float64{}, last: map[schedule.Insertion]time.Time{},
		polls: map[schedule.Insertion]int{}, whys: map[schedule.Why]int{},
	}
}

func (d *drive) add(a schedule.Agency, n int, rate float64, m schedule.Memory) (added []schedule.Insertion) {
	for range n {
		i := d.s.Add(a, m, d.now)
		d.rate[i], d.last[i] = rate, d.now
		if !m.LastPoll.IsZero() {
			d.last[i] = m.LastPoll
		}
		added = append(added, i)
	}
	return added
}

// step is one turn.
func (d *drive) step() schedule.Turn {
	d.now = d.now.Add(200 * time.Millisecond)
	turn, _ := d.s.Next(d.now)
	d.whys[turn.Why]++
	if i := turn.Insertion; turn.Why != schedule.None && turn.Why != schedule.Walk {
		var created []time.Time
		for x := d.last[i]; d.rate[i] > 0; created = append(created, x) {
			if x = x.Add(time.Duration(d.r.ExpFloat64() / d.rate[i] * 24 * float64(time.Hour))); x.After(d.now) {
				break
			}
		}
		d.worst = max(d.worst, d.now.Sub(d.last[i]))
		d.last[i] = d.now
		d.polls[i]++
		d.s.Polled(i, d.now, created)
	}
	return turn
}

func (d *drive) run(turns int) {
	for range turns {
		d.step()
	}
}

func TestInsertionsArePolledByTheSquareRootOfTheirRates(t *testing.T) {
	d := newDrive(schedule.Options{Staleness: 24 * time.Hour})
	a := d.s.Enter(nil)
	slow, fast := d.add(a, 150, 200, polled(-1)), d.add(a, 150, 3200, polled(-1))
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
		"automatic":  {0, 800 * time.Second}, // four times what taking turns needs
		"short":      {5 * time.Minute, 5 * time.Minute},
		"impossible": {time.Second, 221 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(schedule.Options{Staleness: tt.staleness})
			a := d.s.Enter(nil)
			d.add(a, 950, 0.001, polled(0)) // all were polled at once
			d.add(a, 50, 500, polled(0))
			d.run(60_000)
			if d.worst > tt.cap {
				t.Fatalf("one has waited %s, the cap is %s", d.worst, tt.cap)
			}
		})
	}
}

func TestABunchThatIsNearTheCapIsPolledInTime(t *testing.T) {
	d := newDrive(schedule.Options{Staleness: 20 * time.Minute})
	a, b := d.s.Enter(nil), d.s.Enter(nil)
	d.add(a, 2000, 50, polled(0))
	d.add(b, 1800, 0.001, polled(-7)) // 13 minutes are left, it takes 6
	for _, i := range d.add(a, 1500, 50, polled(0)) {
		d.s.Prioritize(i, schedule.Urgent)
	}
	d.run(20_000)
	if d.worst > 20*time.Minute {
		t.Fatalf("one has waited %s, the cap is 20 minutes", d.worst)
	}
}

func TestWhatIsUrgentIsNotKeptWaitingForACapThatIsHeld(t *testing.T) {
	const tight = 5 * time.Minute // taking turns needs 3:20
	d := newDrive(schedule.Options{Interval: 30 * time.Second, Staleness: tight})
	all := d.add(d.s.Enter(nil), 1000, 0.001, polled(0))
	d.run(5000)
	since, worst := map[schedule.Insertion]time.Time{}, time.Duration(0)
	for n := range 10_000 {
		if i := all[n*7919%1000]; n%10 == 0 && since[i].IsZero() {
			since[i] = d.now
			d.s.Prioritize(i, schedule.Hint)
		}
		if turn := d.step(); turn.Why != schedule.None && !since[turn.Insertion].IsZero() {
			worst = max(worst, d.now.Sub(since[turn.Insertion]))
			delete(since, turn.Insertion)
		}
	}
	if worst > 15*time.Second || d.worst > tight {
		t.Errorf("an urgent one has waited %s, any %s", worst, d.worst)
	}
}

func TestUrgentOnesLeaveThreeTurnsOfTenToOthers(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	d.add(a, 500, 1, polled(-1))
	for _, i := range d.add(a, 500, 1, polled(0)) {
		d.s.Prioritize(i, schedule.Urgent)
	}
	d.run(100)
	if n := d.whys[schedule.Urgent]; n < 68 || n > 72 {
		t.Fatalf("%d turns of 100 were for urgent ones, want 70", n)
	}
	if n := d.s.Count(a)[schedule.Urgent]; int(n) != d.whys[schedule.Urgent] {
		t.Fatalf("%d were counted, %d given", n, d.whys[schedule.Urgent])
	}
}

func TestAHotAgencyLeavesAnotherHalfOfItsFairShare(t *testing.T) {
	d := newDrive(schedule.Options{})
	hot, cold, idle := d.s.Enter(nil), d.s.Enter(nil), d.s.Enter(nil)
	d.add(hot, 500, 200, polled(-1))
	d.add(cold, 500, 0.01, polled(-1))
	d.run(40_000)
	clear(d.polls)
	d.run(10_000)
	n := [3]int{}
	for i, polls := range d.polls {
		n[i.Agency] += polls
	}
	if n[hot] < 7200 || n[cold] < 2400 || n[idle] != 0 {
		t.Fatalf("of 10,000 turns the hot agency got %d, the other %d, the one that is empty %d", n[hot], n[cold], n[idle])
	}
}

func TestASmallAgencyHasATurnAMinuteBesideALargeOne(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	large, small := d.s.Enter(nil), d.s.Enter(nil)
	for _, i := range d.add(large, 9000, 1, polled(-1)) {
		d.s.Prioritize(i, schedule.Urgent)
	}
	one := d.add(small, 1, 1, polled(-1))[0]
	d.run(9000) // half an hour
	if n := d.polls[one]; n < 14 || n > 30 {
		t.Fatalf("it was polled %d times in 30 minutes", n)
	}
}

func TestWhatIsNotNeededIsNotSpent(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	a := d.s.Enter(nil)
	d.add(a, 8, 1, schedule.Memory{Born: at(-1)})
	for n := range 18_000 { // an hour
		if n%1500 == 0 {
			d.s.Read(a, 0, 1, d.now)
		}
		if turn := d.step(); turn.Why == schedule.Walk {
			d.s.Read(a, 0, 1, d.now)
		}
	}
	if sent := 18_000 - d.whys[schedule.None]; sent > 8*61+60 || sent < 8*59 {
		t.Fatalf("%d requests in an hour: %v", sent, d.whys)
	}
}

func TestAProcessThatStoodStillGoesOn(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	a := d.s.Enter(nil)
	d.add(a, 5, 1, polled(-1))
	for _, jump := range []time.Duration{time.Hour, 20 * 365 * 24 * time.Hour} {
		d.run(10)
		d.now = d.now.Add(jump)
		clear(d.polls)
		d.run(700)
		if len(d.polls) != 5 {
			t.Fatalf("after a jump by %s %d of 5 were polled", jump, len(d.polls))
		}
		for i, n := range d.polls {
			if n > 4 {
				t.Fatalf("after a jump by %s %v was polled %d times in two minutes", jump, i, n)
			}
		}
	}
}

func TestWhatFailedComesBackThoughTheClockJumpedWhileItWasAsked(t *testing.T) {
	const days = 24 * 60
	s := schedule.New(schedule.Options{})
	i := s.Add(s.Enter(nil), polled(0), at(0))
	next(t, s, at(1), schedule.Index, i)
	s.Put(i, at(40*days))
	next(t, s, at(40*days), schedule.Retry, i)
}

func TestWhatWasLearnedSurvivesARestart(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	fast, slow := d.add(a, 20, 30, polled(-1))[0], d.add(a, 180, 0.1, polled(-1))[0]
	d.run(20_000)
	s := schedule.New(schedule.Options{Staleness: time.Hour})
	b := s.Enter(d.s.Learned(a))
	m, n := d.s.Memory(fast), d.s.Memory(slow)
	m.LastPoll, n.LastPoll = at(0), at(0)
	s.Add(b, n, at(0))
	hot := s.Add(b, m, at(0))
	next(t, s, at(1), schedule.Index, hot)
	if got := s.Memory(s.Add(b, d.s.Memory(slow), d.now)); got != d.s.Memory(slow) {
		t.Fatalf("%+v became %+v", d.s.Memory(slow), got)
	}
	if again := s.Learned(b); string(again) != string(d.s.Learned(a)) {
		t.Fatal("what was learned changes by being read")
	}
}

func TestDamagedBytesAreNothingLearned(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	d.add(a, 20, 300, polled(-1))
	empty := string(d.s.Learned(a))
	d.run(2000)
	good := d.s.Learned(a)
	another := bytes.Replace(good, []byte(`"version":4`), []byte(`"version":3`), 1)
	cut := good[:len(good)-1]
	if string(empty) == string(good) || string(another) == string(good) {
		t.Fatal("nothing was learned")
	}
	for _, b := range [][]byte{nil, {1}, good[1:], append(good, 0), another, cut} {
		if s := schedule.New(schedule.Options{}); string(s.Learned(s.Enter(b))) != empty {
			t.Fatalf("%d bytes were taken up", len(b))
		}
	}
}

// slowly drives a schedule with an API that lets through less than a fifth of the budget.
func (d *drive) slowly(turns int, served func(schedule.Turn)) {
	for range turns {
		d.now = d.now.Add(1100 * time.Millisecond)
		turn, _ := d.s.Next(d.now)
		if turn.Why == schedule.None {
			continue
		}
		d.whys[turn.Why]++
		if served != nil {
			served(turn)
		}
		if turn.Why != schedule.Walk {
			d.s.Polled(turn.Insertion, d.now, nil)
		}
	}
}

func TestWhatFailedComesBackThoughTheCapCannotBeHeld(t *testing.T) {
	d := newDrive(schedule.Options{Interval: 30 * time.Second})
	a := d.s.Enter(nil)
	d.add(a, 1000, 0, polled(-1))
	d.slowly(3000, nil)
	turn, _ := d.s.Next(d.now)
	for turn.Why == schedule.None {
		d.now = d.now.Add(time.Second)
		turn, _ = d.s.Next(d.now)
	}
	d.s.Put(turn.Insertion, d.now.Add(time.Minute))
	asked := 0
	d.slowly(20_000, func(n schedule.Turn) {
		if n.Insertion == turn.Insertion && n.Why != schedule.Walk {
			asked++
		}
	})
	if asked < 5 {
		t.Errorf("it was polled %d times; %v", asked, d.whys)
	}
}

func TestAnAgencyIsAskedAgainAfterAPauseThoughTheCapCannotBeHeld(t *testing.T) {
	d := newDrive(schedule.Options{Interval: 30 * time.Second})
	a, b := d.s.Enter(nil), d.s.Enter(nil)
	d.add(a, 1000, 0, polled(-1))
	d.add(b, 50, 0, polled(-1))
	d.slowly(3000, nil)
	d.s.Pause(b, d.now.Add(time.Minute), false)
	asked := 0
	d.slowly(20_000, func(n schedule.Turn) {
		if n.Insertion.Agency == b {
			asked++
		}
	})
	if asked < 50 {
		t.Errorf("the agency was asked %d times; %v", asked, d.whys)
	}
}

func TestASmallAgencyIsAskedWhileALargeOneComesBack(t *testing.T) {
	d := newDrive(schedule.Options{Interval: 30 * time.Second})
	a, b := d.s.Enter(nil), d.s.Enter(nil)
	d.add(a, 10_000, 0.1, polled(-60*48))
	d.add(b, 20, 0.1, polled(-1))
	worst := time.Duration(0)
	lastB := d.now
	for range 8000 {
		n := d.step()
		if n.Why != schedule.None && n.Insertion.Agency == b {
			lastB = d.now
		}
		worst = max(worst, d.now.Sub(lastB))
	}
	if worst > 90*time.Second {
		t.Errorf("the small one had no turn for %v", worst)
	}
}

func TestWhoHasNothingToDoIsNotWokenAgainAndAgain(t *testing.T) {
	s := schedule.New(schedule.Options{Interval: time.Minute})
	a, now := s.Enter(nil), epoch
	for page := range 2 {
		s.Read(a, page, 2, now)
	}
	i := s.Add(a, schedule.Memory{Born: now}, now)
	pages, woken := 0, 0
	for now.Before(epoch.Add(6 * time.Hour)) {
		turn, wait := s.Next(now)
		switch turn.Why {
		case schedule.None:
			if woken++; wait == 0 {
				wait = time.Hour
			}
			now = now.Add(wait)
		case schedule.Walk:
			s.Read(a, pages%2, 2, now)
			pages++
		default:
			s.Put(i, now.Add(24*time.Hour))
		}
	}
	if woken > 1000 {
		t.Errorf("woken %d times in six hours, for %d pages", woken, pages)
	}
}

func TestTwoEqualAgenciesHaveEqualTurnsFromTheFirstMinuteOn(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Second})
	first, second := d.s.Enter(nil), d.s.Enter(nil)
	d.add(first, 10, 1, schedule.Memory{})
	d.run(5)
	d.add(second, 10, 1, schedule.Memory{})
	clear(d.polls)
	d.run(300) // a minute
	n := [2]int{}
	for i, polls := range d.polls {
		n[i.Agency] += polls
	}
	if n[first] > 2*n[second] || n[second] > 2*n[first] {
		t.Errorf("in the first minute one has %d turns, the other %d", n[first], n[second])
	}
}

func TestWhatFailedGetsEveryOtherTurn(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	d.add(a, 300, 1, polled(-1))
	for _, i := range d.add(a, 300, 1, polled(-1)) {
		d.s.Put(i, at(0))
	}
	d.run(200)
	if n := d.whys[schedule.Retry]; n < 98 || n > 102 {
		t.Fatalf("%d of 200 turns were for what failed: %v", n, d.whys)
	}
}

func TestUrgentOnesFailedOnesAndTheOthersShareTheTurns(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	d.add(a, 300, 1, polled(-1))
	for _, i := range d.add(a, 300, 1, polled(-1)) {
		d.s.Put(i, at(0))
	}
	for _, i := range d.add(a, 300, 1, polled(-1)) {
		d.s.Prioritize(i, schedule.Urgent)
	}
	d.run(200)
	for why, want := range map[schedule.Why]int{schedule.Urgent: 140, schedule.Retry: 30, schedule.Index: 30} {
		if n := d.whys[why]; n < want-2 || n > want+2 {
			t.Errorf("%d of 200 turns were for %s ones, want %d: %v", n, why, want, d.whys)
		}
	}
}
