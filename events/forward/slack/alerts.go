package slack

import (
	"fmt"
	"strconv"

	"doorbell/events"
)

// alertOf says in words what an event means for the people who get it. False is one that this version does not know.
func alertOf(e events.Event) (alert, bool) {
	a, ok := alert{}, false
	if p, err := e.Payload(); err == nil {
		a, ok = describe(p)
	}
	if !ok {
		a = alert{
			grade: warn, title: string(e.Type), what: "An alert that this version cannot show.",
			command: "doorbell events ls", alike: []string{string(e.Type)},
		}
	}
	a.agency, a.at = e.AgencyID, e.Time
	return a, ok
}

func describe(p events.Payload) (alert, bool) {
	switch p := p.(type) {
	case *events.AccessHalted:
		return halted(p), true
	case *events.AccessResumed:
		return resumed(p), true
	case *events.AccessKeySwitched:
		return keySwitched(p), true
	case *events.WatchBaselined:
		return baselined(p), true
	case *events.WatchStale:
		return stale(p), true
	case *events.WatchRecovered:
		return recovered(p), true
	case *events.WatchGapDetected:
		return gapDetected(p), true
	case *events.WatchSchemaDrifted:
		return schemaDrifted(p), true
	case *events.WatchChangeHeld:
		return changeHeld(p), true
	case *events.WatchStreamRepaired:
		return streamRepaired(p), true
	}
	return alert{}, false
}

// reasons for a halt, as events name them.
var reasons = map[string]string{
	"key_rejected":          "The key is refused: wrong, expired or deactivated.",
	"agency_not_linked":     "The agency is not linked to the key.",
	"insertion_not_allowed": "This insertion alone is refused.",
	"edge_challenge":        "Something before the API, a firewall say, wants to see a browser.",
}

var scopes = map[events.Scope]string{
	events.ScopeAgency:          "Nothing is asked for the agency any more, so no new contact request is seen.",
	events.ScopeContactRequests: "Contact requests are not asked for any more; insertions still are.",
	events.ScopeInsertion:       "Contact requests of one insertion are not asked for any more.",
}

func halted(p *events.AccessHalted) alert {
	what := fmt.Sprintf("The API refuses us (status %d). %s", p.Status, scopes[p.Scope])
	if p.Advice == "" { // which begins with the reason
		what += " " + reasons[p.ProbableReason]
	}
	return alert{
		grade: bad, title: "Access refused", what: what, advice: p.Advice, command: p.Resume,
		detail: insertionDetail(p.PropertyReferenceID),
		alike:  []string{string(p.Scope), p.Operation, strconv.Itoa(p.Status), p.ProbableReason, p.Key.Fingerprint},
	}
}

// causes of the end of a halt.
var causes = map[string]string{
	"key_changed":     "There is another key.",
	"operator":        "Somebody resumed it.",
	"retry_succeeded": "The API answers again.",
}

func resumed(p *events.AccessResumed) alert {
	return alert{
		grade: good, title: "Access again", what: "The halt has ended. " + causes[p.Cause] + " Nothing needs to be done.",
		detail: insertionDetail(p.PropertyReferenceID), alike: []string{string(p.Scope), p.Cause},
	}
}

func keySwitched(p *events.AccessKeySwitched) alert {
	return alert{
		grade: warn, title: "Key switched",
		what: fmt.Sprintf("The %s key (%s) is refused; the %s key (%s) works and is used. No contact request was missed.",
			p.From.Slot, p.From.Fingerprint, p.To.Slot, p.To.Fingerprint),
		advice: p.Advice, command: "doorbell keys verify", alike: []string{p.From.Fingerprint, p.To.Fingerprint},
	}
}

func baselined(p *events.WatchBaselined) alert {
	a := alert{
		grade: good, title: "Watching", what: "From here on what appears is news.",
		detail: fmt.Sprintf("%s known", count(p.Insertions, "insertion")), alike: []string{p.Reason, strconv.FormatBool(p.Complete)},
	}
	if !p.Complete {
		a.grade = warn
		a.what = "From here on what appears is news, but the list of insertions could not be read to its end: there may be more of them."
		a.command = "doorbell status"
	}
	return a
}

// operations as people call them.
var operations = map[string]string{"insertions": "insertions", "contact_requests": "contact requests"}

