package ops

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"doorbell/poller"
)

// WriteText renders the status for people, whole.
func (s Status) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(s.Lines(TextOptions{}), "\n")+"\n")
	return err
}

// Lines renders the status for people. Agencies that want a look come first. What is wrong stands at the end, where the eye is when
// all of it has passed; but where only so many lines are seen at once it stands above the agencies, of which some are left out.
func (s Status) Lines(o TextOptions) []string {
	head, agencies, fresh := s.head(o), s.agencyTable(o), s.freshness(o)
	forwarders, troubles := s.forwarderTable(o), append(s.forwarderTroubles(o), s.troubles(o)...)
	if o.Height <= 0 {
		return slices.Concat(head, agencies, fresh, forwarders, troubles)
	}
	if most := max(o.Height/2, 1); len(troubles) > most {
		troubles = append(troubles[:most-1], o.cut(fmt.Sprintf("… and %d more lines: doorbell status prints all", len(troubles)-most+1)))
	}
	shown := slices.Concat(head, troubles, forwarders)
	if len(shown)+len(agencies)+len(fresh) <= o.Height {
		return slices.Concat(shown, agencies, fresh)
	}
	if room := max(o.Height-len(shown), 4); len(agencies) > room {
		agencies = append(agencies[:room-1], o.cut(fmt.Sprintf("… and %d more agencies", len(agencies)-room+1)))
	}
	shown = append(shown, agencies...)
	return shown[:min(len(shown), o.Height)]
}

