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
// terminal. Attributes have the same key on every line, see TestEveryLogLineHasKnownKeys; payloads,
// keys and people have none. What is repeated is bounded, see dedupeHandler.
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

// What is logged about one thing again and again is bounded: of lines with the same message about
// the same thing the first few are written, and then one every dedupeEvery, with the number of those
// that were left out before it. A failure repeats itself; an informational line often follows what a
// person did, such as a key file written again.
const (
	dedupeEvery = 10 * time.Minute
	dedupeBurst = 2 // warnings and errors
	infoBurst   = 4
	// mostDeduped bounds the memory.
	mostDeduped = 10_000
)

// sameThing are the attributes that say what a line is about; the others say how it is.
var sameThing = []string{"agency", "operation", "forwarder", "destination", "part", "job", "key", "verb", "receipt"}

// toldOnce is an attribute of lines that are never left out: a halt and its end are logged
// once each. The next one is another one, also in the same words, and follows what a person did.
const toldOnce = "scope"

// dedupeHandler is a slog.Handler that keeps a lasting failure from filling the log.
type dedupeHandler struct {
	slog.Handler
	about string // attributes of a With that are in sameThing
	all   *deduped
}

// deduped is what was logged, by message and thing.
type deduped struct {
	mu     sync.Mutex
	things map[string]*repeatedLine
}

type repeatedLine struct {
	limit   *rate.Limiter
	leftOut int // since the last one that was written
}

func NewDedupe(next slog.Handler) slog.Handler {
	return &dedupeHandler{Handler: next, all: &deduped{things: map[string]*repeatedLine{}}}
}

// WithAttrs remembers what the lines will be about.
func (h *dedupeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		c.about += aboutOf(a)
	}
	return &c
}

func aboutOf(a slog.Attr) string {
	if !slices.Contains(sameThing, a.Key) {
		return ""
	}
	return "\x00" + a.Key + "=" + a.Value.String()
}

// Handle writes a line, or leaves it out.
func (h *dedupeHandler) Handle(ctx context.Context, r slog.Record) error {
	about, once := r.Level.String()+"\x00"+r.Message+h.about, false
	r.Attrs(func(a slog.Attr) bool {
		about += aboutOf(a)
		once = once || a.Key == toldOnce
		return true
	})
	if r.Level < slog.LevelInfo || once { // debug lines are all wanted
		return h.Handler.Handle(ctx, r)
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	t := h.all.things[about]
	if t == nil {
		burst := infoBurst
		if r.Level >= slog.LevelWarn {
			burst = dedupeBurst
		}
		if len(h.all.things) >= mostDeduped {
			clear(h.all.things)
		}
		t = &repeatedLine{limit: rate.NewLimiter(rate.Every(dedupeEvery), burst)}
		h.all.things[about] = t
	}
	if !t.limit.AllowN(r.Time, 1) {
		t.leftOut++
		return nil
	}
	if t.leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", t.leftOut))
		t.leftOut = 0
	}
	return h.Handler.Handle(ctx, r)
}
