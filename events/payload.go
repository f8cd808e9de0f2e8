package events

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Payload is the data of one type of event: a pointer to one of the structs of this package that
// are named after the types. The interface is closed.
type Payload interface {
	common() *Common
	facts() facts // what the envelope needs
}

// facts is what the envelope needs of a payload.
type facts struct {
	kind      Type
	reference string
	// what makes the id beside type, agency and reference; nil: scope, count and time make it
	identity []string
	scope    string    // part of the id where identity is nil
	time     time.Time // ce-time, where it is not the observation
}

// identified are the facts of what happens to an insertion or a contact request, and the parts of
// its identity.
func identified(kind Type, reference string, identity ...any) facts {
	f := facts{kind: kind, reference: reference}
	for _, part := range identity {
		if digest, ok := part.([32]byte); ok {
			part = hex.EncodeToString(digest[:])
		}
		f.identity = append(f.identity, fmt.Sprint(part))
	}
	return f
}

// Common is part of every payload.
type Common struct {
	AgencyID   string    `json:"agencyId"`
	Origin     Origin    `json:"origin"`
	ObservedAt time.Time `json:"observedAt"`
	// the previous good look; the change happened in between
	ObservedAfter time.Time `json:"observedAfter,omitzero"`
	// something was left out, for size or because it is not known
	Truncated bool `json:"truncated,omitempty"`
}

func (c *Common) common() *Common { return c }

// settle brings a payload into the form that is written.
func settle(p Payload) {
	v, c := reflect.ValueOf(p).Elem(), p.common()
	for _, f := range reflect.VisibleFields(v.Type()) {
		switch field := v.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *time.Time:
			*field = normal(*field)
		case *Origin:
			*field = cmp.Or(*field, OriginLive)
		case *[]string:
			*field = append([]string{}, *field...) // null is no list
		case *[]StaleError:
			*field = append([]StaleError{}, (*field)[max(0, len(*field)-maxStaleErrors):]...)
		case *[]Change:
			var cut bool
			*field, cut = capChanges(*field)
			c.Truncated = c.Truncated || cut
		}
	}
}

// payloads are empty ones of each type, and Types lists every type in the order of the contract.
var payloads, Types = func(list ...Payload) (payloads map[Type]reflect.Type, types []Type) {
	payloads = map[Type]reflect.Type{}
	for _, p := range list {
		kind := p.facts().kind
		payloads[kind], types = reflect.TypeOf(p).Elem(), append(types, kind)
	}
	return payloads, types
}(
	new(InsertionAppeared), new(InsertionChanged), new(InsertionDisappeared),
	new(InsertionReappeared), new(ContactRequestCreated), new(ContactRequestChanged),
	new(ContactRequestRedacted), new(AccessHalted), new(AccessResumed),
	new(WatchBaselined), new(WatchStale), new(WatchRecovered), new(WatchGapDetected),
	new(WatchSchemaDrifted), new(WatchChangeHeld),
)

// Payload decodes Data into the struct of the event's type. Members that this version does not know
// are left out. It fails if the type is unknown or Data has another form; the error quotes nothing
// of the data.
func (e Event) Payload() (Payload, error) {
	empty, ok := payloads[e.Type]
	if !ok {
		return nil, fmt.Errorf("event %s: unknown type %q", e.ID, e.Type)
	}
	p := reflect.New(empty).Interface().(Payload)
	if err := json.Unmarshal(e.Data, p); err != nil {
		return nil, fmt.Errorf("event %s: the payload is not a valid %s", e.ID, e.Type)
	}
	return p, nil
}

// encodePayload writes a settled payload as it is published: as encoding/json does, but with the
// members that every payload begins with at the front, and times in our form.
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

// opening is how every payload begins: whom it is about, and since when.
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
