package events

import (
	"bytes"
	"encoding/json"
	"slices"
)

// HoldsPerson reports whether the event may hold a person's data: it is a contact request, new or
// changed, that was not erased.
func (e Event) HoldsPerson() bool {
	return (e.Type == TypeContactRequestCreated || e.Type == TypeContactRequestChanged) &&
		!e.Erased()
}

// Erased reports whether [Event.Erase] made the event.
func (e Event) Erased() bool {
	if !bytes.Contains(e.Data, []byte(`"erased":true`)) {
		return false
	}
	var p struct {
		Erased bool `json:"erased"`
	}
	return json.Unmarshal(e.Data, &p) == nil && p.Erased
}

// Erase returns the event without the person: contact is empty, record, score and defects are left
// out, "truncated" and "erased" are true. Everything else stays, with the id and the position. An
// event without a person is returned as it is.
func (e Event) Erase() Event {
	if !e.HoldsPerson() {
		return e
	}
	e.Data = edit(e.Data, func(o *object) {
		for _, name := range []string{"record", "score", "defects", "erased"} {
			without(name)(o)
		}
		rewrite("contact", empty)(o)
		*o = o.truncated()
		*o = slices.Insert(*o, 1+o.index("truncated"), member{"erased", json.RawMessage("true")})
	})
	return e
}
