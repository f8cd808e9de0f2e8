package events

import "time"

// WatchBaselined: anything new from now on is announced.
type WatchBaselined struct {
	Common
	StartedAt  time.Time `json:"startedAt"`
	Complete   bool      `json:"complete"` // false: walks stayed partial, there may be more
	Insertions int       `json:"insertions"`
	Announced  int       `json:"announced"` // how many of them became events
}

// StaleError is one of the last errors of a watch that does not see. Text never holds what the API
// sent.
type StaleError struct {
	At        time.Time `json:"at"`
	Operation string    `json:"operation"` // insertions or contact_requests
	Class     string    `json:"class"`
	Status    int       `json:"status,omitempty"`
	Text      string    `json:"text"`
}

// MarshalJSON writes the time as all times of events are written.
func (e StaleError) MarshalJSON() ([]byte, error) {
	type plain StaleError
	return encode(struct {
		At string `json:"at"`
		plain
	}{formatTime(normal(e.At)), plain(e)})
}

// maxStaleErrors is how many errors a WatchStale tells.
const maxStaleErrors = 10

// WatchStale: no successful response for too long.
type WatchStale struct {
	Common
	// insertions or contact_requests: which of them is stale
	Operation     string       `json:"operation,omitempty"`
	LastSuccessAt time.Time    `json:"lastSuccessAt,omitzero"`
	Errors        []StaleError `json:"errors"` // oldest first; New keeps the last 10
}

// WatchRecovered: what a watch event reported has ended.
type WatchRecovered struct {
	Common
	// the operation concerned; absent for held insertions
	Operation string    `json:"operation,omitempty"`
	Ends      string    `json:"ends"` // stale or change_held
	Since     time.Time `json:"since"`
}

// WatchGapDetected: we know that we cannot see everything.
type WatchGapDetected struct {
	Common
	// insertions or contact_requests
	Operation string `json:"operation"`
	// where it is one insertion
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	// window_full, walk_incomplete, unreadable, time_unknown or only_none
	Reason  string    `json:"reason"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Reached int       `json:"reached"`
	Total   *int      `json:"total,omitempty"` // nil: the API does not say
}

// WatchSchemaDrifted: a response does not look as responses looked before. Paths and JSON types,
// never values.
type WatchSchemaDrifted struct {
	Common
	// insertions or contact_requests
	Operation           string `json:"operation"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"` // where it is one insertion
	// place, appeared, vanished, or volatile: changes at each reading
	Change   string `json:"change"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

// WatchChangeHeld: a change too large to believe immediately.
type WatchChangeHeld struct {
	Common
	// contact_requests where people vanished; absent for insertions
	Operation string    `json:"operation,omitempty"`
	Reason    string    `json:"reason"` // mass_disappearance or empty_list
	Missing   int       `json:"missing"`
	Known     int       `json:"known"`
	Until     time.Time `json:"until"`
	Approve   string    `json:"approve"` // the command that believes it now
}

func (p *WatchBaselined) facts() facts {
	return facts{kind: TypeWatchBaselined}
}

func (p *WatchStale) facts() facts {
	return facts{kind: TypeWatchStale, scope: p.Operation}
}

func (p *WatchRecovered) facts() facts {
	return facts{kind: TypeWatchRecovered, scope: p.Ends + p.Operation}
}

func (p *WatchGapDetected) facts() facts {
	return facts{kind: TypeWatchGapDetected, reference: p.PropertyReferenceID, scope: p.Reason}
}

func (p *WatchSchemaDrifted) facts() facts {
	return facts{kind: TypeWatchSchemaDrifted, reference: p.PropertyReferenceID, scope: p.Operation}
}

func (p *WatchChangeHeld) facts() facts {
	return facts{kind: TypeWatchChangeHeld, scope: p.Reason + p.Operation}
}
