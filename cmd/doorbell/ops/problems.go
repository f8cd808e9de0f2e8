package ops

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/poller"
)

// Problem is something that needs attention, and what ends it, or several such things with the same
// cause. Page, terminal and ping use the same words. Its texts may contain text from outside: each
// rendering bounds them and removes control characters.
type Problem struct {
	Bad     bool   // something does not work; otherwise it is a warning
	Title   string // a sentence without a full stop
	Text    string // what it means, and what to do
	Error   string // the last error
	Since   time.Time
	Command string // ends it, or shows more; may be empty

	// Problems with the same Many are one group, of which it is the title, with %s for their number;
	// empty: it stands alone. Label names this one in the group, and All is the group's command.
	Many, Label, All string
	Of               []Problem // the members of a group
}

// Level is how much the problem wants a person.
func (p Problem) Level() Level {
	if p.Bad {
		return Bad
	}
	return Warn
}

// patience is how long something may wait, or deliveries may fail, before it is a problem.
const patience = time.Minute

// Problems returns the problems of a status, the most pressing first. Problems with the same cause
// are one group.
func (s Status) Problems() (list []Problem) {
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
		return cmp.Compare(x.Level(), y.Level()) // "bad" before "warn"
	})
	for _, p := range all {
		n := slices.IndexFunc(list, func(q Problem) bool { return p.Many != "" && q.Many == p.Many })
		if n < 0 {
			n, list = len(list), append(list, p)
		}
		list[n].Of = append(list[n].Of, p)
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
	p.Title, p.Command = strings.Replace(p.Many, "%s", Number(len(p.Of)), 1), p.All
	for _, one := range p.Of {
		p.Error = cmp.Or(p.Error, one.Error)
		if !one.Since.IsZero() && (p.Since.IsZero() || one.Since.Before(p.Since)) {
			p.Since = one.Since
		}
	}
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
	id := a.AgencyID
	if a.State == WaitingForStream && (!s.NATS.Connected || s.Watch.At.Sub(a.WatchStart) > patience) {
		all = append(all, Problem{
			Title: id + " waits for the stream", Many: "%s agencies wait for the stream", Label: id, Since: a.WatchStart,
			Text: "The stream may hold what a store before this one has published. Polling begins when NATS answers. " +
				"The command below says why it does not.",
			Command: "doorbell check", All: "doorbell check",
		})
	}
	for _, h := range a.Halts {
		all = append(all, haltProblem(id, h))
	}
	if a.Held != nil {
		all = append(all, s.heldProblem(id, *a.Held))
	}
	alarms := a.Alarms
	isStale := func(l poller.Alarm) bool { return l.Kind == "stale" }
	if a.State == "stale" && !slices.ContainsFunc(alarms, isStale) { // the alarm is not raised yet
		alarms = append(slices.Clip(alarms), poller.Alarm{Kind: "stale", Operation: "contact_requests", Since: a.LastGoodAnswer})
	}
	for _, l := range alarms {
		all = append(all, alarmProblem(a, l))
	}
	if a.State == "backing_off" && s.Watch.Down == "" && !slices.ContainsFunc(alarms, isStale) {
		all = append(all, Problem{
			Title: id + ": the API fails", Many: "The API fails for %s agencies", Label: id, Error: a.LastError,
			Text: "doorbell waits longer after each failure and retries by itself. There is nothing to do unless it lasts.",
		})
	}
	return all
}

func haltProblem(id string, h poller.HaltStatus) Problem {
	why := RefusalText(h.Status, h.ProbableReason)
	p := Problem{
		Bad: true, Since: h.Since, Label: id, Command: h.Resume, All: "doorbell resume --all",
		Text: stopped(strings.Replace(h.Advice, "run: "+h.Resume, "resume it", 1)),
	}
	switch h.Scope {
	case events.ScopeContactRequests:
		p.Title = "Contact requests of " + id + " are halted: " + why
		p.Many = "Contact requests of %s agencies are halted: " + why
	case events.ScopeInsertion:
		p.Label = id + " " + Short(h.PropertyReferenceID, 80)
		p.Title = "An insertion of " + id + " is halted: " + Short(h.PropertyReferenceID, 80)
		p.Many = "%s insertions are halted: " + why
	default:
		p.Title, p.Many = id+" is halted: "+why, "%s agencies are halted: "+why
	}
	return p
}

