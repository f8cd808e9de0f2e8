package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

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

// Styles of a log line.
const (
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
	if !h.color || style == "" {
		return text
	}
	return style + text + endStyle
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
