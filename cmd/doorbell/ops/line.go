package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doorbell/events"
	"doorbell/events/forward/message"
)

// Line describes an event in one line: time in UTC, agency, what happened with person and place
// first, and the insertion last. It is at most width wide; with 0, as for a file, only single texts
// are cut. Without people it contains no person's data; with people, the name in a new contact
// request and the beginning of its message. It contains nothing that could rewrite a terminal.
func Line(e events.Event, people bool, width int) string {
	return LineAfter(e.RecordedTime.Format("15:04:05"), e, people, width)
}

// LineAfter is Line with head in place of the time.
func LineAfter(head string, e events.Event, people bool, width int) string {
	what, parts := Tell(e, people)
	head = Printable(fmt.Sprintf("%s  %-6s %-17s", head, e.AgencyID, what))
	middle, end := Printable(strings.Join(parts, "  ")), Printable(e.Reference)
	if width > 0 {
		end = Short(end, 24)
		middle = Short(middle, max(width-len([]rune(head))-len([]rune(end))-4, 1))
	}
	all := slices.DeleteFunc([]string{head, middle, end}, func(s string) bool { return s == "" })
	return strings.TrimRight(strings.Join(all, "  "), " ")
}

// whats names the types for people.
var whats = map[events.Type]string{
	events.TypeContactRequestCreated:  "New lead",
	events.TypeContactRequestChanged:  "Lead changed",
	events.TypeContactRequestRedacted: "Lead redacted",
	events.TypeInsertionAppeared:      "New insertion",
	events.TypeInsertionChanged:       "Insertion changed",
	events.TypeInsertionDisappeared:   "Insertion gone",
	events.TypeInsertionReappeared:    "Insertion is back",
	events.TypeAccessHalted:           "Polling stopped",
	events.TypeAccessResumed:          "Polling resumed",
	events.TypeWatchBaselined:         "Watching",
	events.TypeWatchStale:             "No responses",
	events.TypeWatchRecovered:         "Recovered",
	events.TypeWatchGapDetected:       "Not all can be seen",
	events.TypeWatchSchemaDrifted:     "Responses changed",
	events.TypeWatchChangeHeld:        "Large change held",
}

// maxChanges is how many changes of an insertion a line names.
const maxChanges = 3

// Tell puts an event into words: what happened, as in "New lead", and then in parts who and where,
// what has changed, and which insertion. Only with people does it contain a person's data.
func Tell(e events.Event, people bool) (what string, parts []string) {
	if what = whats[e.Type]; what == "" {
		what = Short(string(e.Type), 40)
	}
	if message.IsAlert(e.Type) {
		return what, alertParts(e)
	}
	var v payload
	// What cannot be read is left out: programs read CloudEvents JSON instead.
	_ = json.Unmarshal(e.Data, &v)
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	created := e.Type == events.TypeContactRequestCreated
	if people && created {
		add(v.who())
	} else {
		add(Short(v.Insertion.Locality, 30))
	}
	for _, c := range v.Changes[:min(len(v.Changes), maxChanges)] {
		add(changed(c))
	}
	if more := len(v.Changes) - maxChanges; more > 0 {
		add(fmt.Sprintf("… and %d more", more))
	}
	if v.Insertion.Title != "" {
		add("“" + Short(v.Insertion.Title, 40) + "”")
	}
	if v.Erased {
		add("erased")
	}
	if len(v.Score) > 0 && created {
		add("score " + Short(string(v.Score), 20))
	}
	add(strings.Join(v.RedactedFields, ", "))
	return what, parts
}

// payload is the members of payloads about insertions and contact requests that lines use.
type payload struct {
	Insertion struct{ Title, Locality string }
	Contact   struct{ FirstName, LastName, FullName, Message string }
	Score     json.RawMessage
	Changes   []events.Change
	Erased    bool

	RedactedFields []string
}

// who is the person of a contact request, the place of the insertion, and what the person wrote.
func (v *payload) who() string {
	c := v.Contact
	name := Short(c.FirstName+" "+c.LastName+c.FullName, 50)
	who := strings.Trim(name+", "+Short(v.Insertion.Locality, 30), ", ")
	if wrote := Short(message.Untagged(c.Message), 200); wrote != "" {
		who = strings.TrimPrefix(who+": "+wrote, ": ")
	}
	return who
}

// alertFacts are the facts of an alert that a line names.
var alertFacts = []string{
	"Scope", "Operation", "Insertions", "Missing", "Known", "Reached",
	"Expected", "Found",
}

// alertParts are the words of an event about our access or watch, as receivers get them.
func alertParts(e events.Event) []string {
	alert := message.Write([]events.Event{e}, false, message.Options{}).Items[0]
	parts := []string{strings.ToLower(alert.Heading[:1]) + alert.Heading[1:]}
	for _, f := range alert.Facts {
		if slices.Contains(alertFacts, f.Label) {
			text := strings.ReplaceAll(Short(f.Text, 80), "_", " ")
			parts = append(parts, strings.ToLower(f.Label)+" "+text)
		}
	}
	if alert.Command != "" {
		parts = append(parts, alert.Command)
	}
	return parts
}

// changed shows a change as people write it: "rent gross 2'950 → 2'891".
func changed(c events.Change) string {
	return fmt.Sprintf("%s %s → %s",
		Short(message.Member(c.Path), 120), amount(c.Path, c.Before), amount(c.Path, c.After))
}

// amount shows one side of a change: a text without quotes, a price as 2'950.
func amount(path string, v json.RawMessage) string {
	var text string
	switch price, err := strconv.Atoi(string(v)); {
	case v == nil:
		return "(none)"
	case json.Unmarshal(v, &text) == nil:
		return Short(text, 30)
	case err == nil && strings.Contains(strings.ToLower(path), "price"):
		return strings.ReplaceAll(Number(price), ",", "'")
	}
	return Short(string(v), 20)
}

// shownWhole lists the members of contact requests that contain no person's data. A member that is
// added later is masked until it is known to be harmless and listed here.
var shownWhole = []string{
	"agencyId", "propertyReferenceId", "contactRequestId", "identity", "origin", "createdAt",
	"observedAt", "observedAfter", "truncated", "erased", "score", "insertion", "redactedFields",
	"defects",
}

// hidden replaces what is not shown.
var hidden = json.RawMessage(`"***"`)

// Masked returns the event with a payload without people's data and the API's record: members that
// can contain them have the value "***". It returns false if the payload is no object.
func Masked(e events.Event) (events.Event, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Data, &members) != nil || members == nil {
		return events.Event{}, false
	}
	var contact map[string]json.RawMessage
	_ = json.Unmarshal(members["contact"], &contact) // what is no object is hidden as a whole
	group, _, _ := strings.Cut(string(e.Type), ".")
	harmless := slices.Contains([]string{"insertion", "access", "watch"}, group)
	for name := range members {
		if name == "record" || name == "contact" || !harmless && !slices.Contains(shownWhole, name) {
			members[name] = hidden
		}
	}
	if contact != nil { // the names of its members say what is known of the person
		for name := range contact {
			contact[name] = hidden
		}
		members["contact"], _ = json.Marshal(contact) // raw JSON cannot fail
	}
	var b bytes.Buffer
	text := json.NewEncoder(&b)
	text.SetEscapeHTML(false) // people read it
	if text.Encode(members) != nil {
		return events.Event{}, false
	}
	e.Data = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return e, true
}