// stopped ends a sentence with a full stop, unless it has an end.
func stopped(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

func (s Status) heldProblem(id string, h poller.HeldStatus) Problem {
	title, until := fmt.Sprintf("%s lacks %s of %s", id, Number(h.Missing), Counted(h.Known, "insertion")), "by the next complete walk"
	switch {
	case h.Operation != "":
		title = fmt.Sprintf("%s: the people of %s of %s are missing", id, Number(h.Missing), Counted(h.Known, "contact request"))
		until = "by the next polls"
	case h.Reason == "empty_list":
		title = fmt.Sprintf("%s lists nothing any more: %s missing", id, Counted(h.Missing, "insertion"))
	}
	if wait := h.Until.Sub(s.Watch.At).Round(time.Second); wait > 0 {
		until = "in " + Span(wait)
	}
	return Problem{
		Title: title, Many: "%s agencies lack too much at once to be believed", Label: id,
		Text: "That is too many at once to be believed, so nothing is announced yet. If they stay away, it is announced " + until +
			". If you know that it is true, approve it.",
		Command: h.Approve, All: "doorbell approve AGENCY",
	}
}

// alarmWords are what the alarms are called, of one agency and of several, and what they mean.
var alarmWords = map[string]struct{ one, many, text string }{
	"stale": {
		"%s: no good answer about %s", "No good answer about %s of %%s agencies",
		"What happens there is not seen while this lasts. doorbell keeps trying, and catches up by itself.",
	},
	"schema_drifted": {
		"%s: answers about %s have changed their form", "Answers about %s of %%s agencies have changed their form",
		"What can be read is still announced; the event says what was expected and what was found.",
	},
	"gap_detected": {
		"%s: not everything can be seen of %s", "Not everything can be seen of %s, in %%s places",
		"Something may be missing from the events. The event says since when, and how much was reached.",
	},
}

func alarmProblem(a poller.AgencyStatus, l poller.Alarm) Problem {
	id, what, words := a.AgencyID, operation(l.Operation), alarmWords[l.Kind]
	p := Problem{Since: l.Since, Label: id + ", " + what, Text: words.text, All: "doorbell events ls --type watch." + l.Kind}
	p.Command = "doorbell events ls --agency " + Shell(id) + " --type watch." + l.Kind
	switch {
	case words.one == "":
		p.Title = id + ": " + strings.ReplaceAll(l.Kind, "_", " ")
		return p
	case l.Kind == "stale":
		p.Bad, p.Error = true, a.LastError
	case l.PropertyReferenceID != "":
		p.Label = id + " " + Short(l.PropertyReferenceID, 80)
		what += " of " + Short(l.PropertyReferenceID, 80)
	}
	p.Title, p.Many = fmt.Sprintf(words.one, id, what), fmt.Sprintf(words.many, operation(l.Operation))
	return p
}

func (s Status) downProblem() Problem {
	p := Problem{
		Bad: true, Title: "The API does not answer",
		Text: "There is no connection to " + s.Watch.BaseURL + ". Look at DNS, network, proxy and certificates. " +
			"doorbell retries by itself, and catches up.",
	}
	for _, a := range s.Watch.Agencies {
		p.Error = cmp.Or(p.Error, a.LastError)
	}
	return p
}

func (s Status) storeProblems() []Problem {
	share := "It holds " + s.Store.share() + " (DOORBELL_STORE_MAX). "
	switch {
	case s.Store.Full:
		return []Problem{{
			Bad: true, Title: "The store is full: polling stopped until there is room", Text: share + "To go on: " + stopped(s.Store.Advice),
		}}
	case s.Store.Alarm:
		return []Problem{{Title: "The store is nearly full", Text: share + "Before it is full: " + stopped(s.Store.Advice)}}
	}
	return nil
}

// pending returns the number of events that wait for NATS.
func (s Status) pending() (n uint64) {
	for _, r := range s.Relay {
		n += r.Pending
	}
	return n
}

// natsProblems is one for NATS as a whole, or else those of agencies whose events are not published.
func (s Status) natsProblems() (all []Problem) {
	kept := "Nothing is lost: events are kept in the log and published in order (%s waiting). doorbell retries by itself."
	if !s.NATS.Connected || s.NATS.Problem != "" {
		title := "NATS is not connected"
		if s.NATS.Connected {
			title = "NATS does not take events"
		}
		text := fmt.Sprintf(kept, Number(int(s.pending())))
		return []Problem{{Bad: true, Title: title, Error: s.NATS.Problem, Text: text, Command: "doorbell check"}}
	}
	for _, r := range s.Relay {
		if long := !r.OldestWaiting.IsZero() && s.Watch.At.Sub(r.OldestWaiting) > patience; !long && r.Problem == "" {
			continue
		}
		all = append(all, Problem{
			Title: "Events of " + r.AgencyID + " are not published", Many: "Events of %s agencies are not published",
			Label: r.AgencyID, Since: r.OldestWaiting, Error: r.Problem, Text: fmt.Sprintf(kept, Number(int(r.Pending))),
			Command: "doorbell check", All: "doorbell check",
		})
	}
	return all
}

func (s Status) forwarderProblems() (all []Problem) {
	for _, w := range s.Forwarders {
		if p := workerProblem(w, s.Watch.At); p.Title != "" {
			all = append(all, p)
		}
	}
	if s.RoutesProblem != "" {
		all = append(all, Problem{
			Title: "The changed table of routes is refused", Error: s.RoutesProblem, Command: "doorbell routes ls",
			Text: "The table before stays in force. A corrected file is read within 30 s.",
		})
	}
	if s.Untaken > 0 {
		all = append(all, Problem{
			Title: Counted(int(s.Untaken), "lead") + ": no line of the table of routes fits", Command: "doorbell routes ls",
			Text: "No receiver got it; it is in the stream. A line that fits takes what comes from then on; " +
				"doorbell replay --to sends the past.",
		})
	}
	if s.DeadLetters > 0 {
		all = append(all, Problem{
			Title: Counted(int(s.DeadLetters), "event") + " permanently rejected by a receiver", Command: "doorbell dlq ls",
			Text: "They are kept as dead letters, with the reason. Once the cause is fixed, doorbell dlq retry sends them again; " +
				"doorbell dlq drop deletes them.",
		})
	}
	return all
}

// workerProblem is what is wrong with a worker of the forwarder, if anything is.
func workerProblem(w forward.WorkerStatus, now time.Time) (p Problem) {
	trouble := Trouble(w, now)
	if trouble == "" {
		return p
	}
	p.Label = w.Forwarder
	p.Title = p.Label + ": " + trouble
	if to := Destination(w); to != "" {
		p.Title += " (" + Short(to, 60) + ")"
	}
	p.Error, p.Since = cmp.Or(w.Problem, w.LastError), cmp.Or(w.FailingSince, w.WaitingSince)
	p.Text = Counted(int(w.Waiting), "event") + " waiting. doorbell retries by itself"
	if w.Attempts > 0 {
		p.Text += "; " + Counted(w.Attempts, "attempt") + " so far"
	}
	p.Text += "."
	p.Command = "doorbell forward " + Shell(w.Forwarder) + " --test"
	if w.Lost > 0 {
		p.Text = Counted(int(w.Lost), "lead") + " waiting. A line of the table of routes that fits sends what waits."
		p.Command = "doorbell routes ls"
	}
	if p.All = p.Command; trouble == deliveryFails {
		p.Many = w.Forwarder + ": delivery fails (" + w.Destination + ")"
	}
	return p
}

// maxNamed is how many problems the headline names.
const maxNamed = 2

// Headline sums up the state of everything. The page and `doorbell status` begin with it.
type Headline struct {
	Text  string // "2 agencies are halted: the API refuses the key; NATS does not take events"
	Title string // the same, shorter, for the title of a window
	Sub   string // what it means; may be empty
	Level Level
}

const allIsWell = "All is well"

// Summary returns the text of the headline, empty if all is well. If it is not empty, `status
// --check` exits with 1 and the ping is held back.
func (s Status) Summary() string {
	if h := NewHeadline(s); h.Text != allIsWell {
		return h.Text
	}
	return ""
}

// NewHeadline names the most pressing problems, if there are any.
func NewHeadline(s Status) Headline {
	if s.waits() {
		return Headline{Text: allIsWell, Title: "waiting", Sub: s.Standby.text(), Level: Busy}
	}
	if list := s.Problems(); len(list) > 0 {
		h := Headline{Title: list[0].Title, Level: Warn}
		var words []string
		for _, p := range list[:min(len(list), maxNamed)] {
			words = append(words, p.Title)
		}
		if more := len(list) - maxNamed; more > 0 {
			words = append(words, fmt.Sprintf("and %d more", more))
		}
		if h.Text = strings.Join(words, "; "); list[0].Bad {
			h.Level = Bad
		}
		return h
	}
	agencies, insertions := len(s.Watch.Agencies), 0
	for _, a := range s.Watch.Agencies {
		insertions += a.Insertions
	}
	h := Headline{Text: allIsWell, Title: Counted(agencies, "agency"), Level: Well}
	switch fresh := learning(s.Watch.Agencies); {
	case agencies == 0:
		return Headline{
			Level: Busy, Text: "No agency is watched", Title: "no agency",
			Sub: "Name one in DOORBELL_AGENCIES, or with its key in DOORBELL_API_KEYS.",
		}
	case fresh == agencies:
		return Headline{
			Level: Busy, Text: "Starting to watch " + Counted(agencies, "agency"), Title: "starting",
			Sub: "What already exists is learned, not announced. Anything new after that is announced.",
		}
	case fresh > 0:
		h.Sub = fmt.Sprintf("Starting to watch %s more.", Number(fresh))
	default:
		h.Sub = fmt.Sprintf("Watching %s of %s.", Counted(insertions, "insertion"), Counted(agencies, "agency"))
	}
	return h
}
