package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"doorbell/cmd/doorbell/config"
)

// newLogger writes to w as the configuration says: JSON lines for machines, text for a terminal. The level may be
// changed while running. Attributes have the same key on every line, see TestEveryLogLineHasKnownKeys; payloads, keys and
// people have none. What is repeated is bounded, see dedupeHandler.
func newLogger(w io.Writer, b config.Base, t terminal) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevels[b.LogLevel])
	var h slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable})
	if b.LogFormat == "text" || b.LogFormat == "auto" && t.is {
		h = newTextHandler(w, level, t)
	}
	return slog.New(newDedupe(h)), level
}

// logger is what commands that run for long log with.
func (p *program) logger(b config.Base) *slog.Logger {
	log, _ := newLogger(p.stderr, b, p.terminalOf(p.stderr))
	return log
}

// discardLog is for what logs, where there is a person to talk to and no log.
func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

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

// textHandler writes lines for people: time in UTC, level, message, and the attributes as key=value. What is not printable is
// quoted, so that nothing that comes from outside can rewrite a terminal.
type textHandler struct {
	w      io.Writer
	mu     *sync.Mutex
	level  slog.Leveler
	layout string // of the time
	color  bool
	attrs  string // of With, rendered
}

// Layouts: who sits before a terminal knows what day it is.
const (
	layoutTerminal = "15:04:05"
	layoutFile     = "2006-01-02T15:04:05.000Z"
)

func newTextHandler(w io.Writer, level slog.Leveler, t terminal) *textHandler {
	h := &textHandler{w: w, mu: new(sync.Mutex), level: level, layout: layoutFile, color: t.color}
	if t.is {
		h.layout = layoutTerminal
	}
	return h
}

// Enabled says whether lines of a level are wanted.
func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs returns a handler whose lines have these, too.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += h.attr(a)
	}
	return &c
}

// WithGroup leaves groups out: nothing of ours makes any.
func (h *textHandler) WithGroup(string) slog.Handler { return h }

// Styles on a terminal.
const (
	bold     = "\x1b[1m"
	dim      = "\x1b[2m"
	yellow   = "\x1b[33m"
	red      = "\x1b[31m"
	endStyle = "\x1b[0m"
)

// Handle writes a line at once.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.styled(dim, r.Time.UTC().Format(h.layout)))
	b.WriteByte(' ')
	b.WriteString(h.levelName(r.Level))
	b.WriteString(printable(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.attr(a))
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

func (h *textHandler) levelName(l slog.Level) string {
	name, style := fmt.Sprintf("%-5s ", l), ""
	switch {
	case l >= slog.LevelError:
		style = red
	case l >= slog.LevelWarn:
		style = yellow
	case l < slog.LevelInfo:
		style = dim
	}
	return h.styled(style, name)
}

func (h *textHandler) styled(style, text string) string {
	return terminal{color: h.color}.styled(style, text)
}

// attr is an attribute with a space before it; nothing for an empty one.
func (h *textHandler) attr(a slog.Attr) string {
	if a.Equal(slog.Attr{}) {
		return ""
	}
	v := a.Value.Resolve()
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().UTC().Format(time.RFC3339)
	}
	return " " + h.styled(dim, a.Key+"=") + quotedValue(text)
}

// quotedValue quotes what is not one printable word.
func quotedValue(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool {
		return r == ' ' || r == '"' || r == '=' || r == unicode.ReplacementChar || !unicode.IsGraphic(r)
	}) {
		return strconv.Quote(text)
	}
	return text
}

// What is said of one thing again and again is bounded: of lines with the same message about the same thing, a few in a row are
// logged and then one every dedupeEvery, with how many there were in between. The same words twice are one every dedupeEvery from the
// beginning. The last line is never lost, it may come late: so the end of a failure is seen even if it came and went all day.
const (
	dedupeEvery = 10 * time.Minute
	dedupeBurst = 4
	// mostDeduped bounds the memory.
	mostDeduped = 10_000
)

// sameThing are the attributes that say what a line is about; the others say how it is.
var sameThing = []string{"agency", "operation", "forwarder", "lane", "destination", "part", "job", "key", "verb"}

// toldOnce is an attribute of lines that are never kept back: a halt and its end are told once each. The next one is another one,
// also in the same words, and follows what a person did.
const toldOnce = "scope"

// dedupeHandler is a slog.Handler that keeps a lasting failure from filling the log.
type dedupeHandler struct {
	next  slog.Handler
	about string // attributes of a With that are in sameThing
	all   *deduped
}

