package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// envelope is an event as CloudEvents has it: every attribute a text. Headers and JSON are two ways to write it down.
type envelope struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	DataSchema      string          `json:"dataschema"`
	Sequence        string          `json:"sequence"`
	PartitionKey    string          `json:"partitionkey"`
	RecordedTime    string          `json:"recordedtime"`
	Origin          string          `json:"origin"`
	StoreID         string          `json:"storeid,omitempty"`
	Data            json.RawMessage `json:"data"`
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
		Sequence:        fmt.Sprintf("%0*d", sequenceDigits, e.Sequence),
		PartitionKey:    token,
		RecordedTime:    formatTime(e.RecordedTime),
		Origin:          string(e.Origin),
		StoreID:         e.StoreID,
		Data:            e.Data,
	}
}

// sequenceDigits pads sequences so that they sort as text.
const sequenceDigits = 20

// event is strict where a reader could go wrong, and takes no notice of what it does not need. Agency and origin come
// from the payload, which has them as they are; the reference too where the envelope had no room for it.
func (v envelope) event() (Event, error) {
	var payload struct {
		AgencyID            string `json:"agencyId"`
		PropertyReferenceID string `json:"propertyReferenceId"`
		Origin              Origin `json:"origin"`
	}
	if json.Unmarshal(v.Data, &payload) != nil || payload.AgencyID == "" || payload.Origin == "" {
		return Event{}, errors.New("event: the payload is no JSON object with agencyId and origin")
	}
	if v.Subject == "" {
		v.Subject = payload.PropertyReferenceID
	}
	e := Event{
		ID: v.ID, Type: Type(v.Type), AgencyID: payload.AgencyID, Reference: strings.ToValidUTF8(v.Subject, "\uFFFD"),
		Origin: payload.Origin, StoreID: v.StoreID, Data: v.Data,
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
