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
	t := Tell(e, people)
	head = Printable(fmt.Sprintf("%s  %-6s %-17s", head, e.AgencyID, t.What))
	middle, end := Printable(strings.Join(t.parts(), "  ")), Printable(e.Reference)
	if width > 0 {
		end = Short(end, 24)
		middle = Short(middle, max(width-len([]rune(head))-len([]rune(end))-4, 1))
	}
	parts := slices.DeleteFunc([]string{head, middle, end}, func(s string) bool { return s == "" })
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// Telling is an event in words for people.
type Telling struct {
	What   string   // what happened, as in "New lead"
	Title  string   // of the insertion; may be empty
	Detail []string // who and where, and what has changed
	Rest   []string
}

// parts returns what a line contains of it after What.
func (t Telling) parts() []string {
	if t.Title == "" {
		return slices.Concat(t.Detail, t.Rest)
	}
	return slices.Concat(t.Detail, []string{"“" + t.Title + "”"}, t.Rest)
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
	events.TypeWatchStale:             "No answers",
	events.TypeWatchRecovered:         "Recovered",
	events.TypeWatchGapDetected:       "Not all can be seen",
	events.TypeWatchSchemaDrifted:     "Answers have changed",
	events.TypeWatchChangeHeld:        "Large change held",
}

// mostChanges is how many changes of an insertion a line names.
const mostChanges = 3

// Tell puts an event into words. Without people it contains no person's data; with people, the name
// in a new contact request and the beginning of its message.
func Tell(e events.Event, people bool) Telling {
	var v payload
	// What cannot be read is left out: programs read CloudEvents JSON instead.
	_ = json.Unmarshal(e.Data, &v)
	t := Telling{What: whats[e.Type], Title: Short(v.Insertion.Title, 40)}
	if t.What == "" {
		t.What = Short(string(e.Type), 40)
	}
	add := func(format string, args ...any) { t.Rest = append(t.Rest, fmt.Sprintf(format, args...)) }
	created := e.Type == events.TypeContactRequestCreated
	who := Short(v.Insertion.Locality, 30)
	if people && created {
		who = strings.Trim(Short(v.Contact.FirstName+" "+v.Contact.LastName+v.Contact.FullName, 50)+", "+who, ", ")
		if wrote := Short(message.Untagged(v.Contact.Message), 200); wrote != "" {
			who = strings.TrimPrefix(who+": "+wrote, ": ")
		}
	}
	if who != "" {
		t.Detail = append(t.Detail, who)
	}
	for _, c := range v.Changes[:min(len(v.Changes), mostChanges)] {
		t.Detail = append(t.Detail, changed(c))
	}
	if more := len(v.Changes) - mostChanges; more > 0 {
		t.Detail = append(t.Detail, fmt.Sprintf("… and %d more", more))
	}
	if v.Erased {
		add("erased")
	}
	if len(v.Score) > 0 && created {
		add("score %s", Short(string(v.Score), 20))
	}
	if len(v.RedactedFields) > 0 {
		add("%s", strings.Join(v.RedactedFields, ", "))
	}
	if text := v.aboutWatch(e.Type); text != "" {
		add("%s", text)
	}
	return t
}

// Told returns what Line says after the type, in parts.
func Told(e events.Event, people bool) (parts []string) {
	if e.Reference != "" {
		parts = append(parts, e.Reference)
	}
	return append(parts, Tell(e, people).parts()...)
}

// payload is the members of payloads that lines use, whatever the type of the event.
type payload struct {
	Insertion                                         struct{ Title, Locality string }
	Contact                                           struct{ FirstName, LastName, FullName, Message string }
	Score                                             json.RawMessage
	Changes                                           []events.Change
	RedactedFields                                    []string
	Scope                                             events.Scope
	ProbableReason, Cause, Resume                     string
	Operation, Reason, Ends, Expected, Found, Approve string
	Erased                                            bool
	Status, Insertions                                int
	Missing, Known, Reached                           int
}

