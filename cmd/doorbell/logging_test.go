package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLogsAreJSONUnlessAPersonReads(t *testing.T) {
	for format, isJSON := range map[string]bool{"auto": true, "json": true, "text": false} {
		var out bytes.Buffer
		log, _ := newLogger(&out, Base{LogLevel: "info", LogFormat: format})
		log.Info("walk", "agency", "A100\x1b[2J")
		if json.Valid(out.Bytes()) != isJSON || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}

func TestDurationsInLogsAreWrittenAsPeopleReadThem(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, _ := newLogger(&out, Base{LogLevel: "info", LogFormat: format})
		log.With("allowed", 30*time.Second).Info("x", "reached", 50*time.Second)
		if strings.Contains(out.String(), "0000000000") || strings.Count(out.String(), "30s") != 1 || strings.Count(out.String(), "50s") != 1 {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}

func TestTheLevelCanBeChangedWhileRunning(t *testing.T) {
	var out bytes.Buffer
	log, level := newLogger(&out, Base{LogLevel: "error", LogFormat: "json"})
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
