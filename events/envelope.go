package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// envelope is an event as CloudEvents has it: every attribute a text. Headers and JSON are two ways to write it down.
type envelope struct {
	SpecVersion, ID, Source, Type, Subject, Time, DataContentType, DataSchema,
	Sequence, PartitionKey, RecordedTime, Origin, StoreID string
}

// attribute is one of an envelope. JSON has it also where it is empty, unless it is optional.
type attribute struct {
	name     string
	value    *string
	optional bool
}

// attributes are those of an envelope in the order in which JSON has them.
func (v *envelope) attributes() [13]attribute {
	return [...]attribute{
		{"specversion", &v.SpecVersion, false},
		{"id", &v.ID, false},
		{"source", &v.Source, false},
		{"type", &v.Type, false},
		{"subject", &v.Subject, true},
		{"time", &v.Time, false},
		{"datacontenttype", &v.DataContentType, false},
		{"dataschema", &v.DataSchema, false},
		{"sequence", &v.Sequence, false},
		{"partitionkey", &v.PartitionKey, false},
		{"recordedtime", &v.RecordedTime, false},
		{"origin", &v.Origin, false},
		{"storeid", &v.StoreID, true},
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
	}
}

// sequenceDigits pads sequences so that they sort as text.
const sequenceDigits = 20

func formatSequence(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	return "00000000000000000000"[:sequenceDigits-len(digits)] + digits
}

// event is strict where a reader could go wrong, and takes no notice of what it does not need. Agency and origin come
// from the payload, which has them as they are; the reference too where the envelope had no room for it.
func (v *envelope) event(data json.RawMessage, payload object) (Event, error) {
	var agency, reference, origin string
	ok := payload.read("agencyId", &agency) && payload.read("propertyReferenceId", &reference) && payload.read("origin", &origin)
	if !ok || agency == "" || origin == "" {
		return Event{}, errPayload
	}
	e := Event{
		ID: v.ID, Type: Type(v.Type), AgencyID: agency, Reference: strings.ToValidUTF8(cmp.Or(v.Subject, reference), "\uFFFD"),
		Origin: Origin(origin), StoreID: v.StoreID, Data: data,
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
		{"type", e.Type.valid()},
		{"time", okTime},
		{"recordedtime", okRecorded},
		{"sequence", okSequence},
		{"partitionkey", v.PartitionKey == Token(e.AgencyID)},
		{"origin", isHeaderText(string(e.Origin))},
		{"storeid", isHeaderText(v.StoreID)},
	} {
		if !attribute.ok {
			return Event{}, fmt.Errorf("event: attribute %s is missing or not as it should be", attribute.name)
		}
	}
	return e, nil
}

var errPayload = errors.New("event: the payload is no JSON object with agencyId and origin")

func parseSequence(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && len(s) == sequenceDigits
}

// isHeaderText reports whether s may stand in a header as it is: printable ASCII without spaces, and not much of it.
func isHeaderText(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= maxToken
}
