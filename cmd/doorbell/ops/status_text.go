package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// Lines renders the status for people: a headline, what needs attention, and then how everything
// is, the agencies that need attention first.
func (s Status) Lines(o TextOptions) []string {
	if s.waits() {
		return s.headline(o)
	}
	return slices.Concat(s.headline(o), s.problemLines(o), s.facts(o), s.agencyTable(o), s.freshness(o), s.forwarderTable(o))
}

func (s Status) headline(o TextOptions) (lines []string) {
	h, style := NewHeadline(s), Bold
	text := h.Text + ". " + h.Sub
	if all := s.Problems(); len(all) > 0 {
		text, style = "Needs attention: "+Counted(len(all), "problem")+".", Yellow // they stand below
		if slices.ContainsFunc(all, func(p Problem) bool { return p.Bad }) {
			style = Red
		}
	}
	if s.Instance != "" {
		text = s.Instance + ": " + text
	}
	for _, l := range o.wrap(text, 0) {
		lines = append(lines, o.styled(l, style))
	}
	return lines
}

// facts are what holds for all.
func (s Status) facts(o TextOptions) (lines []string) {
	add := func(style, format string, args ...any) {
		for _, l := range o.wrap(fmt.Sprintf(format, args...), 0) {
			lines = append(lines, o.styled(l, style))
		}
	}
	lines = []string{""}
	add(styleNone, "doorbell %s, up %s, %s (%d in the last minute), at most %s a second, to %s",
		s.Version, age(s.Started, s.Watch.At), Counted(int(s.Watch.Requests), "request"), s.Watch.LastMinute, s.ceiling(), s.Watch.BaseURL)
	style := styleNone
	if !s.NATS.Connected || s.NATS.Problem != "" {
		style = Red
	}
	add(style, "%s", s.NATS.text())
	if s.Page != "" {
		add(styleNone, "Page: %s", s.Page)
	}
	if text := s.counted(); text != "" {
		add(styleNone, "%s", text)
	}
	return lines
}

// fewAgencies are counted at a glance.
const fewAgencies = 9

// counted says of many agencies how many stand how.
func (s Status) counted() string {
	all := s.Watch.Agencies
	if len(all) <= fewAgencies {
		return ""
	}
	insertions, states, count := 0, []string{}, map[string]int{}
	for _, a := range InOrder(all) {
		if count[a.State]++; count[a.State] == 1 {
			states = append(states, a.State)
		}
		insertions += a.Insertions
	}
	for n, state := range states {
		states[n] = fmt.Sprintf("%d %s", count[state], state)
	}
	with := ""
	if slices.ContainsFunc(all, Known) {
		with = " with " + Counted(insertions, "insertion")
	}
	return fmt.Sprintf("%d agencies%s: %s", len(all), with, strings.Join(states, ", "))
}

func (s Status) agencyTable(o TextOptions) []string {
	t := table{}
	t.add(Bold, "AGENCY", "STATE", "INSERTIONS", "LAST FULL SYNC", "EVENTS", "WAITING")
	for _, a := range InOrder(s.Watch.Agencies) {
		style := styleNone
		switch rank(a) {
		case 0:
			style = Red
		case 1:
			style = Yellow
		}
		insertions := Unknown
		if Known(a) {
			insertions = fmt.Sprint(a.Insertions)
		}
		t.add(style, a.AgencyID, a.State, insertions, ago(a.LastCompleteWalk, s.Watch.At), fmt.Sprint(a.LastSequence), fmt.Sprint(s.pending(a.AgencyID)))
	}
	return append([]string{""}, t.lines(o)...)
}

func (s Status) pending(agencyID string) uint64 {
	for _, r := range s.Relay {
		if r.AgencyID == agencyID {
			return r.Pending
		}
	}
	return 0
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
	if n.Problem != "" {
		text += "; " + n.Problem
	}
	return text
}

func age(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() }

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "none yet"
	}
	return age(at, now) + " ago"
}

// mostLabels is how many of those that have one problem are named.
const mostLabels = 5

