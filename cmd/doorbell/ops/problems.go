package ops

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller"
)

// Problem is something that needs attention, and what ends it, or several such things with the same
// cause. Page, terminal, log and ping use the same words. Its texts may contain text from outside:
// each rendering bounds them and removes control characters.
type Problem struct {
	Key    string // the same as long as it lasts
	Kind   string // one of kinds
	Bad    bool   // something does not work; otherwise it is a warning
	Agency string // or the forwarder; empty: it is about everything
	Label  string // names it in a group
	Title  string // a sentence without a full stop
	Text   string // what it means, and what to do
	Error  string // the last error
	Since  time.Time
	Do     Remedy

	Alike string    // problems with the same value are grouped; empty: not grouped
	Many  string    // the title of a group, with %s for the number of problems
	Of    []Problem // the members of a group
}

// Remedy is how a person ends a problem.
type Remedy struct {
	Verb    string // resume or approve: it is about this problem alone; else empty
	Command string
}

// kinds are the kinds of problems, the most pressing first.
var kinds = []string{
	"full", "down", "halted", "nats", "stale", "held", "insertion", "waiting", "untaken", "routes", "outlet", "letters", "failing", "relay",
	"gap_detected", "schema_drifted", "alarm", "nearly",
}

const (
	// waitsLong is how long events, or the beginning of a watch, may wait for NATS before it is a
	// problem.
	waitsLong = time.Minute
	// hiccup is how long deliveries may fail before that is shown.
	hiccup = time.Minute
)

// Problems returns the problems of a status, the most pressing first. Problems with the same cause
// are one group.
func (s Status) Problems() []Problem { return grouped(s.problems()) }

// problems returns them without grouping.
func (s Status) problems() []Problem {
	if s.waits() {
		return nil
	}
	all := s.storeProblems()
	if s.Watch.Down != "" {
		all = append(all, s.downProblem())
	}
	for _, a := range InOrder(s.Watch.Agencies) {
		all = append(all, s.agencyProblems(a)...)
	}
	all = slices.Concat(all, s.natsProblems(), s.forwarderProblems())
	slices.SortStableFunc(all, func(x, y Problem) int {
		return cmp.Compare(slices.Index(kinds, x.Kind), slices.Index(kinds, y.Kind))
	})
	return all
}

// grouped puts problems that are alike into one group, at the position of the first.
func grouped(all []Problem) (list []Problem) {
	place := map[string]int{}
	for _, p := range all {
		n, known := place[p.Alike]
		if known && p.Alike != "" {
			list[n].Of = append(list[n].Of, p)
			continue
		}
		place[p.Alike] = len(list)
		one := p
		one.Of = []Problem{p}
		list = append(list, one)
	}
	for n := range list {
		list[n].unite()
	}
	return list
}

// unite fills in a group from its members; a group of one becomes that problem.
func (p *Problem) unite() {
	if len(p.Of) == 1 {
		p.Of = nil
		return
	}
	p.Key, p.Title = "group\x00"+p.Alike, strings.Replace(p.Many, "%s", Number(len(p.Of)), 1)
	for _, one := range p.Of {
		p.Error = cmp.Or(p.Error, one.Error)
		if !one.Since.IsZero() && (p.Since.IsZero() || one.Since.Before(p.Since)) {
			p.Since = one.Since
		}
	}
	if p.Do.Verb == "resume" {
		p.Do = Remedy{Verb: "resume", Command: "doorbell resume --all"}
	} else {
		p.Do = Remedy{Command: strings.ReplaceAll(p.Do.Command, " --agency "+Shell(p.Agency), "")}
	}
	p.Agency, p.Label = "", ""
}

// maxNamed is how many problems the headline names.
const maxNamed = 2

// summary joins the titles of the first problems.
func summary(list []Problem) string {
	var words []string
	for _, p := range list[:min(len(list), maxNamed)] {
		words = append(words, p.Title)
	}
	if more := len(list) - maxNamed; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(slices.Compact(words), "; ")
}

// refusals explain the probable reasons for a refusal.
var refusals = map[string]string{
	"key_rejected":          "the API refuses the key",
	"agency_not_linked":     "the key may not read this agency",
	"insertion_not_allowed": "the API refuses this insertion",
	"edge_challenge":        "a gateway or firewall refuses us",
}

// RefusalText says in words why access was refused: "the API refuses the key".
func RefusalText(status int, reason string) string {
	why := cmp.Or(refusals[reason], "the API refuses access")
	if status > 0 && status != http.StatusForbidden {
		why += fmt.Sprintf(" (%d)", status)
	}
	return why
}

