package ops

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"doorbell/events"
)

// shownWhole are the members of contact requests in which no person stands. What is added to them later is masked until it is
// known to be harmless.
var shownWhole = []string{
	"agencyId", "propertyReferenceId", "contactRequestId", "identity", "origin", "createdAt", "observedAt", "observedAfter", "truncated",
	"score", "insertion", "changedFields", "redactedFields", "defects",
}

// hidden stands for what is not shown.
const hidden = `"***"`

// Masked returns the event with a payload in which no person stands, and nothing of the API's record: the members that can
// hold one are there, and "***" instead of what they hold; changes are told in short. It is false for a payload that is no
// object, and then there is nothing to show.
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
	e.Data = object(memberNames(e.Data), members)
	if !json.Valid(e.Data) {
		return events.Event{}, false
	}
	return e, true
}

// maskedContact keeps the names of the members: what is known of the person.
func maskedContact(value json.RawMessage) json.RawMessage {
	var c events.Contact
	if json.Unmarshal(value, &c) != nil {
		return json.RawMessage(hidden)
	}
	known := asJSON(c)
	var members map[string]json.RawMessage
	if json.Unmarshal(known, &members) != nil {
		return json.RawMessage(hidden)
	}
	for name := range members {
		members[name] = json.RawMessage(hidden)
	}
	return object(memberNames(known), members)
}

// shortChanges shows as much of each side as the lines of events do.
func shortChanges(value json.RawMessage) json.RawMessage {
	var changes []events.Change
	if json.Unmarshal(value, &changes) != nil {
		return json.RawMessage(hidden)
	}
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = ChangeText(c)
	}
	return asJSON(lines)
}

// object writes members in the order of the names.
func object(names []string, members map[string]json.RawMessage) json.RawMessage {
	text := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, asJSON(name)...), ':'), members[name]...)
	}
	return append(text, '}')
}

// memberNames are the names in an object, in its order, each once.
func memberNames(object json.RawMessage) (names []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return names
		}
		if text, ok := name.(string); ok && !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return names
}

// asJSON is v as JSON that people can read: < stays <.
func asJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage(hidden)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