// problemLines are what needs attention, and what was odd lately.
func (s Status) problemLines(o TextOptions) []string {
	return append(paragraphs(o, s.Problems()), s.remarks(o)...)
}

// paragraphs say of each problem what it is, what it means and what ends it.
func paragraphs(o TextOptions, list []Problem) (lines []string) {
	for _, p := range list {
		style := Yellow
		if p.Bad {
			style = Red
		}
		if !p.Since.IsZero() {
			p.Title += ", since " + p.Since.UTC().Format(time.RFC3339)
		}
		lines = append(lines, "")
		for _, l := range o.wrap(p.Title, 0) {
			lines = append(lines, o.styled(l, style))
		}
		var labels []string
		for _, one := range p.Of[:min(len(p.Of), mostLabels)] {
			labels = append(labels, one.Label)
		}
		if names := strings.Join(labels, ", "); len(p.Of) > mostLabels {
			lines = append(lines, o.wrap(fmt.Sprintf("%s and %d more", names, len(p.Of)-mostLabels), 2)...)
		} else if names != "" {
			lines = append(lines, o.wrap(names, 2)...)
		}
		if p.Error != "" {
			lines = append(lines, o.wrap("Last error: "+p.Error, 2)...)
		}
		lines = append(lines, o.wrap(p.Text, 2)...)
		if p.Do.Command != "" {
			lines = append(lines, o.wrap("→ "+p.Do.Command, 2)...)
		}
	}
	return lines
}

// remarks are what was odd lately and is no problem yet, a line each.
func (s Status) remarks(o TextOptions) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(append(lines, ""), o.wrap(fmt.Sprintf(format, args...), 0)...)
	}
	for _, a := range InOrder(s.Watch.Agencies) {
		if l := a.LastWalk; !l.Complete && l.Reason != "" {
			add("%s: the last walk, %s, was not complete (%s): %s in %s", a.AgencyID, ago(l.At, s.Watch.At), strings.ReplaceAll(l.Reason, "_", " "),
				Counted(l.Insertions, "insertion"), Counted(l.Pages, "request"))
		}
		if a.LastError != "" && a.State != "backing_off" && s.Watch.Down == "" {
			add("%s: last error: %s", a.AgencyID, a.LastError)
		}
		if members := LeftOut(a); members != "" {
			add("%s: changes at each reading and is left out: %s", a.AgencyID, members)
		}
	}
	for _, f := range s.Forwarders {
		who := strings.TrimSpace(f.Name + " " + f.Kind + " for " + s.To(f))
		if f.LastError != "" && !f.Waits(s.Watch.At) && (f.FailingSince.IsZero() || s.Watch.At.Sub(f.FailingSince) <= hiccup) {
			add("%s: %s, %s", who, f.LastError, ago(f.LastErrorAt, s.Watch.At))
		}
	}
	return lines
}

// ceiling is the requests a second that may be sent, and what is left of them.
func (s Status) ceiling() string {
	text := fmt.Sprintf("%g", s.Watch.RequestsPerSecond)
	if left := s.Watch.Effective; s.Throttled() {
		text += fmt.Sprintf(" (%.4g now, throttled by the API)", left)
	}
	return text
}

// Throttled says whether less may be sent than the ceiling because the API asked for that.
func (s Status) Throttled() bool {
	return s.Watch.Effective < 0.999*s.Watch.RequestsPerSecond // both are rounded
}

