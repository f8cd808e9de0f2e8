package main

import (
	"io"
	"log/slog"
	"os"
)

// newLogger writes to w as the configuration says: JSON lines for machines, text for a terminal. The level may be
// changed while running. Attributes have the same key on every line: agency, event_id, poll_id, attempt, err; payloads,
// keys and people have none.
func newLogger(w io.Writer, b Base) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevels[b.LogLevel])
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if b.LogFormat == "text" || b.LogFormat == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options)), level
	}
	return slog.New(slog.NewJSONHandler(w, options)), level
}

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
