package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"doorbell/events"
)

// alert is an event about the watch itself.
type alert struct {
	Item
	agency string // as people call it
}

// maxAgencies is how many agencies are named where the same happened to several.
const maxAgencies = 60

// alerts make one message. What happened alike to several agencies is said once: a refused key
// halts all that use it.
func (w writer) alerts(all []events.Event) Message {
	var groups [][]alert
	for _, e := range all {
		a := w.alert(e)
		same := slices.IndexFunc(groups, func(g []alert) bool { return g[0].Heading == a.Heading && g[0].Under == a.Under })
		if same < 0 {
			groups = append(groups, nil)
			same = len(groups) - 1
		}
		groups[same] = append(groups[same], a)
	}
	m := Message{Tone: groups[0][0].Tone, Foot: []string{"Sent by doorbell, which watches your listings for new contact requests."}}
	for _, g := range groups {
		m.Items = append(m.Items, w.together(g))
		if g[0].Tone == Alert {
			m.Tone = Alert
		}
	}
	m.Label, m.Subject = "Status", "[doorbell] "
	if m.Tone == Alert {
		m.Label, m.Subject = "Alert", "[doorbell alert] "
	}
	what := groups[0][0].Heading
	if len(groups) > 1 {
		what = w.count(len(all), "%s message", "%s messages")
		m.Heading = what
	}
	who := agencies(slices.Concat(groups...))
	whose := who[0]
	if len(who) > 1 {
		whose = w.count(len(who), "%s agency", "%s agencies")
	}
	m.Subject += Cut(whose+": "+what, MaxSubject)
	m.Title = Cut(what+": "+whose, MaxSubject)
	return m
}

// together is a group as one item: its first, with the agencies of all.
func (w writer) together(group []alert) Item {
	i := group[0].Item
	list := agencies(group)
	text := strings.Join(list[:min(len(list), maxAgencies)], ", ")
	if more := len(list) - maxAgencies; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	label := "Agency"
	if len(list) > 1 {
		label = w.count(len(list), "%s agency", "%s agencies")
	}
	i.Line = i.Heading + ": " + Cut(text, maxTitle)
	i.Facts = append([]Fact{{Label: label, Text: text}}, i.Facts...)
	return i
}

func agencies(group []alert) []string {
	var list []string
	for _, a := range group {
		if !slices.Contains(list, a.agency) {
			list = append(list, a.agency)
		}
	}
	return list
}

func (w writer) alert(e events.Event) alert {
	p, _ := e.Payload()
	i := Item{Tone: Quiet}
	insertion := func(reference string) Fact { return Fact{Label: "Insertion", Text: Line(reference, maxTitle)} }
	switch p := p.(type) {
	case *events.AccessHalted:
		i = w.halted(p)
	case *events.AccessResumed:
		i = Item{
			Tone: Good, Heading: "Access restored", Under: "Polling resumed, because " + Cause(p.Cause) + ".",
			Facts: facts(Fact{Label: "Halted", Text: Scope(p.Scope)}, Fact{Label: "Halted since", Text: w.when(p.HaltedAt)}, insertion(p.PropertyReferenceID)),
		}
		if p.Cause != "retry_succeeded" { // no answer has shown it yet
			i.Heading, i.Under = "Polling resumed", i.Under+" If the API still refuses access, another alert follows."
		}
	case *events.WatchBaselined:
		i = Item{Tone: Good, Heading: "Now watching", Under: "Anything new from now on is announced."}
		i.Facts = facts(Fact{Label: "Insertions", Text: fmt.Sprint(p.Insertions)})
	case *events.WatchStale:
		i = w.stale(p)
	case *events.WatchRecovered:
		i = Item{Tone: Good, Heading: Ending(p.Ends), Facts: facts(
			Fact{Label: "Since", Text: w.when(p.Since)}, Fact{Label: "Operation", Text: operation(p.Operation)})}
	case *events.WatchGapDetected:
		i = w.gap(p)
	case *events.WatchSchemaDrifted:
		i = Item{
			Tone: Alert, Heading: "The API's answers have changed", Under: "The API has changed the form of its answers, or something else answers in its place.",
			Advice: "If contact requests keep arriving, there is nothing to do. Otherwise ask the provider what has changed, and check for a newer doorbell.", Command: "doorbell check",
			Facts: facts(Fact{Label: "Operation", Text: operation(p.Operation)}, insertion(p.PropertyReferenceID),
				Fact{Label: "Expected", Text: Line(p.Expected, maxSentence)}, Fact{Label: "Found", Text: Line(p.Found, maxSentence)}),
		}
	case *events.WatchChangeHeld:
		i = Item{
			Tone: Alert, Heading: "Many insertions disappeared at once", Under: "This may be a mistake of the API, so none of them is reported as gone yet.",
			Advice: "If they were really taken down, approve the change. If not, do nothing: it takes effect only if the API keeps showing it.", Command: Line(p.Approve, maxTitle),
			Facts: facts(Fact{Label: "Missing", Text: fmt.Sprintf("%d of %d", p.Missing, p.Known)}, Fact{Label: "Takes effect", Text: w.when(p.Until)}),
		}
		if p.Operation != "" {
			i.Heading = "People vanished from many contact requests at once"
			i.Under = "This may be a mistake of the API, so none of them is reported as redacted yet."
			i.Advice = "If they were really erased, approve the change. If not, do nothing: it takes effect only if the API keeps showing it."
		}
	default:
		i.Heading, i.Under = cmp.Or(Line(string(e.Type), maxWord), "An event without a type"), unknown
	}
	i.Facts = append(i.Facts, facts(Fact{Label: "Observed", Text: w.when(e.Time)})...)
	return alert{Item: i, agency: cmp.Or(w.agency(e.AgencyID), "an agency without an id")}
}