func operation(name string) string {
	if s := operations[name]; s != "" {
		return s
	}
	return "the API"
}

func stale(p *events.WatchStale) alert {
	a := alert{
		grade: bad, title: "Nothing heard", what: fmt.Sprintf("For too long there was no good answer about %s. New contact requests may be waiting there, unseen.", operation(p.Operation)),
		advice: "Look at the portal yourself until this recovers; it is tried again all the time.", command: "doorbell status", alike: []string{p.Operation},
	}
	if n := len(p.Errors); n > 0 {
		a.detail = "Last error: " + p.Errors[n-1].Text
	}
	return a
}

var ends = map[string]string{
	"stale":          "Good answers come again; what was written in between is being caught up with.",
	"change_held":    "The large change is settled.",
	"schema_drifted": "Answers look as they should again.",
	"gap_detected":   "All can be seen again.",
}

func recovered(p *events.WatchRecovered) alert {
	return alert{
		grade: good, title: "Recovered", what: ends[p.Ends] + " Nothing needs to be done.",
		detail: insertionDetail(p.PropertyReferenceID), alike: []string{p.Ends, p.Operation},
	}
}

var gaps = map[string]string{
	"window_full":     "There are more contact requests than the API shows at once; some may have been missed.",
	"walk_incomplete": "The list of insertions cannot be read to its end; contact requests of the others are not seen.",
	"unreadable":      "Answers about this insertion cannot be read; its contact requests are not seen.",
	"time_unknown":    "It is unknown when some contact requests were written; old ones were not announced.",
}

func gapDetected(p *events.WatchGapDetected) alert {
	detail := insertionDetail(p.PropertyReferenceID)
	if p.Total != nil {
		detail = joinDetails(detail, fmt.Sprintf("%d of %d reached", p.Reached, *p.Total))
	} else if p.Reached > 0 {
		detail = joinDetails(detail, fmt.Sprintf("%d reached", p.Reached))
	}
	return alert{
		grade: bad, title: "Cannot see everything", what: gaps[p.Reason], detail: detail,
		advice: "Look at the portal for what was not announced here.", command: "doorbell status", alike: []string{p.Reason, p.Operation},
	}
}

func schemaDrifted(p *events.WatchSchemaDrifted) alert {
	return alert{
		grade: bad, title: "The API has changed", what: fmt.Sprintf("Answers about %s do not look as they did before; new contact requests may be unseen.", operation(p.Operation)),
		detail: joinDetails(insertionDetail(p.PropertyReferenceID), "expected "+p.Expected+"; found "+p.Found),
		advice: "Ask the provider what has changed. Look at the portal yourself until this recovers.", command: "doorbell status",
		alike: []string{p.Operation, p.Expected, p.Found},
	}
}

var disbelief = map[string]string{
	"mass_disappearance": "A large part of the insertions is gone at once. It is not believed yet; nothing was announced as gone.",
	"empty_list":         "The list of insertions is suddenly empty. It is not believed yet; nothing was announced as gone.",
}

func changeHeld(p *events.WatchChangeHeld) alert {
	return alert{
		grade: warn, title: "Large change held back", what: disbelief[p.Reason],
		detail: fmt.Sprintf("%d of %s missing", p.Missing, count(p.Known, "insertion")),
		advice: "If it is so, approve it; if not, do nothing: it is believed by itself only when it lasts.", command: p.Approve, alike: []string{p.Reason},
	}
}

var repairs = map[string]string{
	"tail_lost":       "The stream had lost its newest events; they were sent again.",
	"recreated":       "The stream was made anew; what it should hold was sent again.",
	"foreign_message": "The stream holds messages that are not ours; they were stepped over.",
	"imported":        "The stream held events that the log did not; they were taken over.",
}

func streamRepaired(p *events.WatchStreamRepaired) alert {
	return alert{
		grade: warn, title: "Stream repaired", what: repairs[p.Reason] + " Receivers tell events that come again by their id.",
		detail: fmt.Sprintf("events %d to %d, %d sent again", p.FromSequence, p.ToSequence, p.SentAgain), alike: []string{p.Reason},
	}
}

func insertionDetail(reference string) string {
	if reference == "" {
		return ""
	}
	return "Insertion " + reference
}

func joinDetails(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
