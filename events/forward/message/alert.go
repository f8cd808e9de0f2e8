package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
		same := slices.IndexFunc(groups, func(g []alert) bool {
			return g[0].Heading == a.Heading && g[0].Under == a.Under
		})
		if same < 0 {
			groups = append(groups, nil)
			same = len(groups) - 1
		}
		groups[same] = append(groups[same], a)
	}
	m := Message{
		Tone: groups[0][0].Tone, Label: "Status", Subject: "[doorbell] ",
		Foot: []string{"Sent by doorbell, which watches your listings for new contact requests."},
	}
	for _, g := range groups {
		m.Items = append(m.Items, w.together(g))
		if g[0].Tone == Alert {
			m.Tone, m.Label, m.Subject = Alert, "Alert", "[doorbell alert] "
		}
	}
	what := groups[0][0].Heading
	if len(groups) > 1 {
		what = w.count(len(all), "%s message", "%s messages")
		m.Heading = what
	}
	_, whose := w.agencies(slices.Concat(groups...))
	m.Subject += Fit(whose+": "+what, MaxSubject)
	m.Title = Fit(what+": "+whose, MaxSubject)
	return m
}

// together is a group as one item: its first, with the agencies of all.
func (w writer) together(group []alert) Item {
	i, label := group[0].Item, "Agency"
	list, whose := w.agencies(group)
	if len(list) > 1 {
		label = whose
	}
	text := strings.Join(list[:min(len(list), maxAgencies)], ", ")
	if more := len(list) - maxAgencies; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	i.Line = i.Heading + ": " + Fit(text, maxTitle)
	i.Facts = append([]Fact{{Label: label, Text: text}}, i.Facts...)
	return i
}

// agencies returns the agencies of a group, and the only one or how many there are.
func (w writer) agencies(group []alert) (list []string, whose string) {
	for _, a := range group {
		if !slices.Contains(list, a.agency) {
			list = append(list, a.agency)
		}
	}
	if len(list) == 1 {
		return list, list[0]
	}
	return list, w.count(len(list), "%s agency", "%s agencies")
}

// notices are what is said of each type of alert. A payload may bring its own advice and command.
var notices = map[events.Type]Item{
	events.TypeAccessHalted: {
		Tone: Alert, Heading: "The API refuses access",
		Under: "Polling stopped: no new contact requests are seen here until this is resolved.",
	},
	events.TypeAccessResumed: {Tone: Good, Heading: "Access restored", Under: "Polling resumed."},
	events.TypeWatchBaselined: {
		Tone: Good, Heading: "Now watching", Under: "Anything new from now on is announced.",
	},
	events.TypeWatchStale: {
		Tone: Alert, Heading: "No successful response for too long",
		Under: "New contact requests may be waiting there. " +
			"doorbell keeps trying and catches up; nothing is lost.",
		Advice:  "Check the status, and whether the listings service has an outage.",
		Command: "doorbell status",
	},
	events.TypeWatchRecovered: {Tone: Good, Heading: "Recovered"},
	events.TypeWatchGapDetected: {
		Tone: Alert, Heading: "Not everything can be seen",
		Under:  "doorbell cannot see everything here.",
		Advice: "Check the portal itself for contact requests from this period that did not arrive.",
	},
	events.TypeWatchSchemaDrifted: {
		Tone: Alert, Heading: "The API's responses have changed",
		Under: "The API has changed the form of its responses, or something else responds in its place.",
		Advice: "If contact requests keep arriving, there is nothing to do. " +
			"Otherwise ask the provider what has changed, and check for a newer doorbell.",
		Command: "doorbell check",
	},
	events.TypeWatchChangeHeld: {
		Tone: Alert, Heading: "Many insertions disappeared at once",
		Under: "This may be a mistake of the API, so it is not reported yet.",
		Advice: "If it is right, approve the change. " +
			"If not, do nothing: it takes effect only if the API keeps showing it.",
	},
}

