package events

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Entity names what an event is about, as short text that holds no personal data: an insertion, or one contact request of
// it. It is empty for access.* and watch.*, which are about nothing that could be found again.
func (e Event) Entity() string {
	kind, _, _ := strings.Cut(string(e.Type), ".")
	switch kind {
	case "insertion":
		return hashID(kind, e.AgencyID, e.Reference)
	case "contact_request":
		var p struct {
			ContactRequestID string `json:"contactRequestId"`
		}
		if json.Unmarshal(e.Data, &p) != nil {
			return ""
		}
		return hashID(kind, e.AgencyID, e.Reference, p.ContactRequestID)
	}
	return ""
}

// State tells, as short text, how an event leaves its entity: two events of equal state leave it alike. It is empty where
// the event does not say, as when its record was left out. digest tells one record from another.
func (e Event) State(digest func(t Type, record json.RawMessage) string) string {
	if e.Type == TypeInsertionDisappeared {
		return "gone"
	}
	var p struct {
		Record         json.RawMessage `json:"record"`
		RedactedFields []string        `json:"redactedFields"`
	}
	if json.Unmarshal(e.Data, &p) != nil {
		return ""
	}
	if e.Type == TypeContactRequestRedacted {
		return hashID(append([]string{"redacted"}, p.RedactedFields...)...)
	}
	if p.Record == nil {
		return ""
	}
	return digest(e.Type, p.Record)
}

// Again returns a stamped event under an id of its own, for something that happens a second time under the id of the first:
// a restored backup counts the same revision again. It is as deterministic as the id of access and watch events.
func (e Event) Again() Event {
	e.ID = hashID("again", e.ID, strconv.FormatUint(e.Position, 10))
	return e
}
