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
	return slices.Concat(s.headline(o), s.problemLines(o), s.remarks(o), s.facts(o), s.agencyTable(o), s.forwarderTable(o))
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

// mostLabels is how many of those that have one problem are named.
const mostLabels = 5

// problemLines say of each problem what it is, what it means and what ends it.
func (s Status) problemLines(o TextOptions) (lines []string) {
	for _, p := range s.Problems() {
		style := Yellow
		if p.Bad {
			style = Red
		}
		if !p.Since.IsZero() {
			p.Title += ", since " + p.Since.UTC().Format(time.RFC3339)
		}
		lines = append(append(lines, ""), o.prose(p.Title, 0, style)...)
		var labels []string
		for _, one := range p.Of[:min(len(p.Of), mostLabels)] {
			labels = append(labels, one.Label)
		}
		names := strings.Join(labels, ", ")
		if more := len(p.Of) - mostLabels; more > 0 {
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

// remarks are what was odd lately and is no problem, a line each.
func (s Status) remarks(o TextOptions) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(append(lines, ""), o.prose(fmt.Sprintf(format, args...), 0, styleNone)...)
	}
	for _, a := range InOrder(s.Watch.Agencies) {
		if l := a.LastWalk; !l.Complete && l.Reason != "" {
			add("%s: the last walk, %s, was not complete (%s): %s in %s", a.AgencyID, ago(l.At, s.Watch.At), strings.ReplaceAll(l.Reason, "_", " "),
				Counted(l.Insertions, "insertion"), Counted(l.Pages, "request"))
		}
		if a.LastError != "" && !Ill(a) {
			add("%s: last error: %s", a.AgencyID, a.LastError)
		}
		if members := LeftOut(a); members != "" {
			add("%s: changes at each reading and is left out: %s", a.AgencyID, members)
		}
	}
	return lines
}

// facts are what holds for all.
func (s Status) facts(o TextOptions) []string {
	lines := append([]string{""}, o.prose(fmt.Sprintf("doorbell %s, up %s, %s (%d in the last minute), at most %s a second, to %s",
		s.Version, age(s.Started, s.Watch.At), Counted(int(s.Watch.Requests), "request"), s.Watch.LastMinute, s.ceiling(), s.Watch.BaseURL), 0, styleNone)...)
	lines = append(lines, o.prose(s.NATS.text(), 0, styleNone)...)
	if s.Page != "" {
		lines = append(lines, o.prose("Page: "+s.Page, 0, styleNone)...)
	}
	return lines
}

// ceiling is the requests a second that may be sent, and what is left of them.
func (s Status) ceiling() string {
	text := fmt.Sprintf("%g", s.Watch.RequestsPerSecond)
	if s.Throttled() {
		text += fmt.Sprintf(" (%.4g now, throttled by the API)", s.Watch.Effective)
	}
	return text
}

// Throttled reports whether less may be sent than the ceiling because the API asked for that.
func (s Status) Throttled() bool {
	return s.Watch.Effective < 0.999*s.Watch.RequestsPerSecond // both are rounded
}

func (n NATSStatus) text() string {
	kind, state := "external", "connected"
	if n.Embedded {
		kind = "embedded"
	}
	if !n.Connected {
		state = "not connected"
	}
	text := fmt.Sprintf("NATS: %s, %s, stream %s", kind, state, n.Stream)
	if n.URL != "" {
		text += ", " + n.URL
	}
	return text
}

// agencyTable has a line for each agency: how it stands, and how long its insertions wait for a poll
// and its leads of the last 24 hours waited for their event.
func (s Status) agencyTable(o TextOptions) []string {
	pending := map[string]uint64{}
	for _, r := range s.Relay {
		pending[r.AgencyID] = r.Pending
	}
	t := table{}
	t.add(Bold, "AGENCY", "STATE", "INSERTIONS", "LAST FULL SYNC", "LONGEST UNCHECKED", "LEAD TO EVENT", "EVENTS", "WAITING")
	for _, a := range InOrder(s.Watch.Agencies) {
		insertions, longest, latency := Unknown, Unknown, Unknown
		if Known(a) {
			insertions = fmt.Sprint(a.Insertions)
			if f := a.Freshness; f != nil && f.Insertions > 0 {
				longest = seconds(f.OldestSeconds)
			}
			if f := a.Freshness; f != nil && f.Latency.ContactRequests > 0 {
				latency = seconds(f.Latency.MedianSeconds)
			}
		}
		level := StateOf(a).Level
		if Ill(a) && level == Well {
			level = Warn
		}
		t.add(levelStyles[level], a.AgencyID, StateOf(a).Word, insertions, ago(a.LastCompleteWalk, s.Watch.At), longest, latency,
			fmt.Sprint(a.LastSequence), fmt.Sprint(pending[a.AgencyID]))
	}
	return append([]string{""}, t.lines(o)...)
}

// forwarderTable has a line for each receiver, and none if there are none.
func (s Status) forwarderTable(o TextOptions) []string {
	t := table{}
	t.add(Bold, "FORWARDER", "TO", "SENT", "LAST", "WAITING", "REJECTED")
	for _, f := range s.Forwarders {
		if f.Destination == "" {
			continue
		}
		style := styleNone
		if f.Trouble(s.Watch.At) != "" {
			style = Yellow
		}
		t.add(style, f.Name, f.To(), fmt.Sprint(f.Events), ago(f.LastSent, s.Watch.At), fmt.Sprint(f.Waiting), fmt.Sprint(f.DeadLetters))
	}
	if len(t.rows) == 1 {
		return nil
	}
	return append([]string{""}, t.lines(o)...)
}

func age(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() }

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "none yet"
	}
	return age(at, now) + " ago"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
