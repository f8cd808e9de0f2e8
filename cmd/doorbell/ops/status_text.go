package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lines renders the status for people: a headline, what needs attention, and then how everything
// is, the agencies that need attention first.
func (s Status) Lines(o TextOptions) []string {
	if s.waits() {
		return s.headline(o)
	}
	return slices.Concat(s.headline(o), s.problemLines(o), s.remarkLines(o), s.factLines(o), s.agencyTable(o), s.forwarderTable(o))
}

func (s Status) headline(o TextOptions) []string {
	h := NewHeadline(s)
	text := h.Text + ". " + h.Sub
	if all := s.Problems(); len(all) > 0 {
		text = "Needs attention: " + Counted(len(all), "problem") + "." // they stand below
	}
	if s.Instance != "" {
		text = s.Instance + ": " + text
	}
	return o.prose(text, 0, levelStyles[h.Level])
}

// levelStyles are the styles of what wants a person.
var levelStyles = map[Level]string{Warn: Yellow, Bad: Red}

// maxLabels is how many of those that have one problem are named.
const maxLabels = 5

// problemLines say of each problem what it is, what it means and what ends it.
func (s Status) problemLines(o TextOptions) (lines []string) {
	for _, p := range s.Problems() {
		if !p.Since.IsZero() {
			p.Title += ", since " + p.Since.UTC().Format(time.RFC3339)
		}
		lines = append(append(lines, ""), o.prose(p.Title, 0, levelStyles[p.Level()])...)
		var labels []string
		for _, one := range p.Of[:min(len(p.Of), maxLabels)] {
			labels = append(labels, one.Label)
		}
		names := strings.Join(labels, ", ")
		if more := len(p.Of) - maxLabels; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		for _, part := range []struct{ head, text string }{{"", names}, {"Last error: ", p.Error}, {"", p.Text}, {"→ ", p.Command}} {
			if part.text != "" {
				lines = append(lines, o.prose(part.head+part.text, 2, styleNone)...)
			}
		}
	}
	return lines
}

func (s Status) remarkLines(o TextOptions) (lines []string) {
	for _, a := range s.Agencies() {
		for _, remark := range a.Remarks {
			lines = append(append(lines, ""), o.prose(a.ID+": "+remark, 0, styleNone)...)
		}
	}
	return lines
}

func (s Status) factLines(o TextOptions) []string {
	lines := []string{""}
	for _, fact := range s.Facts() {
		lines = append(lines, o.prose(fact, 0, styleNone)...)
	}
	if s.Page != "" {
		lines = append(lines, o.prose("Page: "+s.Page, 0, styleNone)...)
	}
	return lines
}

// agencyTable has a line for each agency.
func (s Status) agencyTable(o TextOptions) []string {
	t := table{}
	t.add(Bold, "AGENCY", "STATE", "INSERTIONS", "LAST FULL SYNC", "LONGEST UNCHECKED", "LEAD TO EVENT", "WAITING")
	for _, a := range s.Agencies() {
		t.add(levelStyles[a.State.Level], a.ID, a.State.Word, a.Insertions, Ago(a.LastSync, s.Watch.At),
			a.Longest, a.Latency, fmt.Sprint(a.Waiting))
	}
	return append([]string{""}, t.lines(o)...)
}

// forwarderTable has a line for each receiver, and none if there are none.
func (s Status) forwarderTable(o TextOptions) []string {
	t := table{}
	t.add(Bold, "FORWARDER", "TO", "SENT", "LAST", "WAITING", "REJECTED")
	for _, w := range s.Forwarders {
		if w.Destination == "" {
			continue
		}
		style := styleNone
		if Trouble(w, s.Watch.At) != "" {
			style = Yellow
		}
		t.add(style, w.Forwarder, Destination(w), fmt.Sprint(w.Events), Ago(w.LastSent, s.Watch.At),
			fmt.Sprint(w.Waiting), fmt.Sprint(w.DeadLetters))
	}
	if len(t.rows) == 1 {
		return nil
	}
	return append([]string{""}, t.lines(o)...)
}
