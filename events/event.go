package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// Event is one entry of the event log and one message of the stream. Data is the payload, compact JSON; everything else
// becomes a ce-* header. An Event from [New] still lacks what only the commit knows; [Event.Stamp] adds it. It gets its sequence
// when the stream takes it.
//
// An Event is a value: its methods return a changed copy. Data may be shared between copies and is never written to.
type Event struct {
	ID           string
	Type         Type
	AgencyID     string
	Reference    string // raw propertyReferenceId; empty where the event is about an agency
	Origin       Origin
	Time         time.Time // ce-time: createdAt of a new contact request if known, else the observation
	RecordedTime time.Time // moment of the commit
	Sequence     uint64    // in the stream, per agency, from 1, without gaps; 0: the stream has not taken it yet
	Position     uint64    // in the event log of this store, per agency; 0: it was not appended here. It is in no message
	StoreID      string
	Data         json.RawMessage
}

// New makes an event of a payload, which it first brings into the form that is written: times in UTC and milliseconds,
// origin live unless said otherwise, no list null. The id is final for insertions and contact requests; that of
// access.* and watch.* waits for [Event.Stamp].
//
// The error is a record, score or number that is no JSON; it does not quote it.
func New(p Payload) (Event, error) {
	c := p.common()
	c.settle()
	f := p.settle()
	data, err := encodePayload(p)
	if err != nil {
		return Event{}, fmt.Errorf("event %s of agency %q: the payload holds what is no JSON", f.kind, c.AgencyID)
	}
	e := Event{
		ID: draftID(c.AgencyID, f), Type: f.kind, AgencyID: c.AgencyID, Reference: string([]rune(f.reference)), // as it comes back from JSON
		Origin: c.Origin, Time: c.ObservedAt, Data: data,
	}
	if !f.time.IsZero() {
		e.Time = f.time
	}
	return e, nil
}

// Stamp returns the event with what the commit decides, and with its final id.
func (e Event) Stamp(position uint64, recorded time.Time, storeID string) Event {
	e.Position, e.RecordedTime, e.StoreID = position, normal(recorded), storeID
	e.ID = stampedID(e)
	return e
}

// WithSequence returns the event with its number in the stream.
func (e Event) WithSequence(sequence uint64) Event {
	e.Sequence = sequence
	return e
}

// WithOrigin returns the event with another origin, in the envelope and in the payload, of which all else stays as it was
// written. What is no payload of ours stays as it is.
func (e Event) WithOrigin(o Origin) Event {
	e.Origin = o
	e.Data = edit(e.Data, rewrite("origin", func(json.RawMessage) json.RawMessage { return quote(string(o)) }))
	return e
}
