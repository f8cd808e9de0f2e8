package schedule_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/schedule"
)

func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

// scripts are what happens to a schedule of x, y and z, which were polled in this order just before
// minute 0, with an interval of two minutes. "next x" expects that turn, "idle 3" that nothing is
// due for three minutes and "idle 0" until something happens; "named x" expects x of NextNudge.
var scripts = map[string]string{
	"none is polled before its interval has passed": `
		at 1; idle 1; at 2; next x; polled x; next y; next z; idle 2; at 4; next x; idle 0`,
	"a new one is polled immediately": `add a; next a; idle 2`,
	"urgent ones come in the order in which they became urgent": `
		urge y z y x; next y; next z; next x; idle 0`,
	"urgent ones have every second turn": `at 2; urge y z; next y; next x; next z`,
	"one that is in flight is polled once more": `
		at 2; next x; urge x; polled x; next y; next x; next z; idle 0`,
	"nudged ones come before urgent ones, once": `
		named -; urge x z; nudge y z y; named y; nudge y; named z; next x; polled y; named y; named -`,
	"the turn after a nudged one is not an urgent one": `at 2; nudge y; urge z; named y; next x; next z`,
	"one that failed waits and comes back": `
		at 2; next x; put x 7; next y; next z; idle 5; at 7; next x; idle 0`,
	"one that failed waits no longer if it is urged": `at 2; next x; put x 90; urge x; next y; next x`,
	"a pause holds an agency, which then lets one go at a time": `
		pause 5 one; at 2; idle 3; at 5; next x; idle 0; polled x; next y; pause 0 all; next z`,
	"what is removed is gone": `remove x; at 2; next y; remove y; polled y; next z; idle 0`,
}

func TestScripts(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			s := schedule.New(schedule.Options{Rate: 5, Interval: 2 * time.Minute}, epoch)
			for n, reference := range []string{"x", "y", "z"} {
				s.Add("A100", reference, time.Time{}, epoch.Add(time.Duration(n-3)*time.Millisecond), epoch)
			}
			minute := 0
			for command := range strings.SplitSeq(script, ";") {
				words := strings.Fields(command)
				if words[0] == "at" {
					minute, _ = strconv.Atoi(words[1])
				} else if got := do(s, minute, words[0], words[1:]); got != "" && got != strings.Join(words, " ") {
					t.Fatalf("minute %d: %s, want%s", minute, got, command)
				}
			}
		})
	}
}

// do carries out a command, and checks an expectation.
func do(s *schedule.Schedule, minute int, verb string, args []string) string {
	now, arg := at(minute), args[0]
	number, _ := strconv.Atoi(args[len(args)-1])
	switch verb {
	case "next", "idle":
		turn, wait := s.Next(now)
		if turn == schedule.None {
			return fmt.Sprint("idle ", math.Round(wait.Minutes()))
		}
		return "next " + turn.Reference
	case "named":
		if turn := s.NextNudge(now); turn != schedule.None {
			return "named " + turn.Reference
		}
		return "named -"
	case "add":
		s.Add("A100", arg, time.Time{}, time.Time{}, now)
	case "remove":
		s.Remove("A100", arg)
	case "urge":
		s.Urge("A100", args...)
	case "nudge":
		for _, reference := range args {
			s.Nudge("A100", reference)
		}
	case "polled":
		s.Polled("A100", arg, now, nil)
	case "put":
		s.Put("A100", arg, at(number))
	case "pause":
		until := time.Time{}
		if n, _ := strconv.Atoi(arg); n > 0 {
			until = at(n)
		}
		s.Pause("A100", until, args[1] == "one")
	}
	return ""
}

// drive polls as often as five requests a second allow, and responds immediately: each insertion gets
// contact requests at its rate a day.
type drive struct {
	*schedule.Schedule
	now   time.Time
	gap   time.Duration
	rate  map[string]float64
	last  map[string]time.Time
	polls map[string]int
	idle  int           // turns without a poll
	worst time.Duration // longest that one waited
	r     *rand.Rand
}

