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

func TestFailingIsMeasuredSinceTheLastSuccess(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	failed := []events.StaleError{{Text: "cut"}}
	for _, c := range []struct {
		name string
		l    Liveness
		want bool
	}{
		{"it fails for long", Liveness{Good: ago(30), Errors: failed}, true},
		{"just long enough", Liveness{Good: ago(5), Errors: failed}, true},
		{"it was good", Liveness{Good: ago(4), Errors: failed}, false},
		{"it was halted", Liveness{Good: ago(30), Calm: ago(2), Errors: failed}, false},
		{"nothing has failed", Liveness{Good: ago(600)}, false},
	} {
		if got := c.l.Failing(StaleAfter(30*time.Second), now); got != c.want {
			t.Errorf("%s: failing %t", c.name, got)
		}
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
		if kind != Stale {
			if len(e.Events) != 0 {
				t.Errorf("%s: %+v", kind, e.Events)
			}
			continue
		}
		if r := e.Events[0].(*events.WatchRecovered); r.Ends != "stale" || !r.Since.Equal(epoch) || r.Operation != "insertions" {
			t.Errorf("%+v", r)
		}
	}
}

func TestTheLastErrorsAreKept(t *testing.T) {
	var l Liveness
	for n := range 25 {
		l.Fail("insertions", ClassTransient, errors.New(fmt.Sprint(n)), time.Unix(int64(n), 0))
	}
	if len(l.Errors) != 10 || l.Errors[0].Text != "15" || l.Errors[9].Text != "24" {
		t.Errorf("%+v", l)
	}
}
