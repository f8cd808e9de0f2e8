package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
)

func TestLogsAreJSONUnlessAPersonReads(t *testing.T) {
	for format, isJSON := range map[string]bool{"auto": true, "json": true, "text": false} {
		var out bytes.Buffer
		log := NewLogger(&out, config.Base{LogLevel: "info", LogFormat: format}, Terminal{})
		log.Info("walk", "agency", "A100\x1b[2J")
		if json.Valid(out.Bytes()) != isJSON || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}

func TestALineForPeopleIsReadable(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.FixedZone("", 3600))
	line := func(on Terminal) string {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelWarn, "events wait\x1b[2J", 0)
		r.Add("agency", "A100", "err", errors.New(`say "no"`), "since", at, "wait", 90*time.Second, slog.Attr{}, "n", 3, "odd", "\u202e")
		if err := NewLogger(&out, config.Base{LogFormat: "text"}, on).With("part", "relay").Handler().Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := ` level=WARN msg="events wait\x1b[2J" part=relay agency=A100 err="say \"no\"" since=2026-11-20T09:41:07.000Z wait=1m30s n=3 odd="\u202e"` + "\n"
	if got := line(Terminal{}); got != "time=2026-11-20T09:41:07.000Z"+want {
		t.Errorf("in a file: %q, want %q", got, want)
	}
	if got := line(Terminal{is: true}); got != "time=09:41:07"+want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
}

func TestDurationsInLogsAreWrittenAsPeopleReadThem(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log := NewLogger(&out, config.Base{LogLevel: "info", LogFormat: format}, Terminal{})
		log.With("allowed", 30*time.Second).Info("x", "reached", 50*time.Second)
		if strings.Contains(out.String(), "0000000000") || strings.Count(out.String(), "30s") != 1 || strings.Count(out.String(), "50s") != 1 {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}

func TestLinesBelowTheLevelAreLeftOut(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var out bytes.Buffer
		log := NewLogger(&out, config.Base{LogLevel: level, LogFormat: "json"}, Terminal{})
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x")
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("%d lines at level %s", n, level)
		}
	}
}

func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) || isTerminal(&bytes.Buffer{}) {
		t.Error("something that nobody reads counts as a terminal")
	}
}