// aboutWatch puts the events about our access and our watch into words.
func (v *payload) aboutWatch(t events.Type) string {
	switch t {
	case events.TypeAccessHalted:
		return fmt.Sprintf("%s; polling stopped for %s; %s or another key resumes it",
			RefusalText(v.Status, v.ProbableReason), message.Scope(v.Scope), v.Resume)
	case events.TypeAccessResumed:
		return fmt.Sprintf("polling resumed for %s: %s", message.Scope(v.Scope), message.Cause(v.Cause))
	case events.TypeWatchBaselined:
		return fmt.Sprintf("%s known; anything new from now on is announced", Counted(v.Insertions, "insertion"))
	case events.TypeWatchStale:
		return "no successful response about " + operation(v.Operation)
	case events.TypeWatchRecovered:
		return strings.TrimPrefix(operation(v.Operation)+": "+lower(message.Ending(v.Ends)), ": ")
	case events.TypeWatchGapDetected:
		return fmt.Sprintf("%s; %d reached", lower(message.Gap(v.Reason)), v.Reached)
	case events.TypeWatchSchemaDrifted:
		return fmt.Sprintf("%s: expected %s, found %s", operation(v.Operation), Short(v.Expected, 60), Short(v.Found, 80))
	case events.TypeWatchChangeHeld:
		if v.Operation != "" {
			return fmt.Sprintf("the people of %d of %d contact requests are missing; %s announces it now",
				v.Missing, v.Known, v.Approve)
		}
		return fmt.Sprintf("%d of %d insertions are missing; %s announces it now", v.Missing, v.Known, v.Approve)
	}
	return ""
}

// lower starts a sentence with a lower-case letter, for use within a line.
func lower(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }

// changed shows a change as people write it: "rent gross 2'950 → 2'891".
func changed(c events.Change) string {
	return fmt.Sprintf("%s %s → %s", Short(message.Member(c.Path), 120), amount(c.Path, c.Before), amount(c.Path, c.After))
}

// amount shows one side of a change: a text without quotes, a price as 2'950.
func amount(path string, v json.RawMessage) string {
	if v == nil {
		return "(none)"
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return Short(text, 30)
	}
	text = Short(string(v), 20)
	if _, err := strconv.ParseUint(text, 10, 64); err == nil && strings.Contains(strings.ToLower(path), "price") {
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "'" + text[i:]
		}
	}
	return text
}

// shownWhole lists the members of contact requests that contain no person's data. A member that is
// added later is masked until it is known to be harmless and listed here.
var shownWhole = []string{
	"agencyId", "propertyReferenceId", "contactRequestId", "identity", "origin", "createdAt", "observedAt", "observedAfter", "truncated",
	"erased", "score", "insertion", "redactedFields", "defects",
}

// hidden replaces what is not shown.
const hidden = `"***"`

// Masked returns the event with a payload without people's data and the API's record: members that
// can contain them have the value "***", and changes are shortened. It returns false if the payload
// is no object.
func Masked(e events.Event) (events.Event, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Data, &members) != nil || members == nil {
		return events.Event{}, false
	}
	ofPeople := !slices.ContainsFunc([]string{"insertion.", "access.", "watch."}, func(group string) bool {
		return strings.HasPrefix(string(e.Type), group)
	})
	for name, value := range members {
		switch {
		case name == "record", ofPeople && !slices.Contains(shownWhole, name) && name != "contact":
			members[name] = json.RawMessage(hidden)
		case name == "contact":
			members[name] = maskedContact(value)
		case name == "changes":
			members[name] = shortChanges(value)
		}
	}
	e.Data = asJSON(members)
	return e, true
}

// maskedContact keeps the names of the members, which say what is known of the person.
func maskedContact(value json.RawMessage) json.RawMessage {
	var c events.Contact
	var members map[string]any
	if json.Unmarshal(value, &c) != nil || json.Unmarshal(asJSON(c), &members) != nil {
		return json.RawMessage(hidden)
	}
	for name := range members {
		members[name] = "***"
	}
	return asJSON(members)
}

// shortChanges shortens each change to what the lines of events show of it.
func shortChanges(value json.RawMessage) json.RawMessage {
	var changes []events.Change
	if json.Unmarshal(value, &changes) != nil {
		return json.RawMessage(hidden)
	}
	short := make([]string, len(changes))
	for n, c := range changes {
		short[n] = changed(c)
	}
	return asJSON(short)
}

// asJSON encodes v as JSON that people can read, with < as <. Members of maps are sorted.
func asJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage(hidden)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