// Cause says why access was resumed: "a retry succeeded".
func Cause(cause string) string { return cmp.Or(causes[cause], "access is allowed") }

// Ending says that an alarm has ended: "The API answers again".
func Ending(ends string) string { return cmp.Or(endings[ends], "Recovered: "+Line(ends, maxWord)) }

// Gap says what cannot be seen: "An insertion cannot be read".
func Gap(reason string) string { return cmp.Or(gaps[reason], "Not everything can be seen") }

var causes = map[string]string{"key_changed": "the key was replaced", "operator": "an operator asked for it", "retry_succeeded": "a retry succeeded"}

var endings = map[string]string{
	"stale": "The API answers again", "change_held": "The held change is settled",
}

var refusals = map[string]string{
	"key_rejected": "The API refuses the key", "agency_not_linked": "The API refuses this agency",
	"insertion_not_allowed": "The API refuses an insertion", "edge_challenge": "A firewall or gateway blocks doorbell",
}

func (w writer) halted(p *events.AccessHalted) Item {
	return Item{
		Tone: Alert, Heading: cmp.Or(refusals[p.ProbableReason], "The API refuses access"),
		Under:  "Polling stopped: no new contact requests are seen here until this is settled.",
		Advice: Line(p.Advice, maxSentence), Command: Line(p.Resume, maxTitle),
		Facts: facts(
			Fact{Label: "Halted", Text: Scope(p.Scope)}, Fact{Label: "Insertion", Text: Line(p.PropertyReferenceID, maxTitle)},
			Fact{Label: "Answer", Text: fmt.Sprintf("%d to a request for %s", p.Status, operation(p.Operation))},
			Fact{Label: "Last good answer", Text: w.when(p.ObservedAfter)}, Fact{Label: "Key", Text: key(p.Key)},
		),
	}
}

func (w writer) stale(p *events.WatchStale) Item {
	i := Item{
		Tone: Alert, Heading: "No successful response for too long",
		Under:  "New contact requests may be waiting there. doorbell keeps trying and catches up; nothing is lost.",
		Advice: "Check the status, and whether the listings service has an outage.", Command: "doorbell status",
		Facts: facts(Fact{Label: "Operation", Text: operation(p.Operation)}, Fact{Label: "Last good answer", Text: cmp.Or(w.when(p.LastSuccessAt), "never")}),
	}
	const most = 3
	for _, e := range p.Errors[max(0, len(p.Errors)-most):] {
		i.Facts = append(i.Facts, Fact{Label: "Error", Text: joined(", ", Line(e.Text, maxTitle), w.when(e.At))})
	}
	return i
}

var gaps = map[string]string{
	"window_full":     "More contact requests arrived at once than the API shows",
	"walk_incomplete": "Not all insertions can be read",
	"unreadable":      "An insertion cannot be read",
	"time_unknown":    "It is not known when contact requests were written",
}

func (w writer) gap(p *events.WatchGapDetected) Item {
	reached := fmt.Sprint(p.Reached)
	if p.Total != nil {
		reached += fmt.Sprintf(" of %d", *p.Total)
	}
	return Item{
		Tone: Alert, Heading: Gap(p.Reason), Under: "doorbell cannot see everything here.",
		Advice: "Check the portal itself for contact requests from this period that did not arrive.",
		Facts: facts(Fact{Label: "Insertion", Text: Line(p.PropertyReferenceID, maxTitle)}, Fact{Label: "Operation", Text: operation(p.Operation)},
			Fact{Label: "Reached", Text: reached}, Fact{Label: "From", Text: w.when(p.From)}, Fact{Label: "To", Text: w.when(p.To)}),
	}
}

// Scope says what a halt covers: "all contact requests of the agency".
func Scope(s events.Scope) string {
	switch s {
	case events.ScopeContactRequests:
		return "all contact requests of the agency"
	case events.ScopeInsertion:
		return "the contact requests of one insertion"
	}
	return "everything of the agency"
}

func operation(o string) string { return strings.ReplaceAll(Line(o, maxWord), "_", " ") }

func key(k events.KeyRef) string { return Line(k.Fingerprint, 64) }