// labels name members of payloads; the name of any other is its label. Those without one are not
// shown as facts.
var labels = map[string]string{
	"propertyReferenceId": "Insertion", "observedAt": "Observed",
	"observedAfter": "Last good response",
	"until":         "Takes effect",
	"haltedAt":      "Halted since", "probableReason": "Probable reason",
	"agencyId": "", "origin": "", "lastSuccessAt": "", "advice": "", "resume": "", "approve": "",
	"cause": "", "ends": "",
}

// headings are more exact than that of the type, by a word of the payload.
var headings = map[events.Type]map[string]string{
	events.TypeAccessHalted: {
		"key_rejected":          "The API refuses the key",
		"agency_not_linked":     "The API refuses this agency",
		"insertion_not_allowed": "The API refuses an insertion",
		"edge_challenge":        "A firewall or gateway blocks doorbell",
	},
	events.TypeWatchRecovered: {
		"stale":       "The API answers again",
		"change_held": "The held change is resolved",
	},
	events.TypeWatchGapDetected: {
		"window_full":     "More contact requests arrived at once than the API shows",
		"walk_incomplete": "Not all insertions can be read",
		"unreadable":      "An insertion cannot be read",
		"time_unknown":    "It is not known when contact requests were written",
	},
	events.TypeWatchChangeHeld: {
		"contact_requests": "People vanished from many contact requests at once",
	},
}

// causes are why access was resumed.
var causes = map[string]string{
	"key_changed": "the key was replaced", "operator": "an operator asked for it",
	"retry_succeeded": "a retry succeeded",
}

// maxErrors is how many errors of a stale watch are shown, the last ones.
const maxErrors = 3

// alert puts an event into words. Its facts are the members of the payload that are no objects.
func (w writer) alert(e events.Event) alert {
	members := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	_ = d.Decode(&members)
	text := func(name string) string {
		switch v := members[name].(type) {
		case string, json.Number:
			return Line(fmt.Sprint(v), maxSentence)
		}
		return ""
	}

	i, known := notices[e.Type]
	if !known {
		i = Item{Tone: Quiet, Under: "This version of doorbell cannot show more of it."}
		i.Heading = cmp.Or(Line(string(e.Type), maxWord), "An event without a type")
	}
	for _, name := range []string{"probableReason", "ends", "reason", "operation"} {
		i.Heading = cmp.Or(headings[e.Type][text(name)], i.Heading)
	}
	if cause := text("cause"); e.Type == events.TypeAccessResumed {
		i.Under = "Polling resumed, because " + cmp.Or(causes[cause], "access is allowed") + "."
		if cause != "retry_succeeded" { // no answer has shown it yet
			i.Heading = "Polling resumed"
			i.Under += " If the API still refuses access, another alert follows."
		}
	}
	i.Advice = cmp.Or(text("advice"), i.Advice)
	i.Command = Fit(cmp.Or(text("resume"), text("approve"), i.Command), maxTitle)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		label, special := labels[name]
		if !special {
			label = capital(Member(name))
		}
		value := text(name)
		if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
			value = w.when(at)
		}
		if label != "" {
			i.Facts = append(i.Facts, facts(Fact{Label: label, Text: value})...)
		}
	}
	p, _ := e.Payload()
	if stale, ok := p.(*events.WatchStale); ok {
		for _, e := range stale.Errors[max(0, len(stale.Errors)-maxErrors):] {
			text := joined(", ", Line(e.Text, maxTitle), w.when(e.At))
			i.Facts = append(i.Facts, Fact{Label: "Error", Text: text})
		}
	}
	return alert{Item: i, agency: cmp.Or(w.agency(e.AgencyID), "an agency without an id")}
}

func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// Scope says what a halt covers: "all contact requests of the agency".
func Scope(s events.Scope) string {
	switch s {
	case events.ScopeContactRequests:
		return "all contact requests of the agency"
	case events.ScopeInsertion:
		return "the contact requests of one insertion"
	}
	return "the whole agency"
}
