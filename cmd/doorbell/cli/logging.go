package cli

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
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
// the same thing, a few in a row are written and then one every dedupeEvery, with how many there
// were in between. The same words twice are one every dedupeEvery from the beginning. The last line
// is never lost, it may come late: so the end of a failure is seen even if it came and went all
// day.
const (
	dedupeEvery = 10 * time.Minute
	dedupeBurst = 4
	// mostDeduped bounds the memory.
	mostDeduped = 10_000
)

// sameThing are the attributes that say what a line is about; the others say how it is.
var sameThing = []string{"agency", "operation", "forwarder", "lane", "part", "job", "key", "verb", "receipt"}

// toldOnce is an attribute of lines that are never kept back: a halt and its end are logged
// once each. The next one is another one, also in the same words, and follows what a person did.
const toldOnce = "scope"

// dedupeHandler is a slog.Handler that keeps a lasting failure from filling the log.
type dedupeHandler struct {
	next  slog.Handler
	about string // attributes of a With that are in sameThing
	all   *deduped
}

func NewDedupe(next slog.Handler) *dedupeHandler {
	return &dedupeHandler{next: next, all: &deduped{things: map[string]*repeatedLine{}}}
}

// loud is the same log without the bound: for the effects of what a person does, again each time.
func loud(log *slog.Logger) *slog.Logger {
	if h, ok := log.Handler().(*dedupeHandler); ok {
		return slog.New(h.next)
	}
	return log
}

// deduped is what was logged, by message and thing. It is shared by all loggers that come from one.
type deduped struct {
	mu     sync.Mutex
	things map[string]*repeatedLine
}

// repeatedLine is what was logged about one thing.
type repeatedLine struct {
	limit *rate.Limiter
	last  time.Time // when a line was written
	words string    // of that line

	held      *slog.Record // the newest line that was not written
	heldWords string
	next      slog.Handler // writes it
	unwritten int          // lines since the last one
	timer     *time.Timer
}

// Enabled is that of the next handler.
func (h *dedupeHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

// WithAttrs remembers what the lines will be about.
func (h *dedupeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		if slices.Contains(sameThing, a.Key) {
			c.about += "\x00" + a.Key + "=" + a.Value.String()
		}
	}
	return &c
}

// WithGroup is that of the next handler: nothing of ours makes groups.
func (h *dedupeHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.next = h.next.WithGroup(name)
	return &c
}

// Handle writes a line, or keeps it for later.
func (h *dedupeHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo || isToldOnce(r) { // debug lines are all wanted
		return h.next.Handle(ctx, r)
	}
	about, words := h.split(r)
	h.all.mu.Lock()
	t := h.all.thing(about, r.Time)
	kept := r.Clone()
	t.held, t.heldWords, t.next = &kept, words, h.next
	t.unwritten++
	if t.timer != nil {
		t.timer.Stop()
	}
	if wait := t.wait(words, r.Time); wait > 0 {
		t.timer = time.AfterFunc(wait, func() { h.all.release(t) })
		h.all.mu.Unlock()
		return nil
	}
	r = t.take(r.Time)
	h.all.mu.Unlock()
	return h.next.Handle(ctx, r)
}

func isToldOnce(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		is = a.Key == toldOnce
		return !is
	})
	return is
}

// split is what a line is about, and what it says of that.
func (h *dedupeHandler) split(r slog.Record) (about, words string) {
	var a, w strings.Builder
	a.WriteString(r.Level.String() + "\x00" + r.Message + h.about)
	r.Attrs(func(attr slog.Attr) bool {
		b := &w
		if slices.Contains(sameThing, attr.Key) {
			b = &a
		}
		b.WriteString("\x00" + attr.Key + "=" + attr.Value.Resolve().String())
		return true
	})
	return a.String(), w.String()
}

// thing finds what was logged about something, and forgets what is long ago where there is too much
// of it.
func (c *deduped) thing(about string, now time.Time) *repeatedLine {
	if c.things[about] == nil {
		if len(c.things) >= mostDeduped {
			maps.DeleteFunc(c.things, func(_ string, t *repeatedLine) bool { return t.held == nil && t.limit.TokensAt(now) >= dedupeBurst })
		}
		c.things[about] = &repeatedLine{limit: rate.NewLimiter(rate.Every(dedupeEvery), dedupeBurst)}
	}
	return c.things[about]
}

// wait is how long a line has to wait.
func (t *repeatedLine) wait(words string, now time.Time) time.Duration {
	wait := time.Duration((1 - t.limit.TokensAt(now)) * float64(dedupeEvery))
	if words == t.words && !t.last.IsZero() {
		wait = max(wait, dedupeEvery-now.Sub(t.last))
	}
	return wait
}

// take is the line that is kept, with how many were not written before it. It is written now.
func (t *repeatedLine) take(now time.Time) slog.Record {
	r := *t.held
	if t.unwritten > 1 {
		r.AddAttrs(slog.Int("repeated", t.unwritten-1))
	}
	t.limit.ReserveN(now, 1)
	t.words, t.last, t.unwritten, t.held = t.heldWords, now, 0, nil
	return r
}

// release writes the line that is kept, if any, at its own time.
func (c *deduped) release(t *repeatedLine) {
	c.mu.Lock()
	if t.held == nil {
		c.mu.Unlock()
		return
	}
	r, next := t.take(time.Now()), t.next
	c.mu.Unlock()
	_ = next.Handle(context.Background(), r) // there is no other place to report it
}

// flushLog writes what is still kept: the process is about to end.
func flushLog(log *slog.Logger) {
	h, ok := log.Handler().(*dedupeHandler)
	if !ok {
		return
	}
	h.all.mu.Lock()
	kept := slices.Collect(maps.Values(h.all.things))
	kept = slices.DeleteFunc(kept, func(t *repeatedLine) bool { return t.held == nil })
	slices.SortFunc(kept, func(a, b *repeatedLine) int { return a.held.Time.Compare(b.held.Time) })
	h.all.mu.Unlock()
	for _, t := range kept {
		h.all.release(t)
	}
}
