package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"doorbell/poller"
)

// Headline is the state of everything, as the page and `doorbell status` begin with it.
type Headline struct {
	Text  string // "2 agencies are halted and NATS takes no events"
	Title string // the same for the title of a window: "2 halted"
	Sub   string // what it means; may be empty
	Busy  bool   // there is nothing to do but wait
}

// NewHeadline looks at troubles first.
func NewHeadline(s Status) Headline {
	if list := s.Troubles(); len(list) > 0 {
		return troubled(list, int(min(s.DeadLetters, 1e9)))
	}
	agencies, insertions := len(s.Watch.Agencies), 0
	for _, a := range s.Watch.Agencies {
		insertions += a.Insertions
	}
	h := Headline{Text: "All is well", Title: Counted(agencies, "agency")}
	switch fresh := Learning(s.Watch.Agencies); {
	case agencies == 0:
		return Headline{Busy: true, Text: "No agency is watched", Title: "no agency", Sub: "Name one in DOORBELL_AGENCIES, or with its key in DOORBELL_API_KEYS."}
	case fresh == agencies:
		return Headline{
			Busy: true, Text: "Getting to know " + Counted(agencies, "agency"), Title: "starting",
			Sub: "What is there already is learned, not announced. After that, everything new rings here.",
		}
	case fresh > 0:
		h.Sub = fmt.Sprintf("Getting to know %s more.", Number(fresh))
	default:
		h.Sub = fmt.Sprintf("Watching %s of %s.", Counted(insertions, "insertion"), Counted(agencies, "agency"))
	}
	return h
}

// Learning counts the agencies of which nothing is announced yet.
func Learning(list []poller.AgencyStatus) (n int) {
	for _, a := range list {
		if a.State == "starting" || a.State == "baselining" {
			n++
		}
	}
	return n
}

// troubled names the kinds of troubles; of agencies it counts each once. All dead letters are one trouble.
func troubled(list []Trouble, letters int) (h Headline) {
	counts := map[string]map[string]bool{}
	for _, t := range list {
		if counts[t.Kind] == nil {
			counts[t.Kind] = map[string]bool{}
		}
		who := t.Key
		if t.Kind == "halted" || t.Kind == "stale" || t.Kind == "failing" {
			who = t.Agency
		}
		if t.Kind == "outlet" {
			who = cmp.Or(t.Alike, t.Key)
		}
		counts[t.Kind][who] = true
	}
	var said []string
	for _, k := range TroubleKinds {
		n := len(counts[k.Name])
		if k.Name == "letters" && n > 0 {
			n = letters
		}
		if n == 0 {
			continue
		}
		text := k.Many
		if n == 1 {
			text = k.One
		}
		said = append(said, filled(text, n))
		if h.Title == "" {
			h.Title = filled(k.Title, n)
		}
	}
	h.Text = sentence(said)
	return h
}

func filled(text string, n int) string { return strings.Replace(text, "%d", Number(n), 1) }

// sentence joins at most three things.
func sentence(said []string) string {
	if more := len(said) - 3; more > 0 {
		said = append(slices.Clone(said[:3]), Counted(more, "other thing"))
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
