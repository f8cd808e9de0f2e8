package events

import (
	"encoding/json"
	"strconv"
	"time"
)

// writer writes the JSON of a payload, each member once and in the order of the contract. It writes what encoding/json
// would without HTML escapes, save that times have their three digits; a test holds the two together. Most events are
// written once in a while, by code that is in no cache any more: what counts then is how little of it there is.
type writer struct {
	b      []byte
	broken bool // a raw value or a number is no JSON
}

// encodePayload writes a payload, which is settled, as it travels.
func encodePayload(p Payload) (data json.RawMessage, ok bool) {
	w := writer{b: append(make([]byte, 0, 2<<10), '{')}
	p.write(&w)
	w.close('}')
	return w.b, !w.broken
}

// ofAgency is how a payload begins that is about an agency, or about one insertion of it where it says so: who, what,
// since when.
func (w *writer) ofAgency(c *Common, reference string) {
	w.text("agencyId", c.AgencyID)
	w.maybeText("propertyReferenceId", reference)
	w.text("origin", string(c.Origin))
	w.observed(c)
}

// ofInsertion is how a payload about an insertion begins.
func (w *writer) ofInsertion(c *Common, reference string) {
	w.text("agencyId", c.AgencyID)
	w.text("propertyReferenceId", reference)
	w.text("origin", string(c.Origin))
	w.observed(c)
}

// ofContactRequest is how a payload about a contact request begins.
func (w *writer) ofContactRequest(c *Common, reference, id string, identity Identity, createdAt time.Time) {
	w.text("agencyId", c.AgencyID)
	w.text("propertyReferenceId", reference)
	w.text("contactRequestId", id)
	w.text("identity", string(identity))
	w.text("origin", string(c.Origin))
	w.maybeTime("createdAt", createdAt)
	w.observed(c)
}

func (w *writer) observed(c *Common) {
	w.time("observedAt", c.ObservedAt)
	w.maybeTime("observedAfter", c.ObservedAfter)
	if c.Truncated {
		w.name("truncated")
		w.b = append(w.b, "true"...)
	}
}

// comma parts a value from the one before it, if there is one in the same object or list.
func (w *writer) comma() {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
}

// name begins a member. Names are ours and need no escapes.
func (w *writer) name(name string) {
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

// open begins a member that is an object or a list; close ends it.
func (w *writer) open(name string, bracket byte) {
	w.name(name)
	w.b = append(w.b, bracket)
}

func (w *writer) close(bracket byte) { w.b = append(w.b, bracket) }

func (w *writer) text(name, s string) {
	w.name(name)
	w.b = appendQuoted(w.b, s)
}

// maybeText writes a text unless it is empty. So do the others that begin with maybe.
func (w *writer) maybeText(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *writer) texts(name string, list []string) {
	w.open(name, '[')
	for _, s := range list {
		w.comma()
		w.b = appendQuoted(w.b, s)
	}
	w.close(']')
}

func (w *writer) maybeTexts(name string, list []string) {
	if len(list) > 0 {
		w.texts(name, list)
	}
}

func (w *writer) time(name string, t time.Time) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = appendTime(w.b, t)
	w.b = append(w.b, '"')
}

func (w *writer) maybeTime(name string, t time.Time) {
	if !t.IsZero() {
		w.time(name, t)
	}
}

func (w *writer) count(name string, n int) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *writer) maybeCount(name string, n int) {
	if n != 0 {
		w.count(name, n)
	}
}

func (w *writer) sequence(name string, n uint64) {
	w.name(name)
	w.b = strconv.AppendUint(w.b, n, 10)
}

func (w *writer) bool(name string, yes bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, yes)
}

// maybeRaw writes a value of the API without its white space.
func (w *writer) maybeRaw(name string, value json.RawMessage) {
	if len(value) == 0 {
		return
	}
	w.name(name)
	b, ok := appendCompact(w.b, value)
	w.b, w.broken = b, w.broken || !ok
}

// maybeNumber writes a number of the API with its own digits.
func (w *writer) maybeNumber(name string, n json.Number) {
	if n == "" {
		return
	}
	w.name(name)
	w.b = append(w.b, n...)
	c := compaction{src: []byte(n)}
	w.broken = w.broken || !c.number() || c.at < len(n)
}
