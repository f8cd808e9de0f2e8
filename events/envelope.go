package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// envelope is an event as CloudEvents defines it: every attribute is a text. Headers and JSON are
// two ways to write it.
type envelope struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject,omitempty"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	DataSchema      string `json:"dataschema"`
	// empty before the event is in the log
	Sequence     string          `json:"sequence,omitempty"`
	PartitionKey string          `json:"partitionkey"`
	RecordedTime string          `json:"recordedtime"`
	Origin       string          `json:"origin"`
	StoreID      string          `json:"storeid,omitempty"`
	Data         json.RawMessage `json:"data"`
}

// attributes are the texts of an envelope by the names that they have as headers.
func (v *envelope) attributes() map[string]*string {
	return map[string]*string{
		"ce-specversion":     &v.SpecVersion,
		"ce-id":              &v.ID,
		"ce-source":          &v.Source,
		"ce-type":            &v.Type,
		"ce-subject":         &v.Subject,
		"ce-time":            &v.Time,
		"ce-datacontenttype": &v.DataContentType,
		"ce-dataschema":      &v.DataSchema,
		"ce-sequence":        &v.Sequence,
		"ce-partitionkey":    &v.PartitionKey,
		"ce-recordedtime":    &v.RecordedTime,
		"ce-origin":          &v.Origin,
		"ce-storeid":         &v.StoreID,
	}
}

const specVersion = "1.0"

func (e Event) envelope() envelope {
	token := Token(e.AgencyID)
	return envelope{
		SpecVersion:     specVersion,
		ID:              e.ID,
		Source:          "/agencies/" + token,
		Type:            string(e.Type),
		Subject:         e.Reference,
		Time:            formatTime(e.Time),
		DataContentType: "application/json",
		DataSchema:      e.Type.Schema(),
		Sequence:        formatSequence(e.Sequence),
		PartitionKey:    token,
		RecordedTime:    formatTime(e.RecordedTime),
		Origin:          string(e.Origin),
		StoreID:         e.StoreID,
		Data:            e.Data,
	}
}

// sequenceDigits pads sequences so that they sort as text.
const sequenceDigits = 20

func formatSequence(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", sequenceDigits, n)
}

// event is strict where a reader could go wrong, and ignores what it does not need. Agency and
// origin come from the payload, which has them as they are; the reference too where the envelope
// had no room for it.
func (v *envelope) event() (Event, error) {
	var payload struct {
		AgencyID            string `json:"agencyId"`
		PropertyReferenceID string `json:"propertyReferenceId"`
		Origin              string `json:"origin"`
	}
	if json.Unmarshal(v.Data, &payload) != nil || payload.AgencyID == "" || payload.Origin == "" {
		return Event{}, errPayload
	}
	reference := cmp.Or(v.Subject, payload.PropertyReferenceID)
	e := Event{
		ID: v.ID, Type: Type(v.Type), AgencyID: payload.AgencyID,
		Reference: strings.ToValidUTF8(reference, "\uFFFD"), Origin: Origin(payload.Origin),
		StoreID: v.StoreID, Data: v.Data,
	}
	var okTime, okRecorded, okSequence bool
	e.Time, okTime = parseTime(v.Time)
	e.RecordedTime, okRecorded = parseTime(v.RecordedTime)
	e.Sequence, okSequence = parseSequence(v.Sequence)
	for _, attribute := range []struct {
		name string
		ok   bool
	}{
		{"specversion", v.SpecVersion == specVersion},
		{"id", v.ID != "" && isHeaderText(v.ID)},
		{"type", len(v.Type) <= maxToken && typeForm.MatchString(v.Type)},
		{"time", okTime},
		{"recordedtime", okRecorded},
		{"sequence", okSequence},
		{"partitionkey", v.PartitionKey == Token(e.AgencyID)},
		{"origin", isHeaderText(payload.Origin)},
		{"storeid", isHeaderText(v.StoreID)},
		{"data", v.Data != nil},
	} {
		if !attribute.ok {
			return Event{}, fmt.Errorf("event: attribute %s is missing or malformed", attribute.name)
		}
	}
	return e, nil
}

