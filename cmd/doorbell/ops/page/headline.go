package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// headline is the state of everything, in the window's title, in words, and by a shape.
type headline struct {
	Tone  tone
	Shape string
	Text  string
	Sub   string
	title string // of the window, without the name
}

// mark stands in the window's title, where there are no shapes.
var mark = map[string]string{"square": "■", "triangle": "▲", "diamond": "◆", "ring": "◌", "disc": ""}

func (h headline) Title() string {
	if h.title == "" {
		return "doorbell"
	}
	return strings.TrimSpace(mark[h.Shape]+" "+h.title) + " – doorbell"
}

func (v *view) headline(s ops.Status, list []trouble) headline {
	if len(list) > 0 {
		return troubled(list)
	}
	agencies := len(s.Watch.Agencies)
	h := headline{Tone: well, Shape: "disc", Text: "All is well", title: ops.Counted(agencies, "agency")}
	switch fresh := learning(s.Watch.Agencies); {
	case agencies == 0:
		return headline{Tone: busy, Shape: "ring", Text: "No agency is watched", title: "no agency", Sub: "Name one in DOORBELL_AGENCIES, or with its key in DOORBELL_API_KEYS."}
	case fresh == agencies:
		h = headline{Tone: busy, Shape: "ring", Text: "Getting to know " + ops.Counted(agencies, "agency"), title: "starting"}
		h.Sub = "What is there already is learned, not announced. After that, everything new rings here."
		return h
	case fresh > 0:
		h.Sub = fmt.Sprintf("Getting to know %s more.", ops.Number(fresh))
		return h
	}
	h.Sub = v.watching(s)
	return h
}

// watching says what is being done.
func (v *view) watching(s ops.Status) string {
	insertions := 0
	for _, a := range s.Watch.Agencies {
		insertions += a.Insertions
	}
	return fmt.Sprintf("Watching %s of %s.", ops.Counted(insertions, "insertion"), ops.Counted(len(s.Watch.Agencies), "agency"))
}

func learning(list []poller.AgencyStatus) (n int) {
	for _, a := range list {
		if a.State == "starting" || a.State == "baselining" {
			n++
		}
	}
	return n
}

// troubled names the kinds of troubles; of agencies it counts each once.
func troubled(list []trouble) headline {
	counts := map[string]map[string]bool{}
	add := func(t trouble) {
		if counts[t.kind] == nil {
			counts[t.kind] = map[string]bool{}
		}
		who := t.Key
		if t.kind == "halted" || t.kind == "stale" || t.kind == "failing" {
			who = t.agency
		}
		counts[t.kind][who] = true
	}
	h := headline{Tone: well}
	more := map[string]int{}
	for _, t := range list {
		if worse(h.Tone, t.Tone) != h.Tone {
			h.Tone, h.Shape = t.Tone, t.Shape
		}
		more[t.kind] += t.More
		for _, one := range t.Items {
			add(one)
		}
		if len(t.Items) == 0 {
			add(t)
		}
	}
	var said []string
	for _, k := range ops.TroubleKinds {
		n := len(counts[k.Name]) + more[k.Name]
		if n == 0 {
			continue
		}
		text, title := k.Many, k.Title
		if n == 1 {
			text = k.One
		}
		said = append(said, counted(text, n))
		if h.title == "" {
			h.title = counted(title, n)
		}
	}
	h.Text = sentence(said)
	return h
}

func counted(text string, n int) string { return strings.Replace(text, "%d", ops.Number(n), 1) }

// sentence joins at most three things.
func sentence(said []string) string {
	if more := len(said) - 3; more > 0 {
		said = append(slices.Clone(said[:3]), ops.Counted(more, "other thing"))
	}
	text := strings.Join(said, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " and " + text[i+2:]
	}
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// uptime is how long the daemon has run.
func uptime(s ops.Status) string {
	if s.Started.IsZero() {
		return ""
	}
	return "up " + ops.Span(s.Watch.At.Sub(s.Started).Round(time.Second))
}