// freshness says how long insertions wait for a poll and contact requests for their event, a line
// for each agency.
func (s Status) freshness(o TextOptions) []string {
	t := table{}
	t.add(Bold, "AGENCY", "LONGEST UNCHECKED", "SHOULD BE", "TOO LONG", "NEVER", "MEDIAN", "95 %", "IN 5 MIN")
	for _, a := range InOrder(s.Watch.Agencies) {
		if f := a.Freshness; f != nil && Known(a) {
			cells := []string{a.AgencyID, Unknown, seconds(f.CapSeconds), fmt.Sprint(f.PastCap), fmt.Sprint(f.NeverPolled), Unknown, Unknown, Unknown}
			if f.Insertions > 0 {
				cells[1] = seconds(f.OldestSeconds)
			}
			if l := f.Latency; l.ContactRequests > 0 {
				cells = append(cells[:5], seconds(l.MedianSeconds), seconds(l.P95Seconds), fmt.Sprintf("%.0f %% of %d", 100*l.WithinFiveMinutes, l.ContactRequests))
			}
			t.add(styleNone, cells...)
		}
	}
	if len(t.rows) == 1 {
		return nil
	}
	title := o.wrap("How long insertions wait for a poll, and contact requests of the last 24 h waited for their event:", 0)
	return slices.Concat([]string{""}, title, t.lines(o))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// TextOptions say where a status is read. The zero value is a file: as wide as it takes.
type TextOptions struct {
	Width int  // of the terminal; 0: no line is cut or broken
	Color bool // states that need attention are red or yellow
}

// Styles of a text on a terminal.
const (
	styleNone = ""
	Bold      = "\x1b[1m"
	Red       = "\x1b[31m"
	Yellow    = "\x1b[33m"
	styleEnd  = "\x1b[0m"
)

// Paint gives a text a style, where there are any.
func (o TextOptions) Paint(text, style string) string {
	if !o.Color || style == styleNone || text == "" {
		return text
	}
	return style + text + styleEnd
}

// styled cuts a line to the width, and gives it a style.
func (o TextOptions) styled(line, style string) string { return o.Paint(o.cut(line), style) }

// cut shortens a line to the width. Characters that could rewrite a terminal, whoever they come
// from, are not passed on.
func (o TextOptions) cut(line string) string {
	line = Printable(line)
	if o.Width <= 0 || utf8.RuneCountInString(line) <= o.Width {
		return line
	}
	return string([]rune(line)[:max(o.Width-1, 0)]) + "…"
}

// wrap breaks a sentence into lines; all are indented by indent spaces, those after the first by
// two more.
func (o TextOptions) wrap(text string, indent int) []string {
	return Fit(strings.Repeat(" ", indent)+strings.Join(strings.Fields(text), " "), indent+2, o.Width)
}

// Fit breaks a line between words where it is wider than a terminal, whose width is 0 if there is
// none. Further lines are indented by indent spaces. A word stays whole: it may be there to be
// copied.
func Fit(line string, indent, width int) (lines []string) {
	rest := []rune(Printable(line))
	for width > 0 && len(rest) > width {
		word := 0 // the first one's beginning
		for word < len(rest) && rest[word] == ' ' {
			word++
		}
		at := width
		for at > word && rest[at] != ' ' {
			at--
		}
		if at <= word { // it is longer than the line
			for at = word; at < len(rest) && rest[at] != ' '; {
				at++
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		text := strings.TrimLeft(string(rest[at:]), " ")
		if text == "" {
			return lines
		}
		rest = []rune(strings.Repeat(" ", indent) + text)
	}
	return append(lines, string(rest))
}

// fileWidth is how wide prose is where no terminal tells its own width.
const fileWidth = 110

// Prose breaks a line of it between words, also where there is no terminal.
func (o TextOptions) Prose(line string, indent int) string {
	return strings.Join(Fit(line, indent, cmp.Or(o.Width, fileWidth)), "\n")
}

// table is rows, whose cells have tabs between them, and their styles.
type table struct{ rows, styles []string }

func (t *table) add(style string, cells ...string) {
	for n, cell := range cells {
		cells[n] = Printable(cell) // a row is one line, whatever the name of a host holds
	}
	t.rows, t.styles = append(t.rows, strings.Join(cells, "\t")), append(t.styles, style)
}

func (t *table) lines(o TextOptions) []string {
	lines := strings.Split(strings.TrimSuffix(Aligned(t.rows, 0), "\n"), "\n")
	for n := range lines {
		lines[n] = o.styled(lines[n], t.styles[n])
	}
	return lines
}

// Aligned puts the cells of rows, which have tabs between them, below each other; flags are those
// of tabwriter.
func Aligned(rows []string, flags uint) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', flags)
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	t.Flush() //nolint:errcheck // a builder takes everything
	return b.String()
}