func newDedupe(next slog.Handler) *dedupeHandler {
	return &dedupeHandler{next: next, all: &deduped{things: map[string]*repeatedLine{}}}
}

// loud is the same log without the bound: for answers to what a person does, who does it again and wants to hear again.
func loud(log *slog.Logger) *slog.Logger {
	if h, ok := log.Handler().(*dedupeHandler); ok {
		return slog.New(h.next)
	}
	return log
}

// deduped is what was said, by message and thing. It is shared by all loggers that come from one.
type deduped struct {
	mu     sync.Mutex
	things map[string]*repeatedLine
}

// repeatedLine is what was said of one thing.
type repeatedLine struct {
	last   time.Time // when a line was logged
	words  string    // of that line
	debt   time.Duration
	unsaid int
	held   *slog.Record   // the newest line that was not logged
	timer  *time.Timer    // logs it
	by     *dedupeHandler // does
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

// Handle logs a line, or keeps it for later.
func (h *dedupeHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo || isToldOnce(r) { // who asks for debug lines wants them all
		return h.next.Handle(ctx, r)
	}
	about, words := h.told(r)
	h.all.mu.Lock()
	t := h.all.thing(about, r.Time)
	if !t.mayBeSaid(words, r.Time) {
		h.hold(about, t, r)
		h.all.mu.Unlock()
		return nil
	}
	if unsaid := t.say(words, r.Time); unsaid > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", unsaid))
	}
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

// told splits a line into what it is about and what it says of that.
func (h *dedupeHandler) told(r slog.Record) (about, words string) {
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

// thing finds what was said of something, and forgets what is long ago where there is too much of it.
func (c *deduped) thing(about string, now time.Time) *repeatedLine {
	if c.things[about] == nil {
		for name, t := range c.things {
			if len(c.things) < mostDeduped {
				break
			}
			if t.held == nil && t.owes(now) == 0 {
				delete(c.things, name)
			}
		}
		c.things[about] = &repeatedLine{}
	}
	return c.things[about]
}

// owes is how long nothing would have to be said until dedupeBurst lines may follow each other again.
func (t *repeatedLine) owes(now time.Time) time.Duration { return max(0, t.debt-now.Sub(t.last)) }

func (t *repeatedLine) mayBeSaid(words string, now time.Time) bool {
	if words == t.words && !t.last.IsZero() && now.Sub(t.last) < dedupeEvery {
		return false
	}
	return t.owes(now) <= (dedupeBurst-1)*dedupeEvery
}

// say notes that a line is logged, and returns how many were not before it.
func (t *repeatedLine) say(words string, now time.Time) (unsaid int) {
	unsaid = t.unsaid
	t.debt = t.owes(now) + dedupeEvery
	t.words, t.last, t.unsaid, t.held = words, now, 0, nil
	if t.timer != nil {
		t.timer.Stop()
	}
	return unsaid
}

// hold keeps the newest line until it may be said. The caller holds the lock.
func (h *dedupeHandler) hold(about string, t *repeatedLine, r slog.Record) {
	t.unsaid++
	kept := r.Clone()
	t.held, t.by = &kept, h
	wait := max(t.owes(r.Time)-(dedupeBurst-1)*dedupeEvery, 0)
	if _, words := h.told(r); words == t.words {
		wait = max(wait, dedupeEvery-r.Time.Sub(t.last))
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(wait, func() { h.release(t) })
}

// flushLog logs what is still kept: the process is about to end.
func flushLog(log *slog.Logger) {
	h, ok := log.Handler().(*dedupeHandler)
	if !ok {
		return
	}
	h.all.mu.Lock()
	var kept []*repeatedLine
	for _, t := range h.all.things {
		if t.held != nil {
			kept = append(kept, t)
		}
	}
	slices.SortFunc(kept, func(a, b *repeatedLine) int { return a.held.Time.Compare(b.held.Time) })
	h.all.mu.Unlock()
	for _, t := range kept {
		t.by.release(t)
	}
}

// release logs the line that was kept, at its own time.
func (h *dedupeHandler) release(t *repeatedLine) {
	h.all.mu.Lock()
	r := t.held
	if r == nil {
		h.all.mu.Unlock()
		return
	}
	_, words := h.told(*r)
	if unsaid := t.say(words, time.Now()) - 1; unsaid > 0 {
		r.AddAttrs(slog.Int("repeated", unsaid))
	}
	h.all.mu.Unlock()
	_ = h.next.Handle(context.Background(), *r) // nobody could be told
}
