package relay

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events/helptest"
)

// bubble is a test in virtual time. Goroutines of the server may look again whether it is down after it is.
func bubble(t *testing.T, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		test(t)
	})
	runtime.GC() // twice: nats.go keeps timers for others, who cannot use those of a bubble
	runtime.GC()
}

// within waits in virtual time, and looks a thousand times at most.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(max(100*time.Millisecond, d/1000)) { // virtual: it takes no time
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func TestALostStreamIsFoundWithinTheHour(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.log.ring(t, "A100", 3)
		stop := b.start(b.relay())
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		must(t, b.js.DeleteStream(t.Context(), "LISTINGS"))
		within(t, 61*time.Minute, "offered again", func() bool { return b.holdsAll("A100") })
		stop()
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

func TestAFullStreamIsTriedRarelyAndLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		var log helptest.Lines
		b.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.o.MaxBytes, b.o.Embedded = 10_000, false
		r := b.relay()
		stop := b.start(r)
		b.log.ring(t, "A100", 100)
		time.Sleep(2 * time.Minute) // the back-off is at its longest
		before := b.nc.Stats().OutMsgs
		time.Sleep(30 * time.Minute)
		if n := b.nc.Stats().OutMsgs - before; n < 50 || n > 110*120 {
			t.Errorf("%d messages in half an hour", n)
		}
		if n := strings.Count(log.String(), "events wait in the log"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		if s := r.Status(); s.Problem == "" || !s.Open || s.Failures[reasonFull] == 0 || time.Since(s.Turned) > time.Minute {
			t.Errorf("status %+v", s)
		}
		if n := len(held(t, b.js, ">")); b.log.cursor().Highest != uint64(n) {
			t.Errorf("the cursor is at %d, the stream holds %d", b.log.cursor().Highest, n)
		}
		c := b.o.StreamConfig()
		c.MaxBytes = 1 << 20
		if _, err := b.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		within(t, 46*time.Second, "published", func() bool { return b.published("A100") })
		stop()
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

func TestAServerThatWasAwayForDaysGetsEverythingWithinSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		var log helptest.Lines
		b.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		stop := b.start(b.relay())
		b.log.ring(t, "A100", 2)
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		b.server.Shutdown()
		for range 72 {
			time.Sleep(time.Hour)
			b.log.ring(t, "A100", 20)
		}
		if n := strings.Count(log.String(), "level=ERROR") + strings.Count(log.String(), "level=WARN"); n < 1 || n > 6 {
			t.Errorf("%d lines about an outage of 72 hours:\n%s", n, &log)
		}
		must(t, b.server.Restart(context.Background()))
		within(t, 5*time.Second, "published", func() bool { return b.published("A100") })
		stop()
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}
