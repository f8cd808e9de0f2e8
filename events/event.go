package events

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Event is one entry of the event log and one message of the stream. Data is the payload, compact
// JSON; everything else becomes a ce-* header. An Event from [New] still lacks what only the commit
// knows; [Event.Stamp] adds it.
//
// An Event is a value: its methods return a changed copy. Data may be shared between copies and is
// never written to.
type Event struct {
	ID        string
	Type      Type
	AgencyID  string
	Reference string // raw propertyReferenceId; empty where the event is about an agency
	Origin    Origin
	// ce-time: createdAt of a new contact request if known, else the observation
	Time         time.Time
	RecordedTime time.Time // moment of the commit
	// position in the event log of the store that StoreID names, from 1; 0: not appended yet
	Sequence uint64
	StoreID  string
	Data     json.RawMessage
}

// New makes an event of a payload, which it first brings into the form that is written: times in
// UTC and milliseconds, origin live unless another is given, no list null. The id is final for
// insertions and contact requests; that of access.* and watch.* waits for [Event.Stamp].
//
// It fails if a record, score or number is not JSON; the error does not quote it.
func New(p Payload) (Event, error) {
	settle(p)
	c, f := p.common(), p.facts()
	data, err := encodePayload(p)
	if err != nil {
		return Event{}, fmt.Errorf("event %s of agency %q: a part of the payload is not JSON",
			f.kind, c.AgencyID)
	}
	e := Event{
		// as it comes back from JSON
		ID: draftID(c.AgencyID, f), Type: f.kind, AgencyID: c.AgencyID,
		Reference: string([]rune(f.reference)), Origin: c.Origin, Time: c.ObservedAt, Data: data,
	}
	if !f.time.IsZero() {
		e.Time = f.time
	}
	return e, nil
}

// Stamp returns the event with what the commit decides, and with its final id.
func (e Event) Stamp(position uint64, recorded time.Time, storeID string) Event {
	e.Sequence, e.RecordedTime, e.StoreID = position, normal(recorded), storeID
	e.ID = stampedID(e)
	return e
}

// WithOrigin returns the event with another origin in the envelope and in the payload, of which
// everything else stays as it was written.
func (e Event) WithOrigin(o Origin) Event {
	e.Origin = o
	e.Data = edit(e.Data, rewrite("origin", func(json.RawMessage) json.RawMessage { return quote(string(o)) }))
	return e
}

// Type is what happened. It is both the ce-type attribute and the end of the subject.
type Type string

// The types of contract version 1.
const (
	TypeInsertionAppeared      Type = "insertion.appeared"
	TypeInsertionChanged       Type = "insertion.changed"
	TypeInsertionDisappeared   Type = "insertion.disappeared"
	TypeInsertionReappeared    Type = "insertion.reappeared"
	TypeContactRequestCreated  Type = "contact_request.created"
	TypeContactRequestChanged  Type = "contact_request.changed"
	TypeContactRequestRedacted Type = "contact_request.redacted"
	TypeAccessHalted           Type = "access.halted"
	TypeAccessResumed          Type = "access.resumed"
	TypeWatchBaselined         Type = "watch.baselined"
	TypeWatchStale             Type = "watch.stale"
	TypeWatchRecovered         Type = "watch.recovered"
	TypeWatchGapDetected       Type = "watch.gap_detected"
	TypeWatchSchemaDrifted     Type = "watch.schema_drifted"
	TypeWatchChangeHeld        Type = "watch.change_held"
)

// Schema is the ce-dataschema of a type, equal to the $id of its JSON Schema.
func (t Type) Schema() string { return "urn:doorbell:schema:" + string(t) + ":v1" }

// Fits reports whether a pattern is the type, a group that it belongs to, as access.>, or > for all.
func (t Type) Fits(pattern string) bool {
	group, several := strings.CutSuffix(pattern, ">")
	if several && (group == "" || strings.HasSuffix(group, ".")) {
		return strings.HasPrefix(string(t), group)
	}
	return string(t) == pattern
}

// typeForm is what a type can be, known to this version or not. What passes is safe in headers and
// subjects.
var typeForm = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*$`)

// Origin tells news from history.
type Origin string

// A live event is new, one of the baseline existed before the watch began, and a replay was sent
// again on request.
const (
	OriginLive     Origin = "live"
	OriginBaseline Origin = "baseline"
	OriginReplay   Origin = "replay"
)

// Ids never come from a random source or from the clock of a retry: the same fact must have the
// same id whichever process finds it, so that a stream holds it once. Not the content alone, which
// would hide A→B→A; not the revision alone, which a restored backup would use twice.

// unstamped marks an id that waits for its place in the log; what follows it is the scope.
const unstamped = "?"

// draftID is the id of a new event, final for insertions and contact requests.
func draftID(agencyID string, f facts) string {
	if f.identity == nil {
		return unstamped + f.scope
	}
	return hashID(append([]string{string(f.kind), agencyID, f.reference}, f.identity...)...)
}

// stampedID is the final id of an event whose position in the log is known. Two access or watch
// events may be equal in all but their position, which therefore is the count that tells them
// apart.
func stampedID(e Event) string {
	scope, waiting := strings.CutPrefix(e.ID, unstamped)
	if !waiting {
		return e.ID
	}
	return hashID(string(e.Type), e.AgencyID, scope, strconv.FormatUint(e.Sequence, 10),
		formatTime(e.Time))
}

// hashID is 128 bits of SHA-256 over length-prefixed parts, as 26 lower-case base32 characters. The
// prefixes keep ("ab","c") and ("a","bc") apart.
func hashID(parts ...string) string {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return lowerBase32.EncodeToString(sum[:16])
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(
	base32.NoPadding)

// Cursor is how far the event log is published. It is a hint that may lag. The zero value means
// that nothing is published.
type Cursor struct {
	// Position: the stream has acknowledged everything up to it.
	Position uint64 `json:"position"`
	// ID and StreamSequence are the last acknowledged event in the stream, and StreamCreated says
	// which stream that is.
	ID             string    `json:"id"`
	StreamSequence uint64    `json:"streamSequence"`
	StreamCreated  time.Time `json:"streamCreated"`
	// Read: no message of the stream up to here has the id of an event that is still to be offered.
	// A recent message of another doorbell behind it may have one.
	Read uint64 `json:"read"`
	// Highest is the highest position that was ever acknowledged. It stays when the cursor goes
	// back.
	Highest uint64 `json:"highest"`
}
