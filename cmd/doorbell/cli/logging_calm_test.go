package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// calmLog is a log without times and levels, in a bubble.
func calmLog(t *testing.T, live func(log *slog.Logger)) string {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		text := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})
		live(slog.New(NewDedupe(text)))
		time.Sleep(2 * time.Hour)
	})
	return out.String()
}

func TestARepeatedFailureIsLoggedAtOnceAndThenNowAndThenWithACount(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		for range 24 * 60 * 60 {
			log.Error("no space", "err", "disk full")
			time.Sleep(time.Second)
		}
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if lines[0] != `msg="no space" err="disk full"` || !strings.HasPrefix(lines[dedupeBurst], `msg="no space" err="disk full" repeated=59`) {
		t.Errorf("it begins with\n%s\n%s", lines[0], lines[dedupeBurst])
	}
	if n := len(lines); n < 24*5 || n > 24*6+dedupeBurst {
		t.Errorf("%d lines in a day", n)
	}
}

func TestAFailureThatChangesIsLoggedButNotWithoutBound(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		for n := range 3600 {
			log.Warn("a poll failed", "err", fmt.Sprint("timeout ", n%7))
			time.Sleep(time.Second)
		}
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	for n := range dedupeBurst {
		if want := fmt.Sprintf(`msg="a poll failed" err="timeout %d"`, n); lines[n] != want {
			t.Errorf("line %d is %s, want %s", n, lines[n], want)
		}
	}
	if n := len(lines); n > 10 {
		t.Errorf("%d lines in an hour", n)
	}
}

func TestTheEndOfAFailureThatComesAndGoesIsInTheLog(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		nats := log.With("part", "nats")
		for range 500 {
			nats.Warn("NATS connection lost", "err", "EOF")
			time.Sleep(3 * time.Second)
			nats.Info("NATS connected again", "server", "doorbell")
			time.Sleep(4 * time.Second)
		}
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if n := len(lines); n > 2*10 {
		t.Errorf("%d lines in an hour", n)
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, "connected again") {
		t.Errorf("the last line is %s", last)
	}
}

func TestEveryHaltIsLogged(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		for range 10 { // somebody tries again with the same key
			log.Error("access halted", "agency", "A100", "scope", "agency", "status", 403)
			time.Sleep(time.Minute)
			log.Info("access resumed", "agency", "A100", "scope", "agency", "cause", "operator")
			time.Sleep(time.Second)
		}
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 20 {
		t.Errorf("%d lines", len(lines))
	}
	for n, line := range lines {
		if halted := strings.Contains(line, "halted"); halted != (n%2 == 0) {
			t.Errorf("line %d is %s", n, line)
		}
	}
}

func TestWhatIsKeptIsLoggedBeforeTheEnd(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		for _, err := range []string{"full", "full", "read-only", "full", "read-only", "gone"} {
			log.With("part", "relay").Error("events wait", "err", err)
		}
		time.Sleep(time.Second) // what was kept comes in the order of its times
		log.Warn("x")
		log.Warn("x")
		flushLog(log)
		log.Info("the end")
	})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	last := fmt.Sprintf(`msg="events wait" part=relay err=gone repeated=%d`, 6-dedupeBurst-1)
	want := []string{last, "msg=x", "msg=x", `msg="the end"`}
	if got := lines[len(lines)-4:]; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("it ends with\n%s", got)
	}
}

func TestWhatIsAskedForTheFirstTimeIsLogged(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		log = log.With("part", "http")
		for n := range 20 {
			log.Info("asked over HTTP", "verb", "/v1/poll", "from", fmt.Sprint("192.0.2.", n))
		}
		log.Info("asked over HTTP", "verb", "/v1/approve", "from", "192.0.2.1")
		time.Sleep(time.Minute)
		log.Info("asked over HTTP", "verb", "/v1/poll", "from", "192.0.2.1")
	})
	if !strings.Contains(got, "approve") {
		t.Errorf("what was asked is not there:\n%s", got)
	}
	before, _, _ := strings.Cut(got, "approve")
	if n := strings.Count(before, "poll"); n != infoBurst {
		t.Errorf("%d lines before it:\n%s", n, got)
	}
}

func TestOneThingDoesNotSilenceAnother(t *testing.T) {
	got := calmLog(t, func(log *slog.Logger) {
		for range dedupeBurst + 2 {
			for n := range 200 {
				log.Error("access halted", "agency", fmt.Sprint("A", n), "status", 403)
			}
			log.With("forwarder", "slack").Warn("waits")
			log.With("forwarder", "email").Warn("waits")
			log.Debug("walk")
		}
	})
	for _, want := range []string{"agency=A0 ", "agency=A199 ", "forwarder=slack", "forwarder=email"} {
		if strings.Count(got, want) != dedupeBurst+1 { // at once, and two more as one later
			t.Errorf("%s is there %d times", want, strings.Count(got, want))
		}
	}
	if strings.Count(got, "msg=walk") != dedupeBurst+2 {
		t.Error("who asks for debug lines does not get all")
	}
}

func TestWhatWasSaidLongAgoIsForgotten(t *testing.T) {
	c := &deduped{things: map[string]*repeatedLine{}}
	for n := range 3 * mostDeduped {
		c.thing(fmt.Sprint(n), dedupeBurst)
	}
	if n := len(c.things); n > mostDeduped {
		t.Errorf("%d things are remembered", n)
	}
}
