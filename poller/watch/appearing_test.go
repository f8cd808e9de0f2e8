package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
	"doorbell/store"
)

// appearing ends walks over 100 published insertions, two minutes apart.
type appearing struct {
	now    time.Time
	took   time.Duration // by each walk
	before Unconfirmed
	state  store.Agency
}

func newAppearing() *appearing {
	return &appearing{now: epoch, state: store.Agency{WatchStart: epoch, Baselined: true, CompleteWalks: 2, LastCompleteWalk: epoch}}
}

func news(n int) (all []string) {
	for n := range n {
		all = append(all, fmt.Sprint("b", n))
	}
	return all
}

// walk ends a walk that shows so many of the published ones, and news.
func (a *appearing) walk(complete bool, listed int, news []string) WalkEnd {
	a.now = a.now.Add(2 * time.Minute)
	w := Walked{
		Verdict: listings.Verdict{Complete: complete, Pages: 1, Reason: listings.ReasonCanceled}, Walk: NewWalk(nil, a.now),
		Unconfirmed: a.before,
	}
	w.Appearing = Appearing{New: len(news), Listed: listed}
	var published []store.Insertion
	for n := range 100 {
		reference := fmt.Sprint("a", n)
		published = append(published, store.Insertion{Reference: reference, FirstSeen: epoch})
		if n < listed {
			w.Seen[reference] = struct{}{}
		}
	}
	if w.Appearing.Many() {
		w.Appearing.Waits = news
	}
	for _, reference := range news {
		w.Seen[reference] = struct{}{}
	}
	a.now = a.now.Add(a.took)
	e := EndWalk("A100", walkRules, a.state, slices.Values(published), w, a.now)
	a.state, a.before = *e.State, e.Unconfirmed
	return e
}

func TestAMassAppearanceIsBelievedWhenAnotherWalkShowsIt(t *testing.T) {
	for _, c := range []struct {
		name        string
		listed, new int
		told        int
		again       bool
		toldNext    int
	}{
		{"few", 100, 5, 0, false, 0}, // are told page by page
		{"a small part", 100, 30, 30, false, 30},
		{"a mass", 100, 31, 0, true, 31},
		{"a mass, where most is missing", 60, 31, 0, false, 0},
		{"a small part, where most is missing", 60, 30, 0, false, 0},
		{"nearly as much as is missing", 75, 31, 0, true, 31},
	} {
		a := newAppearing()
		e := a.walk(true, c.listed, news(c.new))
		next := a.walk(true, c.listed, news(c.new))
		if len(e.Appeared) != c.told || e.Again != c.again || len(next.Appeared) != c.toldNext || next.Again {
			t.Errorf("%s: %d told, again %t, then %d, again %t", c.name, len(e.Appeared), e.Again, len(next.Appeared), next.Again)
		}
	}
}

func TestWhereNoWalkIsCompleteAMassThatMayBeSomebodyElsesIsBelievedAfterAHold(t *testing.T) {
	a := newAppearing()
	for minute := 2; ; minute += 2 {
		e := a.walk(false, 10, news(40))
		if told, want := len(e.Appeared), minute >= 32; told != 0 != want || e.Again {
			t.Fatalf("%d told after %d minutes, again %t", told, minute, e.Again)
		} else if want {
			break
		}
	}
}

func TestWhatIsHeldTogetherIsBelievedTogether(t *testing.T) {
	for _, approved := range []bool{false, true} {
		a := newAppearing()
		for a.walk(true, 10, news(40)).Held {
			if approved {
				a.state.Held.Approved, a.state.Held.Until = true, a.now
			}
		}
		if len(a.before) > 0 {
			t.Errorf("approved %t: %d wait on", approved, len(a.before))
		}
		if waited := a.now.Sub(epoch); approved && waited > 4*time.Minute || !approved && waited != 32*time.Minute {
			t.Errorf("approved %t: believed after %s", approved, waited)
		}
	}
}

func TestAnApprovedChangeIsWhatCompleteWalksHaveShown(t *testing.T) {
	for name, c := range map[string]struct {
		complete bool
		then     []string
		told     int
	}{
		"the same":                 {true, news(40), 40},
		"another walk is partial":  {false, news(40), 0},
		"another one shows others": {true, []string{"c0", "c1", "c2", "c3", "c4", "c5"}, 0},
	} {
		a := newAppearing()
		a.walk(true, 10, news(40))
		a.state.Held.Approved, a.state.Held.Until = true, a.now
		if c.then = append(c.then, news(40)...); c.told > 0 {
			c.then = c.then[:40]
		}
		told := 0
		for r := range a.walk(c.complete, 10, c.then).Appeared {
			if r[0] == c.then[0][0] {
				told++
			}
		}
		if told != c.told {
			t.Errorf("%s: %d told", name, told)
		}
	}
}

func TestNoWalkConfirmsWhatItDoesNotShow(t *testing.T) {
	a := newAppearing()
	a.walk(true, 100, news(40))
	both := append([]string{"c1"}, news(40)...)
	if e := a.walk(true, 100, both); len(e.Appeared) != 40 || e.Again || len(a.before) != 1 {
		t.Errorf("%d told, again %t, %d wait", len(e.Appeared), e.Again, len(a.before))
	}
	a.now = a.now.Add(walkRules.HoldFor)
	if e := a.walk(true, 100, both); len(e.Appeared) > 0 || !e.Again {
		t.Errorf("%d told by what was shown long ago, again %t", len(e.Appeared), e.Again)
	}
}

