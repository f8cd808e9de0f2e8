package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Payload is the data of one type of event: a pointer to one of the structs of this package that are named after the
// types. The interface is closed.
type Payload interface {
	common() *Common
	settle() facts // brings the payload into the form that is written and tells what the envelope needs
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

// encodePayload writes a payload, which is settled, as it travels: encoding/json writes the struct; the members that every
// payload begins with go to the front, and times get the form in which we write them.
func encodePayload(p Payload) (json.RawMessage, error) {
	data, err := encode(p)
	if err != nil {
		return nil, err
	}
	o, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if t, ok := v.FieldByIndex(f.Index).Interface().(time.Time); ok {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			rewrite(name, func(json.RawMessage) json.RawMessage { return quote(formatTime(t)) })(&o)
		}
	}
	slices.SortStableFunc(o, func(a, b member) int { return place(a) - place(b) })
	return o.encode(), nil
}

// opening is how every payload begins: about whom, since when.
var opening = []string{
	"agencyId", "propertyReferenceId", "contactRequestId", "identity", "origin",
	"createdAt", "observedAt", "observedAfter", "truncated",
}

func place(m member) int {
	if i := slices.Index(opening, m.name); i >= 0 {
		return i
	}
	return len(opening)
}
