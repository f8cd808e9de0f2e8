package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Payload is the data of one type of event: a pointer to one of the structs of this package that are named after the
// types. The interface is closed.
type Payload interface {
	common() *Common
	settle() facts   // brings the payload into the form that is written and tells what the envelope needs
	write(w *writer) // writes its members, which are settled
}

// facts is what the envelope needs of a payload.
type facts struct {
	kind      Type
	reference string
	identity  []string  // what makes the id beside type, agency and reference; nil: scope, count and time make it
	scope     string    // part of the id where identity is nil
	time      time.Time // ce-time, where it is not the observation
}

// Common stands in every payload.
type Common struct {
	AgencyID      string    `json:"agencyId"`
	Origin        Origin    `json:"origin"`
	ObservedAt    time.Time `json:"observedAt"`
	ObservedAfter time.Time `json:"observedAfter,omitzero"` // the previous good look; the change happened in between
	Truncated     bool      `json:"truncated,omitempty"`    // something was left out, for size or because it is not known
}

func (c *Common) common() *Common { return c }

func (c *Common) settle() {
	c.ObservedAt, c.ObservedAfter = normal(c.ObservedAt), normal(c.ObservedAfter)
	c.Origin = cmp.Or(c.Origin, OriginLive)
}

// payloads makes an empty payload of each type.
var payloads = map[Type]func() Payload{
	TypeInsertionAppeared:      func() Payload { return new(InsertionAppeared) },
	TypeInsertionChanged:       func() Payload { return new(InsertionChanged) },
	TypeInsertionDisappeared:   func() Payload { return new(InsertionDisappeared) },
	TypeInsertionReappeared:    func() Payload { return new(InsertionReappeared) },
	TypeContactRequestCreated:  func() Payload { return new(ContactRequestCreated) },
	TypeContactRequestChanged:  func() Payload { return new(ContactRequestChanged) },
	TypeContactRequestRedacted: func() Payload { return new(ContactRequestRedacted) },
	TypeAccessHalted:           func() Payload { return new(AccessHalted) },
	TypeAccessResumed:          func() Payload { return new(AccessResumed) },
	TypeAccessKeySwitched:      func() Payload { return new(AccessKeySwitched) },
	TypeWatchBaselined:         func() Payload { return new(WatchBaselined) },
	TypeWatchStale:             func() Payload { return new(WatchStale) },
	TypeWatchRecovered:         func() Payload { return new(WatchRecovered) },
	TypeWatchGapDetected:       func() Payload { return new(WatchGapDetected) },
	TypeWatchSchemaDrifted:     func() Payload { return new(WatchSchemaDrifted) },
	TypeWatchChangeHeld:        func() Payload { return new(WatchChangeHeld) },
	TypeWatchStreamRepaired:    func() Payload { return new(WatchStreamRepaired) },
}

// Payload decodes Data into the struct of the event's type. Members that this version does not know are left out. The
// error is a type that it does not know, or data of another form; it quotes nothing of the data.
func (e Event) Payload() (Payload, error) {
	empty, ok := payloads[e.Type]
	if !ok {
		return nil, fmt.Errorf("event %s: unknown type %q", e.ID, e.Type)
	}
	p := empty()
	if err := json.Unmarshal(e.Data, p); err != nil {
		return nil, fmt.Errorf("event %s: the payload is no %s", e.ID, e.Type)
	}
	return p, nil
}

// encode writes compact JSON without HTML escapes, so that records keep their texts; bytes that are no UTF-8 become
// U+FFFD.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return valid(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// valid replaces bytes that are no UTF-8.
func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}