func TestWhatTheListOfSomebodyElseShowedConfirmsNothing(t *testing.T) {
	for _, complete := range []bool{false, true} {
		a := newAppearing()
		a.walk(complete, 10, news(40))
		if e := a.walk(complete, 100, news(40)); len(e.Appeared) > 0 {
			t.Errorf("complete %t: %d told", complete, len(e.Appeared))
		}
	}
}

func TestAMassIsBelievedWhereSlowWalksShowItOnlySometimes(t *testing.T) {
	a := newAppearing()
	a.took = 2 * walkRules.HoldFor
	a.walk(true, 100, news(40))
	a.walk(true, 100, nil)
	if e := a.walk(true, 100, news(40)); len(e.Appeared) != 40 {
		t.Errorf("%d told", len(e.Appeared))
	}
}

func TestAListThatAlwaysChangesIsNoReasonToWalkAtOnceEachTime(t *testing.T) {
	a, again := newAppearing(), 0
	for n := range 30 { // an hour
		var all []string
		for i := range 40 {
			all = append(all, fmt.Sprint("c", n, "#", i))
		}
		if e := a.walk(true, 100, all); len(e.Appeared) > 0 {
			t.Fatalf("%d told", len(e.Appeared))
		} else if e.Again {
			again++
		}
	}
	if again != 1 {
		t.Errorf("%d walks follow at once", again)
	}
}

// TestMoreThanCanBeKeptIsAnnouncedByOneWalkAfterTheOther keeps back records of 5 MiB each: four can wait.
func TestMoreThanCanBeKeptIsAnnouncedByOneWalkAfterTheOther(t *testing.T) {
	record := make([]byte, 5<<20)
	state := store.Agency{WatchStart: epoch, Baselined: true, CompleteWalks: 2, LastCompleteWalk: epoch}
	published, before, now := map[string]bool{}, Unconfirmed(nil), epoch
	for n, want := range []struct {
		told  int
		again bool
	}{{0, true}, {4, true}, {4, true}, {4, false}} { // the last four are few
		page := &listings.InsertionsPage{}
		page.Received = now
		for i := range 12 {
			page.Insertions = append(page.Insertions, listings.Insertion{Reference: fmt.Sprint("b", i), Record: record})
		}
		w := NewWalk(nil, now)
		listed, _ := w.Unseen(page)
		listed = w.Postpone(listed, true, func(r string) bool { return published[r] })
		var all []store.Insertion
		for r := range published {
			all = append(all, store.Insertion{Reference: r, FirstSeen: epoch})
		}
		e := EndWalk("A100", walkRules, state, slices.Values(all), Walked{
			Verdict: listings.Verdict{Complete: true, Pages: 1}, Walk: w, Unconfirmed: before,
		}, now)
		state, before = *e.State, e.Unconfirmed
		known := len(published)
		for _, s := range slices.Concat(append(w.Appeared(e), listed)...) {
			published[s.Reference] = true
		}
		if told := len(published) - known; told != want.told || e.Again != want.again || len(w.Seen) != len(published) {
			t.Fatalf("walk %d announces %d, again %t, has seen %d of %d", n, told, e.Again, len(w.Seen), len(published))
		}
		now = now.Add(time.Second)
	}
}

// TestWhateverWalksShowedBeforeWhatStaysIsToldSoon draws walks over lists of ours, of somebody else, mixed ones and broken ones.
func TestWhateverWalksShowedBeforeWhatStaysIsToldSoon(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := newAppearing()
		shown, told := map[string]int{}, map[string]bool{}
		walk := func(complete bool, listed int, all []string) {
			all = slices.DeleteFunc(slices.Clone(all), func(r string) bool { return told[r] })
			for _, r := range all {
				shown[r]++
			}
			e := a.walk(complete, listed, all)
			for r := range e.Appeared {
				if shown[r] < 2 && len(all)*10 > 3*100 && !(a.state.Held != nil && a.state.Held.Approved) {
					rt.Fatalf("%s is told by the one walk that has shown it", r)
				}
				told[r] = true
			}
		}
		for range rapid.IntRange(0, 30).Draw(rt, "walks") {
			all := news(rapid.IntRange(0, 60).Draw(rt, "new"))
			from := rapid.IntRange(0, len(all)).Draw(rt, "from")
			walk(rapid.Bool().Draw(rt, "complete"), rapid.IntRange(0, 100).Draw(rt, "listed"), all[from:])
			a.now = a.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "pause")) * time.Minute)
		}
		all := []string{}
		for n := range rapid.IntRange(6, 60).Draw(rt, "stay") {
			all = append(all, fmt.Sprint("s", n))
		}
		walk(true, 100, all)
		for n := range rapid.IntRange(0, 10).Draw(rt, "others") { // each time another one more
			walk(true, 100, append(slices.Clone(all), fmt.Sprint("x", n)))
		}
		walk(true, 100, all)
		for _, r := range all {
			if !told[r] && len(all) > fewAppear {
				rt.Fatalf("%s is not told", r)
			}
		}
	})
}
