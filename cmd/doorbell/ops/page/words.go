package page

import (
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
)

// tone is how much something wants a person. Its name is the class that the style sheet knows; a
// shape says the same.
type tone string

const (
	well tone = "well"
	busy tone = "busy"
	warn tone = "warn"
	bad  tone = "bad"
)

var rank = map[tone]int{well: 0, busy: 1, warn: 2, bad: 3}

func worse(a, b tone) tone {
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// badge is a state by shape and word.
type badge struct {
	Tone  tone
	Shape string // of the sprite
	Word  string
}

// shapes say the same as the levels, for those who see no colours.
var shapes = map[ops.Level]string{ops.Well: "disc", ops.Busy: "ring", ops.Warn: "triangle", ops.Bad: "square"}

func newBadge(level ops.Level, word string) badge {
	return badge{tone(level), shapes[level], ops.Short(word, 30)}
}

// partials say why a walk was not complete.
var partials = map[string]string{
	"page_failed":        "a page failed",
	"canceled":           "it was stopped",
	"fewer_than_total":   "fewer than the API counts",
	"page_ignored":       "every page is the first",
	"too_many_pages":     "too many pages",
	"unreadable_records": "unreadable records",
}

func partial(reason string) string {
	if text, ok := partials[reason]; ok {
		return text
	}
	return ops.Short(strings.ReplaceAll(reason, "_", " "), 40)
}

// seconds are a duration that may be any number.
func seconds(s float64) time.Duration {
	if !(s > 0) { // NaN too
		return 0
	}
	return time.Duration(min(s, 1e9) * float64(time.Second))
}

// moment is a time: UTC as it is rendered, which the script tells in the reader's zone.
type moment struct {
	ISO, Text, Full string
	Form            string // how the script tells it: clock, minute or day
	Ago             string
}

func (m moment) Known() bool { return m.ISO != "" }

// at describes a moment seen from now: the clock today, the date else.
func at(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t, now = t.UTC(), now.UTC()
	m := moment{ISO: t.Format(time.RFC3339), Full: t.Format("2006-01-02 15:04:05") + " UTC", Form: "clock", Text: t.Format("15:04:05")}
	switch age := now.Sub(t); {
	case age > 20*time.Hour, age < -20*time.Hour:
		m.Form, m.Text = "day", t.Format("Jan 2, 15:04")
	case age > 10*time.Minute, age < 0:
		m.Form, m.Text = "minute", t.Format("15:04")
	}
	switch age := now.Sub(t); {
	case age < -time.Second:
		m.Ago = "in " + ops.Span(-age.Round(time.Second))
	case age < 2*time.Second:
		m.Ago = "now"
	default:
		m.Ago = ops.Span(age.Round(time.Second)) + " ago"
	}
	return m
}
