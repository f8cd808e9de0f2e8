package cli

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"doorbell/cmd/doorbell/config"
)

// NewLogger writes to w as the configuration says: JSON lines for machines, key=value for a
// terminal. Attributes have the same key on every line; payloads, keys and
// people have none. What is repeated is bounded, see NewDedupe.
func NewLogger(w io.Writer, b config.Base, t Terminal) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(b.LogLevel)) // config knows the values
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: t.readable}
	if b.LogFormat == "text" || b.LogFormat == "auto" && t.is {
		return slog.New(NewDedupe(slog.NewTextHandler(w, o)))
	}
	return slog.New(NewDedupe(slog.NewJSONHandler(w, o)))
}

// logger is what commands that run for long log with.
func (p *program) logger(b config.Base) *slog.Logger {
	return NewLogger(p.stderr, b, p.terminalOf(p.stderr))
}

// discardLog is for what logs, where there is a person to talk to and no log.
func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// readable writes times in UTC, at a terminal without the date, and durations as 30s in JSON too.
func (t Terminal) readable(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.TimeKey && t.is:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(time.TimeOnly))
	case a.Value.Kind() == slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case a.Value.Kind() == slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Of lines with the same message about the same thing the first few are written, and then one every
// dedupeEvery, with how many were left out before it. A failure repeats itself; an informational
// line often follows what a person did, such as a key file written again.
const (
	dedupeEvery = 10 * time.Minute
	dedupeBurst = 2 // warnings and errors
	infoBurst   = 4
	maxDeduped  = 10_000 // things that are remembered
)

// identity are the attributes that say what a line is about; the others say how it is.
var identity = []string{
	"agency", "operation", "forwarder", "destination", "part", "job", "key", "verb", "receipt",
}

// alwaysLogged is an attribute of lines about halts and their ends, which are all written: each
// follows what a person did.
const alwaysLogged = "scope"

// dedupe is a slog.Handler that keeps a lasting failure from filling the log.
type dedupe struct {
	slog.Handler
	about string // attributes of With that are in identity
	seen  *seenLines
}

// seenLines is shared by all loggers that come from one.
type seenLines struct {
	mu   sync.Mutex
	byID map[string]*repeatedLine
}

type repeatedLine struct {
	limit *rate.Limiter
	left  int // lines that were left out since the last one
}

// NewDedupe bounds what is repeated.
func NewDedupe(next slog.Handler) slog.Handler {
	return &dedupe{Handler: next, seen: &seenLines{byID: map[string]*repeatedLine{}}}
}

// WithAttrs remembers what the lines will be about.
func (h *dedupe) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		c.about += aboutOf(a)
	}
	return &c
}

func aboutOf(a slog.Attr) string {
	if !slices.Contains(identity, a.Key) {
		return ""
	}
	return "\x00" + a.Key + "=" + a.Value.String()
}

// Handle writes a line, or counts it.
func (h *dedupe) Handle(ctx context.Context, r slog.Record) error {
	id, always := r.Level.String()+"\x00"+r.Message+h.about, r.Level < slog.LevelInfo
	r.Attrs(func(a slog.Attr) bool {
		id += aboutOf(a)
		always = always || a.Key == alwaysLogged
		return true
	})
	if always {
		return h.Handler.Handle(ctx, r)
	}
	burst := infoBurst
	if r.Level >= slog.LevelWarn {
		burst = dedupeBurst
	}
	left, ok := h.seen.add(id, burst, r.Time)
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", left))
	}
	return h.Handler.Handle(ctx, r)
}

// add reports whether a line is to be written, and how many were left out before it.
func (s *seenLines) add(id string, burst int, at time.Time) (left int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.byID[id]
	if line == nil {
		if len(s.byID) >= maxDeduped {
			clear(s.byID)
		}
		line = &repeatedLine{limit: rate.NewLimiter(rate.Every(dedupeEvery), burst)}
		s.byID[id] = line
	}
	if !line.limit.AllowN(at, 1) {
		line.left++
		return 0, false
	}
	left, line.left = line.left, 0
	return left, true
}