func (s Status) head(o TextOptions) (lines []string) {
	add := func(style, format string, args ...any) {
		for _, l := range o.wrap(fmt.Sprintf(format, args...), 0) {
			lines = append(lines, o.styled(l, style))
		}
	}
	if !s.Running {
		add(styleYellow, "doorbell is not running; this is what %s remembers", s.DataDir)
	} else {
		add(styleNone, "doorbell %s, up %s, %s (%d in the last minute), at most %s a second, to %s",
			s.Version, age(s.Started, s.Watch.At), Counted(int(s.Watch.Requests), "request"), s.Watch.LastMinute, s.ceiling(), s.Watch.BaseURL)
		style := styleNone
		if !s.NATS.Connected || s.NATS.Problem != "" {
			style = styleRed
		}
		add(style, "%s", s.NATS.text())
		if s.Page != "" {
			add(styleNone, "Page: %s", s.Page)
		}
	}
	for _, text := range s.Store.sentences() {
		add(styleRed, "%s", text)
	}
	if s.Watch.NoSpace && !s.Store.Full {
		add(styleRed, "The disk is full: nothing is asked until there is space for %s", s.DataDir)
	}
	if s.Watch.Down != "" {
		add(styleRed, "The API does not answer; next try %s", s.Watch.Down)
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
	return fmt.Sprintf("%d agencies with %s: %s", len(all), Counted(insertions, "insertion"), strings.Join(states, ", "))
}

func (s Status) agencyTable(o TextOptions) []string {
	t := table{}
	t.add(styleBold, "AGENCY", "STATE", "INSERTIONS", "LAST COMPLETE WALK", "EVENTS", "WAITING")
	for _, a := range InOrder(s.Watch.Agencies) {
		style := styleNone
		switch rank(a) {
		case 0:
			style = styleRed
		case 1:
			style = styleYellow
		}
		t.add(style, a.AgencyID, a.State, fmt.Sprint(a.Insertions), ago(a.LastCompleteWalk, s.Watch.At), fmt.Sprint(a.LastSequence), fmt.Sprint(s.pending(a.AgencyID)))
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

// alarmWords say in plain words what a watch event has told.
var alarmWords = map[string]string{
	"stale":          "nothing good is heard",
	"schema_drifted": "the answers are not what they were",
	"gap_detected":   "not everything can be seen",
}

// trouble is one thing that is wrong at an agency. Those of the same words and the same kind are told together: a key that is
// refused halts all of its agencies.
type trouble struct {
	agencyID string
	since    time.Time // zero: that is not known
	are, is  string    // what is told of several, and of one, between their names and the time
	what     string    // behind it
	advice   string
}

// troubles are what is wrong, paragraph by paragraph.
func (s Status) troubles(o TextOptions) (lines []string) {
	var all []trouble
	for _, a := range InOrder(s.Watch.Agencies) {
		all = append(all, troublesOf(a, s.Watch.At)...)
	}
	for _, r := range s.Relay {
		if r.Problem != "" {
			all = append(all, trouble{agencyID: r.AgencyID, is: ": publishing: " + r.Problem})
		}
	}
	for _, group := range together(all) {
		lines = append(lines, "")
		for _, l := range o.wrap(sentence(group), 0) {
			lines = append(lines, o.styled(l, styleNone))
		}
		if group[0].advice != "" {
			lines = append(lines, o.wrap(group[0].advice, 2)...)
		}
	}
	return lines
}

// mostInALine is how many agencies a single line names.
const mostInALine = 3

// Trouble says in a line what a person should look at; empty if there is nothing. It is for a log and a mail of cron: Lines say it all.
func (s Status) Trouble() string {
	var words []string
	for text, is := range map[string]bool{
		"the API does not answer": s.Watch.Down != "", "the disk is full": s.Watch.NoSpace && !s.Store.Full,
		"the store is full": s.Store.Full, "the store is nearly full": s.Store.Alarm && !s.Store.Full,
	} {
		if is {
			words = append(words, text)
		}
	}
	slices.Sort(words)
	words = append(words, s.unpublished()...)
	ill := slices.DeleteFunc(InOrder(s.Watch.Agencies), func(a poller.AgencyStatus) bool { return !Ill(a) && !s.waits(a) })
	for _, a := range ill[:min(len(ill), mostInALine)] {
		words = append(words, a.AgencyID+illness(a))
	}
	if more := len(ill) - mostInALine; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	for _, f := range s.Forwarders {
		switch {
		case f.Off:
			words = append(words, f.Name+" is off")
		case f.ill(s.Watch.At):
			words = append(words, f.Name+" takes nothing")
		}
	}
	return strings.Join(slices.Compact(words), ", ")
}

// waitsLong is how long events, or the begin of a watch, may wait for NATS before that is trouble.
const waitsLong = time.Minute

// waits says whether an agency has waited for long for the stream.
func (s Status) waits(a poller.AgencyStatus) bool {
	return a.State == WaitingForStream && s.Watch.At.Sub(a.WatchStart) > waitsLong
}

// unpublished is what is wrong between the event log and NATS.
func (s Status) unpublished() (words []string) {
	switch {
	case !s.Running:
	case !s.NATS.Connected:
		words = append(words, "NATS is not connected")
	case s.NATS.Problem != "":
		words = append(words, "NATS takes no events: "+s.NATS.Problem)
	}
	var agencies []string
	for _, r := range s.Relay {
		if !r.OldestWaiting.IsZero() && s.Watch.At.Sub(r.OldestWaiting) > waitsLong {
			agencies = append(agencies, r.AgencyID)
		}
	}
	switch n := len(agencies); {
	case n == 1:
		words = append(words, "events of "+agencies[0]+" wait for NATS")
	case n > 1:
		words = append(words, fmt.Sprintf("events of %d agencies wait for NATS", n))
	}
	return words
}

// illness is the worst that ails an agency.
func illness(a poller.AgencyStatus) string {
	switch {
	case a.State == "halted":
		return " is halted"
	case a.State == WaitingForStream:
		return " waits for the stream"
	case len(a.Halts) > 0:
		return " is halted in part"
	case a.Held != nil:
		return " holds a change"
	case len(a.Alarms) > 0:
		return ": " + alarmWords[a.Alarms[0].Kind]
	}
	return " does not get an answer"
}

func troublesOf(a poller.AgencyStatus, now time.Time) (all []trouble) {
	add := func(t trouble) {
		t.agencyID = a.AgencyID
		all = append(all, t)
	}
	if a.State == WaitingForStream {
		add(trouble{
			since: a.WatchStart, is: " waits for the stream", are: " wait for the stream", what: ", which may hold what a store before this one has told of it",
			advice: "Nothing is asked until NATS answers. If no doorbell has published there before, restart with: doorbell run --alone",
		})
	}
	for _, h := range a.Halts {
		scope := fmt.Sprintf(" halted (%s%s)", h.Scope, of(h.PropertyReferenceID))
		add(trouble{
			since: h.Since, is: " is" + scope, are: " are" + scope, advice: h.Advice,
			what: fmt.Sprintf(": %d, %s", h.Status, h.ProbableReason),
		})
	}
	if h := a.Held; h != nil {
		add(trouble{is: fmt.Sprintf(" holds a change: %d of %d insertions are missing (%s); believed at %s if it stays, or by: %s",
			h.Missing, h.Known, h.Reason, h.Until.Format(time.RFC3339), h.Approve)})
	}
	for _, l := range a.Alarms {
		add(trouble{since: l.Since, is: fmt.Sprintf(", %s%s: %s", strings.ReplaceAll(l.Operation, "_", " "), of(l.PropertyReferenceID), alarmWords[l.Kind])})
	}
	if l := a.LastWalk; !l.Complete && l.Reason != "" {
		add(trouble{is: fmt.Sprintf(": the last walk, %s, was not complete (%s): %d insertions in %d requests", ago(l.At, now),
			strings.ReplaceAll(l.Reason, "_", " "), l.Insertions, l.Pages)})
	}
	if a.LastError != "" {
		add(trouble{is: ": last error: " + a.LastError})
	}
	return all
}

// together puts what is told in the same words into one group, at the place of the first.
func together(all []trouble) (groups [][]trouble) {
	place := map[string]int{}
	for _, t := range all {
		words := t.is + "\x00" + t.what
		n, known := place[words]
		if !known {
			n = len(groups)
			place[words], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], t)
	}
	return groups
}

// mostNamed is how many agencies are named where many have the same trouble.
const mostNamed = 5

func sentence(group []trouble) string {
	first, names := group[0], make([]string, 0, mostNamed)
	for _, t := range group {
		if len(names) < mostNamed {
			names = append(names, t.agencyID)
		}
		if t.since.Before(first.since) {
			first.since = t.since
		}
	}
	who, verb, since := strings.Join(names, ", "), first.is, " since "
	if more := len(group) - len(names); more > 0 {
		who = fmt.Sprintf("%s and %d more", who, more)
	}
	if len(group) > 1 {
		since = ", the first since "
		if first.are != "" {
			verb = first.are
		}
	}
	if first.since.IsZero() {
		return who + verb + first.what
	}
	return who + verb + since + first.since.Format(time.RFC3339) + first.what
}

func of(reference string) string {
	if reference == "" {
		return ""
	}
	return fmt.Sprintf(" %q", reference)
}

// ceiling is the requests a second that may be sent, and what is left of them.
func (s Status) ceiling() string {
	text := fmt.Sprintf("%g", s.Watch.RequestsPerSecond)
	if left := s.Watch.Effective; left < s.Watch.RequestsPerSecond {
		text += fmt.Sprintf(" (%.4g now, since the API asked for patience)", left)
	}
	return text
}

// freshness says how long insertions wait for a poll and contact requests for their event, a line for each agency.
func (s Status) freshness(o TextOptions) []string {
	if !slices.ContainsFunc(s.Watch.Agencies, func(a poller.AgencyStatus) bool { return a.Freshness != nil }) {
		return nil
	}
	t := table{}
	t.add(styleBold, "AGENCY", "OLDEST POLL", "CAP", "PAST CAP", "MEAN", "MEDIAN", "95 %", "WITHIN 5 MIN", "ASKED WHY")
	for _, a := range InOrder(s.Watch.Agencies) {
		if f := a.Freshness; f != nil {
			l := latency(f.Latency)
			t.add(styleNone, a.AgencyID, seconds(f.OldestSeconds), seconds(f.CapSeconds), fmt.Sprint(f.PastCap), l[0], l[1], l[2], l[3],
				reasons(f.Turns)+hints(f.Hints)+first(f.NeverPolled))
		}
	}
	title := o.wrap("How long insertions wait for a poll, and contact requests of the last 24 h waited for their event:", 0)
	return slices.Concat([]string{""}, title, t.lines(o))
}

func latency(l poller.Latency) [4]string {
	if l.ContactRequests == 0 {
		return [4]string{"-", "-", "-", "-"}
	}
	return [4]string{
		seconds(l.MeanSeconds), seconds(l.MedianSeconds), seconds(l.P95Seconds), fmt.Sprintf("%.0f %% of %d", 100*l.WithinFiveMinutes, l.ContactRequests),
	}
}

// reasons are those for which something was asked, the most frequent first.
func reasons(turns map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(turns), func(x, y string) int {
		return cmp.Or(cmp.Compare(turns[y], turns[x]), strings.Compare(x, y))
	})
	var list []string
	for _, name := range names {
		if turns[name] > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, turns[name]))
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// hints says how much changes of records betray, where that is used.
func hints(h poller.Hints) string {
	if !h.Acting {
		return ""
	}
	return fmt.Sprintf("; records betray %.0f %%", 100*h.Recall)
}

// first says how many insertions are still to be polled for the first time.
func first(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; never polled yet: %d", n)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// TextOptions say where a status is read. The zero value is a file: as wide and as long as it takes.
type TextOptions struct {
	Width  int  // of the terminal; 0: no line is cut or broken
	Height int  // lines that are seen at once; 0: all are
	Color  bool // states that want a look are red or yellow
}

// Styles of a line on a terminal.
const (
	styleNone   = ""
	styleBold   = "\x1b[1m"
	styleRed    = "\x1b[31m"
	styleYellow = "\x1b[33m"
	styleEnd    = "\x1b[0m"
)

// styled cuts a line to the width, and gives it a style.
func (o TextOptions) styled(line, style string) string {
	line = o.cut(line)
	if !o.Color || style == styleNone || line == "" {
		return line
	}
	return style + line + styleEnd
}

// cut shortens a line to the width. Characters that could rewrite a terminal, whoever they come from, are not passed on.
func (o TextOptions) cut(line string) string {
	line = Printable(line)
	if o.Width <= 0 || utf8.RuneCountInString(line) <= o.Width {
		return line
	}
	return string([]rune(line)[:max(o.Width-1, 0)]) + "…"
}

// wrap breaks a sentence into lines; all are indented by so many spaces, those after the first by two more.
func (o TextOptions) wrap(text string, indent int) (lines []string) {
	margin := strings.Repeat(" ", indent)
	if o.Width <= 0 {
		return []string{o.cut(margin + text)}
	}
	line := margin
	for word := range strings.FieldsSeq(text) {
		switch empty := strings.TrimSpace(line) == ""; {
		case empty:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > o.Width:
			lines = append(lines, o.cut(line))
			line = margin + "  " + word
		default:
			line += " " + word
		}
	}
	return append(lines, o.cut(line))
}

// table is rows of cells. Columns are as wide as their widest cell.
type table struct {
	rows   [][]string
	styles []string
}

func (t *table) add(style string, cells ...string) {
	t.rows, t.styles = append(t.rows, cells), append(t.styles, style)
}

func (t *table) lines(o TextOptions) []string {
	var widths []int
	for _, row := range t.rows {
		for n, cell := range row {
			if n == len(widths) {
				widths = append(widths, 0)
			}
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(t.rows))
	for r, row := range t.rows {
		var b strings.Builder
		for n, cell := range row {
			b.WriteString(cell)
			if n < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+2))
			}
		}
		lines[r] = o.styled(b.String(), t.styles[r])
	}
	return lines
}

// Headline is the first line of a screen.
func (o TextOptions) Headline(text string) string { return o.styled(text, styleBold) }
