package main

import (
	"io"
	"log/slog"
	"os"
)

// newLogger writes to w as the configuration says: JSON lines for machines, text for a terminal. The level may be
// changed while running. Attributes have the same key on every line, see TestEveryLogLineHasKnownKeys; payloads, keys and
// people have none. What is repeated is bounded, see calmHandler.
func newLogger(w io.Writer, b Base, t terminal) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevels[b.LogLevel])
	var h slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable})
	if b.LogFormat == "text" || b.LogFormat == "auto" && t.is {
		h = newTextHandler(w, level, t)
	}
	return slog.New(newCalm(h)), level
}

// logger is what commands that run for long log with.
func (p *program) logger(b Base) *slog.Logger {
	log, _ := newLogger(p.stderr, b, p.terminalOf(p.stderr))
	return log
}

// quiet is for what logs, where there is a person to talk to and no log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// readable writes durations as 30s in JSON too, not as nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// logLevels are the values that LOG_LEVEL can have.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// isTerminal reports whether a person reads what is written to w. The null device is a character device too.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
