package main

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
		log, _ := newLogger(&out, config.Base{LogLevel: "info", LogFormat: format}, terminal{})
		log.Info("walk", "agency", "A100\x1b[2J")
		if json.Valid(out.Bytes()) != isJSON || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}

func TestALineForPeopleIsReadable(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.FixedZone("", 3600))
	line := func(on terminal) string {
		var out bytes.Buffer
		h := newTextHandler(&out, slog.LevelInfo, on).WithAttrs([]slog.Attr{slog.String("part", "relay")})
		r := slog.NewRecord(at, slog.LevelWarn, "events wait\x1b[2J", 0)
		r.Add("agency", "A100", "err", errors.New(`say "no"`), "since", at, "wait", 90*time.Second, slog.Attr{}, "n", 3, "odd", "\u202e")
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := "WARN  events wait\uFFFD[2J part=relay agency=A100 err=\"say \\\"no\\\"\" since=2026-11-20T09:41:07Z wait=1m30s n=3 odd=\"\\u202e\"\n"
	if got := line(terminal{}); got != "2026-11-20T09:41:07.000Z "+want {
		t.Errorf("in a file: %q, want %q", got, want)
	}
	if got := line(terminal{is: true}); got != "09:41:07 "+want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	if got := line(terminal{is: true, color: true}); !strings.HasPrefix(got, dim+"09:41:07"+endStyle+" "+yellow+"WARN  "+endStyle) || strings.Contains(got, "[2J p") && strings.Contains(got, "\x1b[2J") {
		t.Errorf("in colour: %q", got)
	}
}

func TestDurationsInLogsAreWrittenAsPeopleReadThem(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, _ := newLogger(&out, config.Base{LogLevel: "info", LogFormat: format}, terminal{})
		log.With("allowed", 30*time.Second).Info("x", "reached", 50*time.Second)
		if strings.Contains(out.String(), "0000000000") || strings.Count(out.String(), "30s") != 1 || strings.Count(out.String(), "50s") != 1 {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}

func TestTheLevelCanBeChangedWhileRunning(t *testing.T) {
	var out bytes.Buffer
	log, level := newLogger(&out, config.Base{LogLevel: "error", LogFormat: "json"}, terminal{})
	log.Warn("x")
	if out.Len() > 0 {
		t.Error("a warning at level error")
	}
	level.Set(slog.LevelDebug)
	log.Debug("x")
	if out.Len() == 0 {
		t.Error("no line at level debug")
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
