package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
)

func TestALineIsReadableInAFileAndAtATerminal(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.FixedZone("", 3600))
	for _, tt := range []struct {
		format string
		on     Terminal
		want   string
	}{
		{"text", Terminal{}, `time=2026-11-20T09:41:07.000Z level=WARN msg="events wait\x1b[2J" part=relay ` +
			`err="say \"no\"" since=2026-11-20T09:41:07.000Z wait=1m30s odd="\u202e"`},
		{"auto", Terminal{is: true}, `time=09:41:07 level=WARN msg="events wait\x1b[2J" part=relay ` +
			`err="say \"no\"" since=2026-11-20T09:41:07.000Z wait=1m30s odd="\u202e"`},
		{"auto", Terminal{}, `{"time":"2026-11-20T09:41:07Z","level":"WARN","msg":"events wait\u001b[2J","part":"relay",` +
			`"err":"say \"no\"","since":"2026-11-20T09:41:07Z","wait":"1m30s","odd":"` + "\u202e" + `"}`},
	} {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelWarn, "events wait\x1b[2J", 0)
		r.Add("err", errors.New(`say "no"`), "since", at, "wait", 90*time.Second, "odd", "\u202e")
		log := NewLogger(&out, config.Base{LogFormat: tt.format}, tt.on).With("part", "relay")
		if err := log.Handler().Handle(t.Context(), r); err != nil || out.String() != tt.want+"\n" {
			t.Errorf("%s: %v\n%s, want\n%s", tt.format, err, out.String(), tt.want)
		}
	}
}

// TestARepeatedLineIsLoggedNowAndThenAndTheLastOneIsNeverLost has two hours of virtual time after
// each story.
func TestARepeatedLineIsLoggedNowAndThenAndTheLastOneIsNeverLost(t *testing.T) {
	for name, tt := range map[string]struct {
		live     func(log *slog.Logger)
		min, max int    // lines
		want     string // a pattern of all lines
	}{
		"a failure for a day": {func(log *slog.Logger) {
			for range 24 * 60 * 60 {
				log.Error("no space", "err", "disk full")
				time.Sleep(time.Second)
			}
		}, 24 * 5, 24*6 + dedupeBurst, `^(msg="no space" err="disk full"\n){2}msg="no space" err="disk full" repeated=59\d\n`},
		"a failure in other words": {func(log *slog.Logger) {
			for n := range 3600 {
				log.Warn("a poll failed", "err", n%7)
				time.Sleep(time.Second)
			}
		}, 2, 10, `^msg="a poll failed" err=0\nmsg="a poll failed" err=1\n`},
		"a failure that comes and goes": {func(log *slog.Logger) {
			for range 500 {
				log.With("part", "nats").Warn("lost")
				time.Sleep(3 * time.Second)
				log.With("part", "nats").Info("connected again")
				time.Sleep(4 * time.Second)
			}
		}, 2, 20, `connected again"[^\n]*\n$`},
		"halts, which are all logged": {func(log *slog.Logger) {
			for range 10 { // a person tries again with the same key
				log.Error("halted", "agency", "A100", "scope", "agency")
				time.Sleep(time.Minute)
				log.Info("resumed", "agency", "A100", "scope", "agency")
				time.Sleep(time.Second)
			}
		}, 20, 20, `^(msg=halted [^\n]*\nmsg=resumed [^\n]*\n){10}$`},
		"the end of the process": {func(log *slog.Logger) {
			for _, err := range []string{"full", "full", "read-only", "full", "gone"} {
				log.Error("wait", "err", err)
			}
			flushLog(log)
			log.Info("the end")
		}, 4, 4, `msg=wait err=gone repeated=2\nmsg="the end"\n$`},
		"what people ask for": {func(log *slog.Logger) {
			for n := range 20 {
				log.Info("asked", "verb", "/v1/poll", "from", n)
			}
			log.Info("asked", "verb", "/v1/approve")
		}, infoBurst + 2, infoBurst + 2, `^(msg=asked verb=/v1/poll from=\d\n){4}msg=asked verb=/v1/approve\n`},
		"two hundred agencies": {func(log *slog.Logger) {
			for range dedupeBurst + 2 {
				for n := range 200 {
					log.Error("refused", "agency", n)
				}
				log.Debug("walk")
			}
		}, 200*(dedupeBurst+1) + dedupeBurst + 2, 200*(dedupeBurst+1) + dedupeBurst + 2, `msg=refused agency=199\n`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(*testing.T) {
				text := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
						return slog.Attr{}
					}
					return a
				}})
				tt.live(slog.New(NewDedupe(text)))
				time.Sleep(2 * time.Hour)
			})
			n := strings.Count(out.String(), "\n")
			if n < tt.min || n > tt.max || !regexp.MustCompile(tt.want).MatchString(out.String()) {
				t.Errorf("%d lines:\n%.2000s", n, out.String())
			}
		})
	}
}

func TestLinesBelowTheLevelAreLeftOut(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var out bytes.Buffer
		log := NewLogger(&out, config.Base{LogLevel: level, LogFormat: "json"}, Terminal{})
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), l, "x")
		}
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("%d lines at level %s", n, level)
		}
	}
}
