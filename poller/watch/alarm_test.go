package watch

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestAnOperationIsFailingOnceItHasFailedInARowForLongEnough(t *testing.T) {
	minute := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	fail := func(l *Liveness, at int) { l.Fail("insertions", ClassTransient, errors.New("cut"), minute(at)) }
	for name, c := range map[string]struct {
		happens  func(l *Liveness)
		interval time.Duration
		want     bool
	}{
		"it was good five minutes ago":         {func(l *Liveness) { l.Succeed(minute(55)); fail(l, 59) }, time.Minute, true},
		"four minutes ago":                     {func(l *Liveness) { l.Succeed(minute(56)); fail(l, 59) }, time.Minute, false},
		"three intervals ago":                  {func(l *Liveness) { l.Succeed(minute(30)); fail(l, 59) }, 10 * time.Minute, true},
		"less than that":                       {func(l *Liveness) { l.Succeed(minute(31)); fail(l, 59) }, 10 * time.Minute, false},
		"it was excused since the last time":   {func(l *Liveness) { l.Succeed(epoch); l.Excuse(minute(58)); fail(l, 59) }, time.Minute, false},
		"it was excused after it had failed":   {func(l *Liveness) { l.Succeed(epoch); fail(l, 1); l.Excuse(minute(2)) }, time.Minute, false},
		"nothing has failed since the success": {func(l *Liveness) { l.Succeed(epoch) }, time.Minute, false},
	} {
		var l Liveness
		if c.happens(&l); l.Failing(c.interval, minute(60)) != c.want {
			t.Errorf("%s: failing is not %t", name, c.want)
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

func TestAnInsertionThatFailsOftenAndForLongIsUnreadable(t *testing.T) {
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
