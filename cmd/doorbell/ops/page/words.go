package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
)

// tone is how much something wants a person. Its name is the class that the style sheet knows; a shape says the same.
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

// states say in plain words what poller.AgencyStatus.State means.
var states = map[string]badge{
	"starting":           {busy, "ring", "first walk"},
	"baselining":         {busy, "ring", "learning"},
	"watching":           {well, "disc", "watching"},
	"held":               {warn, "diamond", "change held"},
	"backing_off":        {warn, "triangle", "API fails"},
	"stale":              {bad, "triangle", "hears nothing"},
	"halted":             {bad, "square", "halted"},
	"waiting_for_stream": {warn, "ring", "waits for NATS"},
}

func stateBadge(state string) badge {
	if b, ok := states[state]; ok {
		return b
	}
	return badge{warn, "triangle", plain(state, 30)}
}

// refusals say why access was refused, as far as it is known.
var refusals = map[string]string{
	"key_rejected":          "the API refuses the key",
	"agency_not_linked":     "the key may not read this agency",
	"insertion_not_allowed": "the API refuses this insertion",
	"edge_challenge":        "a gateway or firewall refuses us",
}

func refusal(reason string) string {
	if text, ok := refusals[reason]; ok {
		return text
	}
	return "the API refuses access"
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
	return plain(strings.ReplaceAll(reason, "_", " "), 40)
}

// notices are what an action of the page may report, by the word that its redirect carries. Other words say nothing.
var notices = map[string]string{
	"resumed":   "is asked for again.",
	"nothalted": "is not halted.",
	"approved":  "The next complete walk that still shows the change tells it.",
	"notheld":   "holds nothing back.",
	"polled":    "is walked now, and its insertions are polled in their next turns.",
	"signedin":  "You are signed in and can act.",
	"failed":    "That did not work; the log of doorbell says why.",
}

// operationWords name what is asked.
var operationWords = map[string]string{"insertions": "the list of insertions", "contact_requests": "contact requests"}

func operation(op string) string {
	if text, ok := operationWords[op]; ok {
		return text
	}
	return plain(strings.ReplaceAll(op, "_", " "), 40)
}

// plain makes a text from outside fit to stand in a page: one line, at most n characters, nothing that turns or hides text.
func plain(text string, n int) string {
	if len(text) > 8*n { // what follows would be cut anyway
		text = text[:8*n]
	}
	runes := []rune(ops.Printable(strings.Join(strings.Fields(text), " ")))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// middle cuts in the middle, for names whose end says as much as their beginning.
func middle(text string, n int) string {
	if len(text) > 8*n {
		text = text[:4*n] + text[len(text)-4*n:]
	}
	runes := []rune(ops.Printable(strings.Join(strings.Fields(text), " ")))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n/2]) + "…" + string(runes[len(runes)-n/2+1:])
}

// span is a duration for people: one figure, two where the first is small.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second && d >= 100*time.Millisecond && d%time.Second != 0:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < 10*time.Minute && d%time.Minute >= 30*time.Second:
		return fmt.Sprintf("%d½ min", int(d.Minutes()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// seconds are a duration that may be any number.
func seconds(s float64) time.Duration {
	if !(s > 0) { // NaN too
		return 0
	}
	return time.Duration(min(s, 1e9) * float64(time.Second))
}

// count writes a number with separators, and what is counted.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// number has at most nine characters.
func number(n int) string {
	switch {
	case n >= 1e10:
		return strconv.FormatFloat(float64(n)/1e9, 'g', 4, 64) + " G"
	case n >= 1e7:
		return strconv.FormatFloat(float64(n)/1e6, 'g', 4, 64) + " M"
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func bytesText(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 1<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return strings.TrimSuffix(strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64), ".0") + " GiB"
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
		m.Ago = "in " + span(-age.Round(time.Second))
	case age < 2*time.Second:
		m.Ago = "now"
	default:
		m.Ago = span(age.Round(time.Second)) + " ago"
	}
	return m
}

// shell writes a word so that it can be pasted into a command line.
func shell(word string) string {
	simple := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.,:/=@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !simple(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