func newDrive(o schedule.Options) *drive {
	o.Rate = 5
	return &drive{
		Schedule: schedule.New(o, epoch), now: epoch, gap: 200 * time.Millisecond, r: rand.New(rand.NewPCG(1, 2)),
		rate: map[string]float64{}, last: map[string]time.Time{}, polls: map[string]int{},
	}
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

func (d *drive) run(turns int) {
	for range turns {
		d.now = d.now.Add(d.gap)
		turn, _ := d.Next(d.now)
		if turn == schedule.None {
			d.idle++
			continue
		}
		var created []time.Time
		i := turn.Reference
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
}

// ofAgency is how often the insertions of an agency were polled.
func (d *drive) ofAgency(agency string) (n int) {
	for reference, polls := range d.polls {
		if strings.HasPrefix(reference, agency) {
			n += polls
		}
	}
	return n
}

func TestNoInsertionWaitsLongerThanTheCap(t *testing.T) {
	for name, tt := range map[string]struct {
		staleness, cap time.Duration
		insertions     func(d *drive)
	}{
		"automatic":  {0, 800 * time.Second, quietAndBusy}, // four rounds
		"short":      {5 * time.Minute, 5 * time.Minute, quietAndBusy},
		"impossible": {time.Second, 221 * time.Second, quietAndBusy},
		// 1,500 new ones while those of another agency are close to the cap
		"many new ones": {20 * time.Minute, 20 * time.Minute, func(d *drive) {
			d.add("A100", 2000, 50, time.Nanosecond)
			d.add("B200", 1800, 0.001, 7*time.Minute) // 13 minutes are left, it takes 6
			d.Urge("A100", d.add("A100", 1500, 50, time.Nanosecond)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(schedule.Options{Staleness: tt.staleness})
			tt.insertions(d)
			d.run(60_000)
			if d.worst > tt.cap {
				t.Fatalf("one has waited %s, the cap is %s", d.worst, tt.cap)
			}
		})
	}
}

func quietAndBusy(d *drive) {
	d.add("A100", 950, 0.001, time.Nanosecond) // all were polled at the same time
	d.add("A100", 50, 500, time.Nanosecond)
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

// TestWhatIsNotNeededIsNotSpent lets insertions be polled as often as they may be, hot ones beside
// quiet ones, also after the process was suspended.
func TestWhatIsNotNeededIsNotSpent(t *testing.T) {
	d := newDrive(schedule.Options{Interval: time.Minute})
	d.add("A100", 20, 10_000, time.Minute)
	d.add("A100", 200, 0.01, time.Minute)
	for _, jump := range []time.Duration{0, time.Hour, 7 * day} {
		d.now = d.now.Add(jump)
		d.run(3000)
		d.idle = 0
		clear(d.polls)
		d.run(3000)
		if d.idle < 700 || d.idle > 900 || len(d.polls) != 220 { // 220 of 300 a minute
			t.Errorf("%s later %d of 3000 requests were not spent on %d insertions", jump, d.idle, len(d.polls))
		}
	}
}

// TestNoInsertionWaitsForeverThoughTheCapCannotBeMet has an API that answers a fifth of what the
// budget allows.
func TestNoInsertionWaitsForeverThoughTheCapCannotBeMet(t *testing.T) {
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

// TestNothingIsLostOrGivenOutTwice does random things and compares the schedule with a plain map.
func TestNothingIsLostOrGivenOutTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedule.New(schedule.Options{Rate: 5, Interval: time.Minute}, epoch)
		agencies := []string{"A100", "B200", "C300"}
		known, inFlight := map[schedule.Turn]bool{}, map[schedule.Turn]bool{}
		minute := 0
		draw := func(rt *rapid.T) schedule.Turn {
			agency := rapid.SampledFrom(agencies).Draw(rt, "agency")
			return schedule.Turn{Agency: agency, Reference: fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "reference"))}
		}
		ago := func(rt *rapid.T, most int) time.Time { return at(minute - rapid.IntRange(-10, most).Draw(rt, "ago")) }
		give := func(rt *rapid.T, n schedule.Turn) {
			if n != schedule.None && (inFlight[n] || !known[n]) {
				rt.Fatalf("%v was given out, known %t, in flight %t", n, known[n], inFlight[n])
			}
			inFlight[n] = n != schedule.None
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				n := draw(rt)
				last := rapid.SampledFrom([]time.Time{{}, ago(rt, 3)}).Draw(rt, "last")
				s.Add(n.Agency, n.Reference, ago(rt, 9), last, at(minute))
				known[n] = true
			},
			"urge": func(rt *rapid.T) { n := draw(rt); s.Urge(n.Agency, n.Reference) },
			"nudge": func(rt *rapid.T) {
				if n := draw(rt); s.Nudge(n.Agency, n.Reference) != known[n] {
					rt.Fatalf("the nudge of %v is %t", n, !known[n])
				}
			},
			"next nudge": func(rt *rapid.T) { give(rt, s.NextNudge(at(minute))) },
			"remove": func(rt *rapid.T) {
				n := draw(rt)
				s.Remove(n.Agency, n.Reference)
				delete(known, n)
				delete(inFlight, n)
			},
			"pause": func(rt *rapid.T) {
				s.Pause(draw(rt).Agency, ago(rt, 2), rapid.Bool().Draw(rt, "one by one"))
			},
			"jump": func(rt *rapid.T) { minute += rapid.IntRange(0, 100_000).Draw(rt, "minutes") },
			"result": func(rt *rapid.T) {
				n := draw(rt)
				if rapid.Bool().Draw(rt, "good") {
					s.Polled(n.Agency, n.Reference, at(minute), []time.Time{ago(rt, 1000), {}})
				} else if inFlight[n] {
					s.Put(n.Agency, n.Reference, ago(rt, 0))
				}
				delete(inFlight, n)
			},
			"next": func(rt *rapid.T) {
				minute++
				n, wait := s.Next(at(minute))
				give(rt, n)
				waiting := map[string]bool{}
				for n := range known {
					waiting[n.Agency] = true
				}
				for n, is := range inFlight { // with one at a time, the others of its agency wait for that
					if is {
						delete(waiting, n.Agency)
					}
				}
				if n == schedule.None && wait == 0 && len(waiting) > 0 {
					rt.Fatalf("of %v none will ever be due", waiting)
				}
			},
		})
		delete(inFlight, schedule.None)
		for n := range inFlight {
			s.Polled(n.Agency, n.Reference, at(minute), nil)
		}
		for _, id := range agencies {
			s.Pause(id, time.Time{}, false)
		}
		given := map[schedule.Turn]bool{}
		for range 150 {
			minute++
			if turn, _ := s.Next(at(minute)); turn != schedule.None {
				given[turn] = true
			}
		}
		if len(given) != len(known) {
			rt.Fatalf("%d given out at the end, %d known", len(given), len(known))
		}
	})
}

func TestAnInsertionWaitsSinceItsLastPollOrSinceItWasAdded(t *testing.T) {
	o := schedule.Options{Rate: 5, Interval: 30 * time.Second, Staleness: 10 * time.Minute}
	s := schedule.New(o, epoch)
	s.Add("A100", "new", time.Time{}, time.Time{}, at(1))
	s.Add("A100", "known", time.Time{}, at(-7), at(1))
	want := map[schedule.Wait]bool{
		{Reference: "new", Since: at(1), Never: true}: true, {Reference: "known", Since: at(-7)}: true,
	}
	all, limit := s.Waits("A100")
	for _, w := range all {
		delete(want, w)
	}
	if len(want) > 0 || len(all) != 2 || limit != o.Staleness {
		t.Errorf("%v, at most %s", all, limit)
	}
}
