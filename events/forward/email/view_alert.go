package email

import (
	"fmt"
	"slices"
	"strings"

	"doorbell/events"
)

// alert is an event that tells how the watch itself is.
type alert struct {
	item
	tone   tone
	agency string
}

// maxAgencies is how many agencies are named where the same happened to several.
const maxAgencies = 60

// alerts make one page. What happened alike to several agencies is told once: a refused key halts all that use it.
func (w writer) alerts(all []events.Event) page {
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
	p := page{Tone: groups[0][0].tone, Foot: []string{"Sent by doorbell, which watches your listings for new contact requests."}}
	for _, g := range groups {
		p.Items = append(p.Items, together(g))
		if g[0].tone == toneAlert {
			p.Tone = toneAlert
		}
	}
	p.Label, p.Subject = "State of the watch", "[doorbell] "
	if p.Tone == toneAlert {
		p.Label, p.Subject = "Alert", "[doorbell alert] "
	}
	what := groups[0][0].Heading
	if len(groups) > 1 {
		what = count(len(all), "message", "messages")
		p.Heading = what
	}
	p.Subject += cut(who(groups)+": "+what, maxSubject)
	return p
}

// together tells a group by its first, with all of its agencies.
func together(group []alert) item {
	i := group[0].item
	list := agencies(group)
	text := strings.Join(list[:min(len(list), maxAgencies)], ", ")
	if more := len(list) - maxAgencies; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	label := "Agency"
	if len(list) > 1 {
		label = count(len(list), "agency", "agencies")
		i.Note = onlyIf(strings.HasSuffix(i.Command, " "+list[0]), "What is told here of "+list[0]+" holds for each of the agencies.")
	}
	i.Facts = append([]fact{{Label: label, Text: text}}, i.Facts...)
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

// who is one agency, or how many.
func who(groups [][]alert) string {
	list := agencies(slices.Concat(groups...))
	if len(list) == 1 {
		return list[0]
	}
	return count(len(list), "agency", "agencies")
}

func (w writer) alert(e events.Event) alert {
	p, _ := e.Payload()
	a := alert{tone: toneQuiet}
	switch p := p.(type) {
	case *events.AccessHalted:
		a = w.halted(p)
	case *events.AccessResumed:
		a = alert{tone: toneGood, item: item{
			Heading: "Access works again", Under: "doorbell asks again, because " + or(causes[p.Cause], "it may") + ".",
			Facts: facts(fact{Label: "Halted", Text: scope(p.Scope)}, fact{Label: "Halted since", Text: w.when(p.HaltedAt)}, fact{Label: "Insertion", Text: line(p.PropertyReferenceID, maxTitle)}),
		}}
	case *events.AccessKeySwitched:
		a.item = item{
			Heading: "The other API key is in use now", Under: "One of the two keys was refused; the other works. Nothing was missed.",
			Advice: line(p.Advice, maxSentence),
			Facts:  facts(fact{Label: "Refused", Text: key(p.From)}, fact{Label: "In use", Text: key(p.To)}),
		}
	case *events.WatchBaselined:
		a = baselined(p)
	case *events.WatchStale:
		a = w.stale(p)
	case *events.WatchRecovered:
		a = alert{tone: toneGood, item: item{
			Heading: "All is well again: " + or(endings[p.Ends], line(p.Ends, maxWord)), Facts: facts(
				fact{Label: "Since", Text: w.when(p.Since)}, fact{Label: "Asked for", Text: operation(p.Operation)}, fact{Label: "Insertion", Text: line(p.PropertyReferenceID, maxTitle)}),
		}}
	case *events.WatchGapDetected:
		a = w.gap(p)
	case *events.WatchSchemaDrifted:
		a = drifted(p)
	case *events.WatchChangeHeld:
		a = w.held(p)
	case *events.WatchStreamRepaired:
		a.item = item{
			Heading: "The stream was repaired", Under: "The stream in NATS did not hold what doorbell remembers, and was mended. Nothing is lost.",
			Facts: facts(
				fact{Label: "Reason", Text: strings.ReplaceAll(line(p.Reason, maxWord), "_", " ")},
				fact{Label: "Sequences", Text: fmt.Sprintf("%d to %d", p.FromSequence, p.ToSequence)},
				fact{Label: "Sent again", Text: fmt.Sprint(p.SentAgain)}),
		}
	default:
		a.item = item{Heading: line(string(e.Type), maxWord), Under: "This version of doorbell cannot show more of it; the event itself holds everything."}
	}
	a.agency = line(e.AgencyID, maxWord)
	if !w.commands && (a.Command != "" || a.Advice != "") {
		if a.Command = ""; a.tone == toneAlert {
			a.Advice = "Tell whoever runs doorbell for you. Until this is settled, look into the portal yourself."
		} else {
			a.Advice = ""
		}
	}
	a.Facts = append(a.Facts, facts(fact{Label: "Observed", Text: w.when(e.Time)})...)
	return a
}

var causes = map[string]string{"key_changed": "there is another key", "operator": "somebody asked for it", "retry_succeeded": "another try worked"}

var endings = map[string]string{
	"stale": "the API answers", "change_held": "a held change is decided",
	"schema_drifted": "answers look as before", "gap_detected": "everything can be seen",
}

var refusals = map[string]string{
	"key_rejected": "The API refuses the key", "agency_not_linked": "The API refuses this agency",
	"insertion_not_allowed": "The API refuses an insertion", "edge_challenge": "Something before the API keeps doorbell out",
}

func (w writer) halted(p *events.AccessHalted) alert {
	others := p.Evidence.OtherAgenciesOfKey
	return alert{tone: toneAlert, item: item{
		Heading: or(refusals[p.ProbableReason], "The API refuses access"),
		Under:   "doorbell has stopped asking, and sees no new contact requests here until this is settled.",
		Advice:  line(p.Advice, maxSentence), Command: line(p.Resume, maxTitle),
		Facts: facts(
			fact{Label: "Halted", Text: scope(p.Scope)},
			fact{Label: "Insertion", Text: line(p.PropertyReferenceID, maxTitle)},
			fact{Label: "Answer", Text: fmt.Sprintf("%d to a request for %s", p.Status, operation(p.Operation))},
			fact{Label: "Last good answer", Text: w.when(p.ObservedAfter)},
			fact{Label: "Key", Text: key(p.Key)},
			fact{Label: "Same key", Text: fmt.Sprintf("of the other agencies %d work, %d are refused, %d unknown", others.Working, others.Refused, others.Unknown)},
		),
	}}
}

func baselined(p *events.WatchBaselined) alert {
	a := alert{tone: toneGood, item: item{Heading: "The watch has begun", Under: "From here on, what appears is news."}}
	if !p.Complete {
		a.tone, a.Under = toneQuiet, "From here on, what appears is news. Not all insertions could be read; some may be told late."
	}
	a.Facts = facts(fact{Label: "Insertions", Text: count(p.Insertions, "is known", "are known")})
	return a
}

// maxErrors is how many of the last errors are told.
const maxErrors = 3

func (w writer) stale(p *events.WatchStale) alert {
	a := alert{tone: toneAlert, item: item{
		Heading: "The API has not answered for too long",
		Under:   "New contact requests may be waiting there. doorbell keeps trying and will catch up; nothing is lost.",
		Advice:  "Look at what doorbell says of itself, and whether the service of the listings has a disturbance.", Command: "doorbell status",
		Facts: facts(fact{Label: "Asked for", Text: operation(p.Operation)}, fact{Label: "Last good answer", Text: or(w.when(p.LastSuccessAt), "never")}),
	}}
	for _, e := range p.Errors[max(0, len(p.Errors)-maxErrors):] {
		a.Facts = append(a.Facts, fact{Label: "Error", Text: line(e.Text, maxTitle) + ", " + moment(e.At, w.location)})
	}
	return a
}

var gaps = map[string]string{
	"window_full":     "More contact requests came at once than the API shows",
	"walk_incomplete": "Not all insertions can be read",
	"unreadable":      "An insertion cannot be read",
	"time_unknown":    "It cannot be told when contact requests were written",
}

func (w writer) gap(p *events.WatchGapDetected) alert {
	total := ""
	if p.Total != nil {
		total = fmt.Sprintf(" of %d", *p.Total)
	}
	return alert{tone: toneAlert, item: item{
		Heading: or(gaps[p.Reason], "Not everything can be seen"),
		Under:   "doorbell knows that it does not see everything here.",
		Advice:  "Look into the portal itself for contact requests of this time that did not arrive.",
		Facts: facts(
			fact{Label: "Insertion", Text: line(p.PropertyReferenceID, maxTitle)},
			fact{Label: "Asked for", Text: operation(p.Operation)},
			fact{Label: "Reached", Text: fmt.Sprint(p.Reached) + total},
			fact{Label: "From", Text: w.when(p.From)}, fact{Label: "To", Text: w.when(p.To)},
		),
	}}
}

func drifted(p *events.WatchSchemaDrifted) alert {
	return alert{tone: toneAlert, item: item{
		Heading: "Answers of the API look different", Under: "The API has changed the form of its answers, or something else answers in its place.",
		Advice: "If contact requests keep arriving, nothing has to be done. If not, ask the provider what has changed, and look for a newer doorbell.", Command: "doorbell check",
		Facts: facts(
			fact{Label: "Asked for", Text: operation(p.Operation)}, fact{Label: "Insertion", Text: line(p.PropertyReferenceID, maxTitle)},
			fact{Label: "Expected", Text: line(p.Expected, maxSentence)}, fact{Label: "Found", Text: line(p.Found, maxSentence)}),
	}}
}

func (w writer) held(p *events.WatchChangeHeld) alert {
	return alert{tone: toneAlert, item: item{
		Heading: "Many insertions are gone at once", Under: "doorbell does not believe it yet, and tells nobody that they disappeared.",
		Advice: "If they were really taken down, approve it. If not, do nothing: it is believed only if the API keeps saying so.", Command: line(p.Approve, maxTitle),
		Facts: facts(
			fact{Label: "Missing", Text: fmt.Sprintf("%d of %d", p.Missing, p.Known)},
			fact{Label: "Believed at", Text: onlyIf(!p.Until.IsZero(), moment(p.Until, w.location))}),
	}}
}

func scope(s events.Scope) string {
	switch s {
	case events.ScopeContactRequests:
		return "all contact requests of the agency"
	case events.ScopeInsertion:
		return "the contact requests of one insertion"
	}
	return "everything of the agency"
}

func operation(o string) string { return strings.ReplaceAll(line(o, maxWord), "_", " ") }

func key(k events.KeyRef) string { return joined(", ", line(k.Slot, 32), line(k.Fingerprint, 64)) }
