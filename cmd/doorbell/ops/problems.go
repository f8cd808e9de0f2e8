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
	Command string   // ends it, or shows more; may be empty
	Who     []string // the agencies or insertions that have it, where there can be several

	// Problems with the same many are one: their number and many are its title, all is its command.
	many, all string
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

// Problems returns the problems of a status, the most pressing first.
func (s Status) Problems() (list []Problem) {
	if s.waits() {
		return nil
	}
	all := slices.Concat(s.storeProblems(), s.downProblems())
	for _, a := range InOrder(s.Watch.Agencies) {
		all = append(all, s.agencyProblems(a)...)
	}
	all = slices.Concat(all, s.natsProblems(), s.rivalProblems(), s.forwarderProblems())
	slices.SortStableFunc(all, func(x, y Problem) int {
		return cmp.Compare(x.Level(), y.Level()) // "bad" before "warn"
	})
	for _, p := range all {
		same := func(q Problem) bool { return p.many != "" && q.many == p.many }
		if n := slices.IndexFunc(list, same); n >= 0 {
			list[n].join(p)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// join adds a problem with the same cause.
func (p *Problem) join(other Problem) {
	p.Who = append(p.Who, other.Who...)
	p.Title, p.Command = Number(len(p.Who))+" "+p.many, p.all
	p.Error = cmp.Or(p.Error, other.Error)
	if p.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(p.Since) {
		p.Since = other.Since
	}
}

// refusals explain the probable reasons for a refusal.
var refusals = map[string]string{
	"key_rejected":          "the API refuses the key",
	"agency_not_linked":     "the key is not allowed to read this agency",
	"insertion_not_allowed": "the API refuses this insertion",
	"edge_challenge":        "a gateway or firewall blocks doorbell",
}

// RefusalText says in words why access was refused: "the API refuses the key".
func RefusalText(status int, reason string) string {
	why := cmp.Or(refusals[reason], "the API refuses access")
	if status > 0 && status != http.StatusForbidden {
		why += fmt.Sprintf(" (%d)", status)
	}
	return why
}

// operation names an operation for people.
func operation(op string) string {
	if op == "insertions" {
		return "the list of insertions"
	}
	return strings.ReplaceAll(op, "_", " ")
}

func (s Status) agencyProblems(a poller.AgencyStatus) (all []Problem) {
	id := a.AgencyID
	waitsLong := !s.NATS.Connected || s.Watch.At.Sub(a.WatchStart) > patience
	if a.State == WaitingForStream && waitsLong {
		all = append(all, Problem{
			Title: id + " waits for the stream", many: "agencies wait for the stream",
			Who: []string{id},
			Text: "The stream may hold what an earlier store published. " +
				"Polling begins when NATS answers.",
			Since: a.WatchStart, Command: "doorbell check", all: "doorbell check",
		})
	}
	for _, h := range a.Halts {
		all = append(all, haltProblem(id, h))
	}
	if a.Held != nil {
		all = append(all, heldProblem(id, *a.Held))
	}
	stale := false
	for _, l := range a.Alarms {
		stale = stale || l.Kind == "stale"
		all = append(all, alarmProblem(a, l))
	}
	fails := a.State == "backing_off" || a.State == "stale"
	if fails && !stale && s.Watch.Down == "" { // the alarm is not raised yet
		all = append(all, Problem{
			Title: id + ": the API fails", many: "agencies: the API fails", Who: []string{id},
			Text: "doorbell waits longer after each failure and retries by itself. " +
				"There is nothing to do unless it persists.",
			Error: a.LastError,
		})
	}
	return all
}

func haltProblem(id string, h poller.HaltStatus) Problem {
	who, kind := id, "agencies"
	switch h.Scope {
	case events.ScopeContactRequests:
		who, kind = "Polling contact requests of "+id, "operations"
	case events.ScopeInsertion:
		who, kind = id+" "+Short(h.PropertyReferenceID, 80), "insertions"
	}
	why := RefusalText(h.Status, h.ProbableReason)
	return Problem{
		Bad: true, Title: who + " is halted: " + why, Who: []string{who}, Since: h.Since,
		Text:    strings.Replace(h.Advice, "run: "+h.Resume, "resume it.", 1),
		Command: h.Resume, many: kind + " are halted: " + why, all: "doorbell resume --all",
	}
}

func heldProblem(id string, h poller.HeldStatus) Problem {
	missing, known := Number(h.Missing), Counted(h.Known, "insertion")
	title := fmt.Sprintf("%s: %s of %s are missing", id, missing, known)
	switch {
	case h.Operation != "":
		known = Counted(h.Known, "contact request")
		title = fmt.Sprintf("%s: the people of %s of %s are missing", id, missing, known)
	case h.Reason == "empty_list":
		title = fmt.Sprintf("%s lists nothing any more: %s missing", id, known)
	}
	return Problem{
		Title: title, Who: []string{id},
		many: "agencies: too much is missing at once to be believed",
		Text: "That is too many at once to be believed, so nothing is announced yet. If they stay " +
			"away, it is announced after " + h.Until.UTC().Format(time.RFC3339) +
			". If you know that it is correct, approve it.",
		Command: h.Approve, all: "doorbell approve AGENCY",
	}
}

// alarmWords say what the alarms are and what they mean.
var alarmWords = map[string]struct{ title, text string }{
	"stale": {
		"no good response about %s",
		"What happens there is not seen while this lasts. doorbell keeps trying, and catches up by itself.",
	},
	"schema_drifted": {
		"responses about %s have changed their form",
		"What can be read is still announced; the event says what was expected and what was found.",
	},
	"gap_detected": {
		"not everything can be seen (%s)",
		"Something may be missing from the events. The event says since when, and how much was reached.",
	},
}

func alarmProblem(a poller.AgencyStatus, l poller.Alarm) Problem {
	words := alarmWords[l.Kind]
	who, title := a.AgencyID, fmt.Sprintf(words.title, operation(l.Operation))
	p := Problem{
		Since: l.Since, Text: words.text, many: "times: " + title,
		Command: "doorbell events ls --agency " + Shell(a.AgencyID) + " --type watch." + l.Kind,
		all:     "doorbell events ls --type watch." + l.Kind,
	}
	if l.Kind == "stale" {
		p.Bad, p.Error = true, a.LastError
	}
	if l.PropertyReferenceID != "" {
		who += " " + Short(l.PropertyReferenceID, 80)
	}
	p.Title, p.Who = who+": "+title, []string{who}
	return p
}

func (s Status) downProblems() []Problem {
	if s.Watch.Down == "" {
		return nil
	}
	p := Problem{
		Bad: true, Title: "The API does not answer",
		Text: "There is no connection to " + s.Watch.BaseURL +
			". Check DNS, network, proxy and certificates. " +
			"doorbell retries by itself, and catches up.",
	}
	for _, a := range s.Watch.Agencies {
		p.Error = cmp.Or(p.Error, a.LastError)
	}
	return []Problem{p}
}

func (s Status) storeProblems() []Problem {
	text := "It holds " + share(s.Store) + " (DOORBELL_STORE_MAX): " + SpaceAdvice + "."
	switch {
	case s.Store.Full:
		return []Problem{{
			Bad:   true,
			Title: "The store is full: polling stopped until there is room", Text: text,
		}}
	case s.Store.Alarm:
		return []Problem{{Title: "The store is nearly full", Text: text}}
	}
	return nil
}

func (s Status) natsProblems() []Problem {
	title, waiting, oldest := "", 0, s.Watch.At
	for _, r := range s.Relay {
		waiting += int(r.Pending)
		if !r.OldestWaiting.IsZero() && r.OldestWaiting.Before(oldest) {
			oldest = r.OldestWaiting
		}
	}
	switch {
	case !s.NATS.Connected:
		title = "NATS is not connected"
	case s.NATS.Problem != "":
		title = "NATS does not accept events"
	case s.Watch.At.Sub(oldest) > patience:
		title = "Events are not published"
	default:
		return nil
	}
	return []Problem{{
		Bad: true, Title: title, Error: s.NATS.Problem, Command: "doorbell check",
		Text: "Nothing is lost: events are kept in the log and published in order (" +
			Number(waiting) +
			" waiting). doorbell retries by itself.",
	}}
}

func (s Status) rivalProblems() (all []Problem) {
	for _, id := range s.NATS.Rivals {
		all = append(all, Problem{
			Title: "A second doorbell also publishes " + id, Who: []string{id},
			many: "agencies are also published by a second doorbell",
			Text: "Both send requests to the API; contact requests are still stored only once. " +
				"Stop one of them.",
		})
	}
	return all
}

func (s Status) forwarderProblems() (all []Problem) {
	for _, w := range s.Forwarders {
		if trouble := Trouble(w, s.Watch.At); trouble != "" {
			all = append(all, workerProblem(w, trouble))
		}
	}
	if s.RoutesProblem != "" {
		all = append(all, Problem{
			Title: "The changed table of routes is refused", Error: s.RoutesProblem,
			Command: "doorbell routes ls",
			Text:    "The previous table stays in force. A corrected file is read within 30 s.",
		})
	}
	if s.Untaken > 0 {
		all = append(all, Problem{
			Title:   Counted(int(s.Untaken), "lead") + ": no line of the table of routes matches",
			Command: "doorbell routes ls",
			Text: "No receiver got it; it is in the stream. A matching line takes what comes from then on; " +
				"doorbell replay --to sends what came before.",
		})
	}
	if s.DeadLetters > 0 {
		all = append(all, Problem{
			Title:   Counted(int(s.DeadLetters), "event") + " permanently rejected by a receiver",
			Command: "doorbell dlq ls",
			Text: "They are kept as dead letters, with the reason. Once the cause is fixed, doorbell dlq retry " +
				"sends them again; doorbell dlq drop deletes them.",
		})
	}
	return all
}

// workerProblem is what is wrong with a worker of the forwarder.
func workerProblem(w forward.WorkerStatus, trouble string) Problem {
	p := Problem{
		Title: w.Forwarder + ": " + trouble, Error: cmp.Or(w.Problem, w.LastError),
		Since:   cmp.Or(w.FailingSince, w.WaitingSince),
		Command: "doorbell forward " + Shell(w.Forwarder) + " --test",
		Text: fmt.Sprintf("%s waiting. doorbell retries by itself; %s so far.",
			Counted(int(w.Waiting), "event"), Counted(w.Attempts, "attempt")),
	}
	if to := Destination(w); to != "" {
		p.Title += " (" + Short(to, 60) + ")"
	}
	if w.Lost > 0 {
		p.Text = Counted(int(w.Lost), "lead") +
			" waiting. A matching line of the table of routes sends what is waiting."
		p.Command = "doorbell routes ls"
	}
	return p
}

// maxNamed is how many problems the headline names.
const maxNamed = 2

// Headline sums up the state of everything. The page and `doorbell status` begin with it.
type Headline struct {
	Text  string // "2 agencies are halted: the API refuses the key; NATS does not accept events"
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
		var words []string
		for _, p := range list[:min(len(list), maxNamed)] {
			words = append(words, p.Title)
		}
		if more := len(list) - maxNamed; more > 0 {
			words = append(words, fmt.Sprintf("and %d more", more))
		}
		return Headline{Text: strings.Join(words, "; "), Title: list[0].Title, Level: list[0].Level()}
	}
	agencies, insertions, learning := Counted(len(s.Watch.Agencies), "agency"), 0, 0
	for _, a := range s.Watch.Agencies {
		insertions += a.Insertions
		if level(a) != Well {
			learning++
		}
	}
	switch learning {
	case 0:
		if len(s.Watch.Agencies) == 0 {
			return Headline{
				Level: Busy, Text: "No agency is watched", Title: "no agency",
				Sub: "Name one in DOORBELL_AGENCIES, or with its key in DOORBELL_API_KEYS.",
			}
		}
		sub := fmt.Sprintf("Watching %s of %s.", Counted(insertions, "insertion"), agencies)
		return Headline{Level: Well, Text: allIsWell, Title: agencies, Sub: sub}
	case len(s.Watch.Agencies):
		return Headline{
			Level: Busy, Text: "Starting to watch " + agencies, Title: "starting",
			Sub: "What already exists is learned, not announced. Anything new after that is announced.",
		}
	}
	return Headline{
		Level: Well, Text: allIsWell, Title: agencies,
		Sub: fmt.Sprintf("Starting to watch %s more.", Number(learning)),
	}
}
