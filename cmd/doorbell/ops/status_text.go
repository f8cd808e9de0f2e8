package ops

import (
	"fmt"
	"strings"
	"time"
)

// Render renders the status for people: a headline, what needs attention, and then how everything
// is, the agencies that need attention first.
func (s Status) Render(o TextOptions) string {
	h, problems := NewHeadline(s), s.Problems()
	text := h.Text + ". " + h.Sub
	if len(problems) > 0 {
		text = "Needs attention: " + Counted(len(problems), "problem") + "." // they stand below
	}
	if s.Instance != "" {
		text = s.Instance + ": " + text
	}
	lines := []string{o.Paint(o.Wrap(strings.TrimSpace(text), 2), levelStyles[h.Level])}
	if !s.waits() {
		for _, p := range problems {
			lines = append(append(lines, ""), p.lines(o)...)
		}
		lines = append(append(lines, ""), s.remarkLines(o)...)
		lines = append(append(lines, s.agencyTable().lines(o)...), s.forwarderTable().lines(o)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// levelStyles are the styles of what wants a person.
var levelStyles = map[Level]string{Warn: Yellow, Bad: Red}

// maxNamedWho is how many of those that have one problem are named.
const maxNamedWho = 5

// lines say what a problem is, who has it, what it means and what ends it.
func (p Problem) lines(o TextOptions) []string {
	title := p.Title
	if !p.Since.IsZero() {
		title += ", since " + p.Since.UTC().Format(time.RFC3339)
	}
	lines := []string{o.Paint(o.Wrap(title, 2), levelStyles[p.Level()])}
	add := func(head, text string) {
		if text != "" {
			lines = append(lines, o.Wrap("  "+head+text, 4))
		}
	}
	if n := len(p.Who); n > maxNamedWho {
		add("", strings.Join(p.Who[:maxNamedWho], ", ")+fmt.Sprintf(" and %d more", n-maxNamedWho))
	} else if n > 1 {
		add("", strings.Join(p.Who, ", "))
	}
	add("Last error: ", p.Error)
	add("", p.Text)
	add("→ ", p.Command)
	return lines
}

// remarkLines are what is odd and no problem, and what holds for all.
func (s Status) remarkLines(o TextOptions) (lines []string) {
	for _, a := range s.Agencies() {
		for _, remark := range a.Remarks {
			lines = append(lines, o.Wrap(a.ID+": "+remark, 2))
		}
	}
	for _, fact := range s.Facts() {
		lines = append(lines, o.Wrap(fact, 2))
	}
	if s.Page != "" {
		lines = append(lines, o.Wrap("Page: "+s.Page, 2))
	}
	return lines
}

// agencyTable has a line for each agency.
func (s Status) agencyTable() (t table) {
	t.add(Bold, "AGENCY", "STATE", "INSERTIONS", "LAST FULL SYNC", "LONGEST UNCHECKED",
		"LEAD TO EVENT", "WAITING")
	for _, a := range s.Agencies() {
		t.add(levelStyles[a.State.Level], a.ID, a.State.Word, a.Insertions,
			Ago(a.LastSync, s.Watch.At),
			a.Longest, a.Latency, fmt.Sprint(a.Waiting))
	}
	return t
}

// forwarderTable has a line for each receiver, and none if there are none.
func (s Status) forwarderTable() (t table) {
	for _, w := range s.Forwarders {
		if w.Destination == "" {
			continue
		}
		if len(t.rows) == 0 {
			t.add(Bold, "FORWARDER", "TO", "SENT", "LAST", "WAITING", "REJECTED")
		}
		style := styleNone
		if Trouble(w, s.Watch.At) != "" {
			style = Yellow
		}
		t.add(style, w.Forwarder, Destination(w), fmt.Sprint(w.Events), Ago(w.LastSent, s.Watch.At),
			fmt.Sprint(w.Waiting), fmt.Sprint(w.DeadLetters))
	}
	return t
}
