package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
)

func TestLogsAreJSONUnlessAPersonReads(t *testing.T) {
	for format, isJSON := range map[string]bool{"auto": true, "json": true, "text": false} {
		var out bytes.Buffer
		log := NewLogger(&out, config.Base{LogLevel: "info", LogFormat: format}, Terminal{})
		log.Debug("walk")
		log.Info("walk", "agency", "A100\x1b[2J", "wait", 30*time.Second)
		if json.Valid(out.Bytes()) != isJSON || strings.Contains(out.String(), "\x1b") ||
			strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "30s") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) || isTerminal(&bytes.Buffer{}) {
		t.Error("something that nobody reads counts as a terminal")
	}
}

func TestALogLineForPeopleIsReadable(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.FixedZone("", 3600))
	line := func(on Terminal) string {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelWarn, "events wait\x1b[2J", 0)
		r.Add("agency", "A100", "err", errors.New(`say "no"`), "since", at, "wait", 90*time.Second, "odd", "\u202e")
		log := NewLogger(&out, config.Base{LogFormat: "text"}, on).With("part", "relay")
		if err := log.Handler().Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := ` level=WARN msg="events wait\x1b[2J" part=relay agency=A100 err="say \"no\"" ` +
		`since=2026-11-20T09:41:07.000Z wait=1m30s odd="\u202e"` + "\n"
	if got := line(Terminal{}); got != "time=2026-11-20T09:41:07.000Z"+want {
		t.Errorf("in a file: %q, want %q", got, want)
	}
	if got := line(Terminal{is: true}); got != "time=09:41:07"+want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
}

// dedupedLines are the lines of a log, without times and levels.
func dedupedLines(t *testing.T, live func(log *slog.Logger)) []string {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		o := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}
		live(slog.New(NewDedupe(slog.NewTextHandler(&out, o))))
	})
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestARepeatedFailureIsLoggedAtOnceAndThenNowAndThenWithACount(t *testing.T) {
	lines := dedupedLines(t, func(log *slog.Logger) {
		log = log.With("part", "store")
		for n := range 24 * 60 * 60 {
			log.Error("no space", "err", fmt.Sprint("timeout ", n%7))
			time.Sleep(time.Second)
		}
	})
	if want := `msg="no space" part=store err="timeout 1"`; lines[1] != want {
		t.Errorf("the second line is %s, want %s", lines[1], want)
	}
	for n, repeated := range []int{598, 599} {
		if line := lines[dedupeBurst+n]; !strings.HasSuffix(line, fmt.Sprint(" repeated=", repeated)) {
			t.Errorf("line %d after the burst is %s", n, line)
		}
	}
	if n := len(lines); n < 24*5 || n > 24*6+dedupeBurst {
		t.Errorf("%d lines in a day", n)
	}
}

func TestEveryHaltIsLogged(t *testing.T) {
	lines := dedupedLines(t, func(log *slog.Logger) {
		for range 10 { // somebody tries again with the same key
			log.Error("access halted", "agency", "A100", "scope", "agency", "status", 403)
			log.Info("access resumed", "agency", "A100", "scope", "agency", "cause", "operator")
		}
	})
	if len(lines) != 20 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestOneThingDoesNotSilenceAnother(t *testing.T) {
	got := strings.Join(dedupedLines(t, func(log *slog.Logger) {
		for range dedupeBurst + 2 {
			for n := range 200 {
				log.Error("a poll failed", "agency", fmt.Sprint("A", n), "status", 503)
			}
			log.With("forwarder", "slack").Warn("waits")
			log.With("forwarder", "email").Warn("waits")
			log.Debug("walk")
		}
	}), "\n")
	for want, n := range map[string]int{
		"agency=A0 ": dedupeBurst, "agency=A199 ": dedupeBurst, "forwarder=slack": dedupeBurst,
		"forwarder=email": dedupeBurst, "msg=walk": dedupeBurst + 2,
	} {
		if strings.Count(got, want) != n {
			t.Errorf("%s is there %d times", want, strings.Count(got, want))
		}
	}
}