var errPayload = errors.New("event: the payload is not a JSON object with agencyId and origin")

func parseSequence(s string) (uint64, bool) {
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && len(s) == sequenceDigits && n > 0
}

// isHeaderText reports whether s may be in a header as it is: short, printable ASCII without
// spaces.
func isHeaderText(s string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	return len(s) <= maxToken && !strings.ContainsFunc(s, odd)
}

// ResentHeader marks a message that the stream held before and had lost, and that was published
// once more.
const ResentHeader = "doorbell-resent"

const (
	msgIDHeader = "Nats-Msg-Id"
	// maxSubject keeps headers small. A longer reference is only in the payload: half of one would
	// be another one.
	maxSubject = 512
	maxHeader  = 2 << 10
)

// Header is the envelope as NATS headers: the ce-* attributes and Nats-Msg-Id, each once, printable
// ASCII without spaces, together less than 2 KiB (maxHeader). The reference is percent-encoded; it
// is left out where it would take more than 512 characters. No personal data is in it.
func (e Event) Header() map[string][]string {
	v := e.envelope()
	if v.Subject = escape(v.Subject, '%', printable); len(v.Subject) > maxSubject {
		v.Subject = ""
	}
	header := map[string][]string{msgIDHeader: {e.ID}}
	for name, text := range v.attributes() {
		if *text != "" {
			header[name] = []string{*text}
		}
	}
	return header
}

// Decode reads an event from the headers and the body of a message. Headers that it does not know
// do not matter. Types of later versions pass; [Event.Payload] knows them or does not.
//
// The error says that the message is no event of ours and which attribute shows it; it never quotes
// a value. Data is kept, not copied.
func Decode(header map[string][]string, data []byte) (Event, error) {
	v := envelope{Data: data}
	for name, text := range v.attributes() {
		if values := header[name]; len(values) > 0 {
			*text = values[0]
		}
	}
	// where it is not ours, the payload has the reference
	v.Subject, _ = url.PathUnescape(v.Subject)
	if v.Sequence == "" {
		return Event{}, errors.New("event: attribute sequence is missing")
	}
	return v.event()
}

// printable reports whether a byte of a reference may be in a header; a % would be read as an
// escape. The # stays.
func printable(c byte) bool { return ' ' < c && c <= '~' && c != '"' && c != '%' }

// AppendJSON appends the event as one line of CloudEvents JSON, without a line end: the form that
// the event log, --json and replays write. Nothing is escaped for HTML and the payload is compact,
// so the Data of an event from [New] comes back byte for byte. The subject is the raw reference. It
// fails if Data is not JSON; the error does not quote it.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	line, err := encode(e.envelope())
	if err != nil || e.Data == nil {
		return dst, errors.New("event " + e.ID + ": the payload is not JSON")
	}
	return append(dst, line...), nil
}

// MarshalJSON is [Event.AppendJSON]. Note that [json.Marshal] escapes <, > and & once more in what
// it returns: the same event, other bytes. Where bytes matter, call AppendJSON or this method.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON reads what [Event.AppendJSON] or MarshalJSON wrote. It is as strict as [Decode],
// and its errors quote as little.
func (e *Event) UnmarshalJSON(line []byte) error {
	var v envelope
	if json.Unmarshal(line, &v) != nil {
		return errors.New("event: not CloudEvents JSON")
	}
	read, err := v.event()
	if err != nil {
		return err
	}
	*e = read
	return nil
}

// Times are written as RFC 3339 in UTC: whole seconds plainly, all others with three digits, so
// that a column of them lines up.

// normal is the precision of every time that we write, without its monotonic part. A year that RFC
// 3339 cannot write is no time.
func normal(t time.Time) time.Time {
	if !writable(t) {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func writable(t time.Time) bool {
	year := t.UTC().Year()
	return 1 <= year && year <= 9999
}

func formatTime(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.UTC().Format(time.RFC3339)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return normal(t), err == nil && writable(t)
}
