package watch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
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
		s := Standing{Cap: 10 * time.Minute, late: 1, answerable: 10}
		if minute == 20 {
			s.late = 0
		}
		got := l.Late(s, begin, 5*time.Minute, begin.Add(time.Duration(minute)*time.Minute))
		// Nine minutes after the start is the last time that it is excused; at minute 20 it is timely.
		if want := minute >= 9+5 && minute < 20 || minute >= 20+5; got != want {
			t.Errorf("minute %d: late %t", minute, got)
		}
	}
}

func TestACheckRaisesAndClearsWhatIsStale(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	many, few := Standing{Cap: time.Minute, late: 1, answerable: 10}, Standing{Cap: time.Minute, late: 1, answerable: 11}
	failed := []events.StaleError{{Text: "cut"}}
	for _, c := range []struct {
		name         string
		l            Liveness
		s            Standing
		on           time.Time
		raise, clear bool
		errs         string
	}{
		{"silent", Liveness{Good: ago(6), Failed: ago(1), Errors: failed}, few, time.Time{}, true, false, "[cut]"},
		{"silent, and late", Liveness{Good: ago(6), Failed: ago(1), Timely: ago(6), Errors: failed}, many, time.Time{}, true, false, "[cut]"},
		{"late for long", Liveness{Good: ago(1), Timely: ago(5)}, many, time.Time{}, true, false, "[1 of 10 insertions wait for longer than 1m0s]"},
		{"late, and failing", Liveness{Good: ago(1), Timely: ago(5), Errors: failed}, many, time.Time{}, true, false, "[cut 1 of 10 insertions wait for longer than 1m0s]"},
		{"late for a while", Liveness{Good: ago(1), Timely: ago(4)}, many, time.Time{}, false, false, "[]"},
		{"few late", Liveness{Good: ago(1), Timely: ago(9)}, few, time.Time{}, false, false, "[]"},
		{"on, and still silent", Liveness{Good: ago(60), Failed: ago(1)}, few, ago(50), false, false, "[]"},
		{"on, and still late", Liveness{Good: ago(1)}, many, ago(50), false, false, "[]"},
		{"on, and good again", Liveness{Good: ago(1)}, few, ago(50), false, true, "[]"},
	} {
		raise, clear, errs := c.l.Check(listings.OperationContactRequests, c.s, c.on, ago(600), 5*time.Minute, now)
		texts := []string{}
		for _, e := range errs {
			texts = append(texts, e.Text)
		}
		if raise != c.raise || clear != c.clear || fmt.Sprint(texts) != c.errs {
			t.Errorf("%s: raise %t, clear %t, %v", c.name, raise, clear, texts)
		}
	}
}

func TestWhatIsLateIsCountedFromATenthOn(t *testing.T) {
	for s, want := range map[Standing]bool{
		{late: 0, answerable: 0}: false, {late: 0, answerable: 8}: false, {late: 1, answerable: 8}: true, {late: 1, answerable: 10}: true,
		{late: 1, answerable: 11}: false, {late: 9, answerable: 100}: false, {late: 1000, answerable: 10_000}: true,
	} {
		if got := s.behind(); got != want {
			t.Errorf("%d of %d: %t", s.late, s.answerable, got)
		}
	}
}

func TestHowInsertionsStandIsCountedByTheCap(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) Wait { return Wait{Reference: d.String(), Since: now.Add(-d)} }
	waits := []Wait{ago(time.Minute), ago(10 * time.Minute), ago(10*time.Minute + 1), ago(11*time.Minute + 1), ago(time.Hour)}
	waits[0].Never = true
	s := Stand(waits, 10*time.Minute, func(r string) bool { return r == "1h0m0s" || r == "1m0s" }, now)
	want := Standing{Cap: 10 * time.Minute, Insertions: 5, Never: 1, Past: 3, Oldest: now.Add(-time.Hour), answerable: 4, late: 1}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

func TestUnreadableIsWhatFailsOftenAndForLong(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failures int
		since    time.Duration
		interval time.Duration
		want     bool
	}{
		{3, 5 * time.Minute, time.Minute, true},
		{2, time.Hour, time.Minute, false},
		{3, 5*time.Minute - 1, time.Minute, false},
		{3, 5 * time.Minute, 2 * time.Minute, false},
		{3, 6 * time.Minute, 2 * time.Minute, true},
	} {
		if got := (Backoff{Failures: c.failures, Since: now.Add(-c.since)}).CannotRead(c.interval, now); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestAnAlarmIsRaisedOnceAndClearedOnce(t *testing.T) {
	for _, kind := range []string{Stale, Drifted, Incomplete, Unreadable, WindowFull} {
		id := AlarmOf(kind, listings.OperationInsertions, "")
		raise := func(on Alarms) (e Effects) {
			e.Raise(on, store.Alarm{AlarmID: id, Since: epoch, Example: "a#1##"}, &events.WatchStale{})
			return e
		}
		on := Alarms(nil).After(raise(nil))
		if again := raise(on); on[id].Since != epoch || !again.Empty() {
			t.Errorf("%s: %+v, %+v", kind, on, again)
		}
		var e, again Effects
		e.Clear(on, id, "A100", epoch.Add(time.Minute))
		off := on.After(e)
		again.Clear(off, id, "A100", epoch)
		if len(off) != 0 || len(on) != 1 || !again.Empty() {
			t.Errorf("%s: %+v, %+v", kind, off, again)
		}
		r := e.Events[0].(*events.WatchRecovered)
		if r.Ends != Ends(kind) || !r.Since.Equal(epoch) || r.PropertyReferenceID != "a#1##" || r.Operation != "insertions" {
			t.Errorf("%s: %+v", kind, r)
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