// operations names the operations for people.
var operations = map[string]string{"insertions": "the list of insertions", "contact_requests": "contact requests"}

func operation(op string) string { return cmp.Or(operations[op], strings.ReplaceAll(op, "_", " ")) }

func (s Status) agencyProblems(a poller.AgencyStatus) (all []Problem) {
	add := func(kind string, t Problem) {
		t.Kind, t.Agency, t.Label = kind, a.AgencyID, cmp.Or(t.Label, a.AgencyID)
		t.Key = strings.Join([]string{kind, a.AgencyID, t.Key}, "\x00")
		all = append(all, t)
	}
	id := a.AgencyID
	if a.State == WaitingForStream && (!s.NATS.Connected || s.Watch.At.Sub(a.WatchStart) > waitsLong) {
		add("waiting", Problem{
			Since: a.WatchStart, Alike: "waiting", Title: id + " waits for the stream", Many: "%s agencies wait for the stream",
			Text: "The stream may hold what a store before this one has published. Polling begins when NATS answers. The command below says why it does not.",
			Do:   Remedy{Command: "doorbell check"},
		})
	}
	for _, h := range a.Halts {
		add(haltProblem(id, h))
	}
	if a.Held != nil {
		add("held", s.heldProblem(id, *a.Held))
	}
	stale := false
	for _, l := range a.Alarms {
		stale = stale || l.Kind == "stale"
		add(alarmProblem(a, l))
	}
	if a.State == "stale" && !stale { // the alarm is not raised yet
		stale = true
		add(alarmProblem(a, poller.Alarm{Kind: "stale", Operation: "contact_requests", Since: a.LastGoodAnswer}))
	}
	if a.State == "backing_off" && s.Watch.Down == "" && !stale {
		add("failing", Problem{
			Error: a.LastError, Alike: "failing", Title: id + ": the API fails", Many: "The API fails for %s agencies",
			Text: "doorbell waits longer after each failure and retries by itself. There is nothing to do unless it lasts.",
		})
	}
	return all
}

func haltProblem(id string, h poller.HaltStatus) (kind string, t Problem) {
	why := RefusalText(h.Status, h.ProbableReason)
	t = Problem{
		Bad: true, Since: h.Since, Key: string(h.Scope) + "\x00" + h.PropertyReferenceID, Alike: "halt " + string(h.Scope) + " " + h.ProbableReason + " " + strconv.Itoa(h.Status),
		Text: stopped(strings.Replace(h.Advice, "run: "+h.Resume, "resume it", 1)), Do: Remedy{Verb: "resume", Command: h.Resume},
	}
	switch h.Scope {
	case events.ScopeContactRequests:
		t.Title, t.Many = fmt.Sprintf("Contact requests of %s are halted: %s", id, why), "Contact requests of %s agencies are halted: "+why
	case events.ScopeInsertion:
		t.Label = id + " " + Middle(h.PropertyReferenceID, 80)
		t.Title, t.Many = fmt.Sprintf("An insertion of %s is halted: %s", id, Middle(h.PropertyReferenceID, 80)), "%s insertions are halted: "+why
		return "insertion", t
	default:
		t.Title, t.Many = fmt.Sprintf("%s is halted: %s", id, why), "%s agencies are halted: "+why
	}
	return "halted", t
}

