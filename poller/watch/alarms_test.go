package watch

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestSilenceIsMeasuredSinceTheLastThatExcusesIt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for _, c := range []struct {
		name  string
		began time.Time
		l     Liveness
		want  bool
	}{
		{"it fails for long", ago(60), Liveness{Good: ago(30), Failed: ago(1)}, true},
		{"it just began, and fails", ago(1), Liveness{Good: ago(30), Failed: ago(0)}, true},
		{"it just began, and nothing has failed", ago(1), Liveness{Good: ago(30)}, false},
		{"it was good", ago(60), Liveness{Good: ago(4), Failed: ago(1)}, false},
		{"it was halted", ago(60), Liveness{Good: ago(30), Calm: ago(2), Failed: ago(1)}, false},
	} {
		if got := c.l.Silent(c.began, StaleAfter(30*time.Second), now); got != c.want {
			t.Errorf("%s: silent %t", c.name, got)
		}
	}
}

func TestLateIsWhatIsLateAtEveryCheck(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var l Liveness
	for minute := range 40 {
		got := l.Late(minute != 20, begin, 10*time.Minute, 5*time.Minute, begin.Add(time.Duration(minute)*time.Minute))
		// Nine minutes after the start is the last time that it is excused; at minute 20 it is timely.
		if want := minute >= 9+5 && minute < 20 || minute >= 20+5; got != want {
			t.Errorf("minute %d: late %t", minute, got)
		}
	}
}

func TestTheLastErrorsAreKept(t *testing.T) {
	var l Liveness
	for n := range 25 {
		l.Fail("insertions", ClassTransient, errors.New(fmt.Sprint(n)), time.Unix(int64(n), 0))
	}
	if len(l.Errors) != 10 || l.Errors[0].Text != "15" || l.Errors[9].Text != "24" || !l.Failed.Equal(time.Unix(24, 0)) {
		t.Errorf("%+v", l)
	}
}

func TestAMassAppearanceIsBelievedTheSecondTime(t *testing.T) {
	for _, c := range []struct {
		name              string
		a                 Appearing
		held              bool
		believed, confirm bool
	}{
		{"few", Appearing{New: 5, Listed: 5}, false, true, false},
		{"a small part", Appearing{New: 30, Listed: 100}, false, true, false},
		{"for the first time", Appearing{New: 31, Listed: 100}, false, false, true},
		{"for the second time", Appearing{New: 31, Listed: 100, Confirmed: true}, false, true, false},
		{"after a walk too large to keep", Appearing{New: 31, Listed: 100, Trusted: true}, false, true, false},
		{"with a mass disappearance", Appearing{New: 31, Listed: 100, Confirmed: true}, true, false, false},
		{"with one that no complete walk has held", Appearing{New: 31, Listed: 60, Confirmed: true}, false, false, false},
		{"while one is held", Appearing{New: 31, Listed: 100}, true, false, false},
	} {
		if believed, confirm := c.a.Believed(100, c.held); believed != c.believed || confirm != c.confirm {
			t.Errorf("%s: believed %t, confirm %t", c.name, believed, confirm)
		}
	}
}
