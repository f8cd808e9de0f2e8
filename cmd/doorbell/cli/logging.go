package cli

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"doorbell/cmd/doorbell/config"
)

// NewLogger writes to w as the configuration says: JSON lines for machines, key=value for a
// terminal. Attributes have the same key on every line; payloads, keys and people
// have none. What is repeated is bounded, see dedupeHandler.
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
// the same thing the first few are written, and then one every dedupeEvery, the newest, with how
// many there were before it. So the last line is never lost, it may come late. A failure repeats
// itself; an informational line often follows what a person did, such as a key file written again.
const (
	dedupeEvery = 10 * time.Minute
	dedupeBurst = 2 // warnings and errors
	infoBurst   = 4
)

// sameThing are the attributes that say what a line is about; the others say how it is. Their
// values are few: agencies, receivers, and what people have begun.
var sameThing = []string{
	"agency", "operation", "forwarder", "destination", "part", "job", "key",
	"verb", "receipt",
}

// toldOnce is an attribute of lines that are never kept back: a halt and its end are logged
// once each. The next one is another one, also in the same words, and follows what a person did.
const toldOnce = "scope"

// dedupeHandler is a slog.Handler that keeps a lasting failure from filling the log.
type dedupeHandler struct {
	slog.Handler
	about string // attributes of a With that are in sameThing
	all   *deduped
}

func NewDedupe(next slog.Handler) slog.Handler {
	return &dedupeHandler{Handler: next, all: &deduped{things: map[string]*repeatedLine{}}}
}

// deduped is what was logged, by message and thing. It is shared by all loggers that come from one.
type deduped struct {
	mu     sync.Mutex
	things map[string]*repeatedLine
}

// repeatedLine is what was logged about one thing.
type repeatedLine struct {
	limit *rate.Limiter
	held  *slog.Record // the newest line that was not written
	next  slog.Handler // writes it
	more  int          // lines before it that were not
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

// Handle writes a line, or keeps it for later.
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
		burst := dedupeBurst
		if r.Level < slog.LevelWarn {
			burst = infoBurst
		}
		t = &repeatedLine{limit: rate.NewLimiter(rate.Every(dedupeEvery), burst)}
		h.all.things[about] = t
	}
	if t.held == nil {
		wait := t.limit.ReserveN(r.Time, 1).DelayFrom(r.Time)
		if wait <= 0 {
			return h.Handler.Handle(ctx, r)
		}
		time.AfterFunc(wait, func() { h.all.release(t) })
	} else {
		t.more++
	}
	kept := r.Clone()
	t.held, t.next = &kept, h.Handler
	return nil
}

// release writes the lines that are kept, if any, at their own time.
func (c *deduped) release(things ...*repeatedLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range things {
		if t.held == nil {
			continue
		}
		if t.more > 0 {
			t.held.AddAttrs(slog.Int("repeated", t.more))
		}
		_ = t.next.Handle(context.Background(), *t.held) // there is no other place to report it
		t.held, t.more = nil, 0
	}
}

// flushLog writes what is still kept: the process is about to end.
func flushLog(log *slog.Logger) {
	if h, ok := log.Handler().(*dedupeHandler); ok {
		h.all.mu.Lock()
		kept := slices.Collect(maps.Values(h.all.things))
		h.all.mu.Unlock()
		h.all.release(kept...)
	}
}