// stopped ends a sentence with a full stop, unless it has an end.
func stopped(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

func (s Status) heldProblem(id string, h poller.HeldStatus) Problem {
	title := fmt.Sprintf("%s lacks %s of %s", id, Number(h.Missing), Counted(h.Known, "insertion"))
	if h.Reason == "empty_list" {
		title = fmt.Sprintf("%s lists nothing any more: %s missing", id, Counted(h.Missing, "insertion"))
	}
	until := "by the next complete walk"
	if h.Operation != "" {
		title = fmt.Sprintf("%s: the people of %s of %s are missing", id, Number(h.Missing), Counted(h.Known, "contact request"))
		until = "by the next polls"
	}
	if wait := h.Until.Sub(s.Watch.At).Round(time.Second); wait > 0 {
		until = "in " + Span(wait)
	}
	return Problem{
		Title: title, Alike: "held", Many: "%s agencies lack too much at once to be believed",
		Text: "That is too many at once to be believed, so nothing is announced yet. If they stay away, it is announced " + until +
			". If you know that it is true, approve it.",
		Do: Remedy{Verb: "approve", Command: h.Approve},
	}
}

func alarmProblem(a poller.AgencyStatus, l poller.Alarm) (kind string, t Problem) {
	id, what := a.AgencyID, operation(l.Operation)
	t = Problem{
		Since: l.Since, Key: l.Operation + "\x00" + l.PropertyReferenceID, Label: id + ", " + what, Alike: "alarm " + l.Kind + " " + l.Operation,
		Do: Remedy{Command: "doorbell events ls --agency " + Shell(id) + " --type watch." + l.Kind},
	}
	switch l.Kind {
	case "stale":
		t.Bad, t.Error = true, a.LastError
		t.Title, t.Many = fmt.Sprintf("%s: no good answer about %s", id, what), "No good answer about "+what+" of %s agencies"
		t.Text = "What happens there is not seen while this lasts. doorbell keeps trying, and catches up by itself."
	case "schema_drifted":
		t.Title, t.Many = fmt.Sprintf("%s: answers about %s have changed their form", id, what), "Answers about "+what+" of %s agencies have changed their form"
		t.Text = "What can be read is still announced; the event says what was expected and what was found."
	case "gap_detected":
		t.Title, t.Many = fmt.Sprintf("%s: not everything can be seen of %s", id, what), "Not everything can be seen of "+what+", in %s places"
		if l.PropertyReferenceID != "" {
			t.Label = id + " " + Middle(l.PropertyReferenceID, 80)
			t.Title = fmt.Sprintf("%s: contact requests of %s cannot be read", id, Middle(l.PropertyReferenceID, 80))
		}
		t.Text = "Something may be missing from the events. The event says since when, and how much was reached."
	default:
		name := strings.ReplaceAll(l.Kind, "_", " ")
		t.Title, t.Many = id+": "+name, "%s times "+name
		return "alarm", t
	}
	return l.Kind, t
}

func (s Status) downProblem() Problem {
	t := Problem{
		Kind: "down", Key: "down", Bad: true, Title: "The API does not answer",
		Text: "There is no connection to " + s.Watch.BaseURL + ". Look at DNS, network, proxy and certificates. doorbell retries by itself, and catches up.",
	}
	if next, err := time.Parse(time.RFC3339, s.Watch.Down); err == nil {
		wait := "is due"
		if d := next.Sub(s.Watch.At).Round(time.Second); d > time.Second {
			wait = "is in " + Span(d)
		}
		t.Text += " The next try " + wait + "."
	}
	for _, a := range s.Watch.Agencies {
		t.Error = cmp.Or(t.Error, a.LastError)
	}
	return t
}

func (s Status) storeProblems() (all []Problem) {
	t := Problem{Key: "full", Do: Remedy{Command: "doorbell status"}}
	share := fmt.Sprintf("It holds %s of %s (DOORBELL_STORE_MAX). ", BytesText(s.Store.InUse), BytesText(s.Store.Max))
	switch {
	case s.Store.Full:
		t.Kind, t.Bad, t.Title, t.Text = "full", true, "The store is full: polling stopped until there is room", share+"To go on: "+stopped(s.Store.Advice)
		all = append(all, t)
	case s.Store.Alarm:
		t.Kind, t.Title, t.Text, t.Do = "nearly", "The store is nearly full", share+"Before it is full: "+stopped(s.Store.Advice), Remedy{}
		all = append(all, t)
	}
	return all
}

// Pending returns the number of events that wait for NATS.
func (s Status) Pending() (n uint64) {
	for _, r := range s.Relay {
		n += min(r.Pending, 1e9)
	}
	return n
}

func (s Status) natsProblems() (all []Problem) {
	if !s.NATS.Connected || s.NATS.Problem != "" {
		t := Problem{
			Kind: "nats", Key: "nats", Bad: true, Title: "NATS is not connected", Error: s.NATS.Problem, Do: Remedy{Command: "doorbell check"},
			Text: "Nothing is lost: events are kept in the log and published in order (" + Number(int(s.Pending())) + " waiting). Until then nothing is delivered.",
		}
		if s.NATS.Connected {
			t.Title = "NATS does not take events"
		}
		all = append(all, t)
	}
	for _, r := range s.Relay {
		long := !r.OldestWaiting.IsZero() && s.Watch.At.Sub(r.OldestWaiting) > waitsLong
		if !long && (r.Problem == "" || r.Problem == s.NATS.Problem) {
			continue
		}
		all = append(all, Problem{
			Kind: "relay", Key: "relay\x00" + r.AgencyID, Agency: r.AgencyID, Label: r.AgencyID, Since: r.OldestWaiting, Alike: "relay", Error: r.Problem,
			Title: "Events of " + r.AgencyID + " are not published", Many: "Events of %s agencies are not published",
			Text: "Nothing is lost: events are kept in the log (" + Number(int(min(r.Pending, 1e9))) + " waiting). doorbell retries by itself.", Do: Remedy{Command: "doorbell check"},
		})
	}
	return all
}

func (s Status) forwarderProblems() (all []Problem) {
	for _, f := range s.Forwarders {
		who := strings.TrimSpace(f.Name + " " + f.Kind)
		t := Problem{
			Kind: "outlet", Key: strings.Join([]string{"outlet", f.Name, f.Kind, f.Destination}, "\x00"), Agency: who, Label: who, Error: f.LastError, Since: f.FailingSince,
			Do: Remedy{Command: "doorbell forward " + Shell(f.Name) + " --test"},
		}
		switch {
		case !f.FailingSince.IsZero() && s.Watch.At.Sub(f.FailingSince) > hiccup:
			t.Alike, t.Many = "failing "+f.Name+" "+f.Destination, f.Name+": delivery of leads and alerts fails"
			t.Title, t.Text = who+": delivery fails", Counted(int(min(f.Waiting, 1e9)), "event")+" waiting. doorbell retries by itself"+f.tried()
		case f.Problem != "":
			t.Title, t.Error, t.Text = who+" gets nothing from NATS", f.Problem, "doorbell retries by itself."
		case f.Lost > 0:
			t.Title, t.Do = who+": no route takes a lead", Remedy{Command: "doorbell routes ls"}
			t.Text = Counted(int(min(f.Lost, 1e9)), "lead") + " waiting. A line of the table of routes that fits sends what waits."
		case f.Waits(s.Watch.At):
			t.Title, t.Since = who+": a message waits", f.WaitingSince
			t.Text = Counted(int(min(f.Waiting, 1e9)), "event") + " waiting. doorbell retries by itself" + f.tried()
		default:
			continue
		}
		if to := s.To(f); to != "" {
			t.Title += " (" + Middle(to, 60) + ")"
		}
		all = append(all, t)
	}
	if s.RoutesProblem != "" {
		all = append(all, Problem{
			Kind: "routes", Key: "routes", Title: "The changed table of routes is refused", Error: s.RoutesProblem,
			Text: "The table before stays in force. A corrected file is read within 30 s.", Do: Remedy{Command: "doorbell routes ls"},
		})
	}
	if n := int(min(s.Untaken, 1e9)); n > 0 {
		where := "They are in the stream, and no receiver got them. "
		if n == 1 {
			where = "It is in the stream, and no receiver got it. "
		}
		all = append(all, Problem{
			Kind: "untaken", Key: "untaken", Title: Counted(n, "lead") + ": no line of the table of routes fits",
			Text: where + "A line that fits takes what comes from then on; doorbell replay --to sends the past.",
			Do:   Remedy{Command: "doorbell routes ls"},
		})
	}
	if n := int(min(s.DeadLetters, 1e9)); n > 0 {
		all = append(all, Problem{
			Kind: "letters", Key: "letters", Title: Counted(n, "event") + " permanently rejected by a receiver",
			Text: "They are kept as dead letters, with the reason. Once the cause is fixed, doorbell dlq retry sends them again; doorbell dlq drop deletes them.",
			Do:   Remedy{Command: "doorbell dlq ls"},
		})
	}
	return all
}

// Counted returns a number of things: 1 event, 2 events.
func Counted(n int, one string) string {
	switch stem, y := strings.CutSuffix(one, "y"); {
	case n == 1:
		return "1 " + one
	case y:
		return Number(n) + " " + stem + "ies"
	}
	return Number(n) + " " + one + "s"
}

// Number formats n with thousands separators, in at most nine characters.
func Number(n int) string {
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

// Span formats a duration for people: in one unit, or two if the first figure is small.
func Span(d time.Duration) string {
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

// BytesText formats a number of bytes for people.
func BytesText(n int64) string {
	for _, u := range []struct {
		name   string
		factor int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.factor {
			return fmt.Sprintf("%.3g %s", float64(n)/float64(u.factor), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Middle cuts a text in the middle, for names whose end matters as much as their beginning.
func Middle(text string, n int) string {
	if len(text) > 8*n {
		text = text[:4*n] + text[len(text)-4*n:]
	}
	runes := []rune(Printable(strings.Join(strings.Fields(text), " ")))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n/2]) + "…" + string(runes[len(runes)-n/2+1:])
}

// Shell quotes a word so that it can be pasted into a command line.
func Shell(word string) string {
	simple := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.,:/=@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !simple(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
