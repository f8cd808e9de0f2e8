package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// Head is what can be said of an event without reading its payload.
type Head struct {
	ID           string
	Type         Type
	Origin       Origin
	Sequence     uint64
	RecordedTime time.Time
}

// payloadMember begins the last member of what [Event.AppendJSON] writes. No text holds it: a quotation mark in a text has a
// backslash before it.
var payloadMember = []byte(`,"data":`)

// DecodeHead reads the beginning of what [Event.AppendJSON] wrote. It costs the same for every payload, and is no proof that
// the event can be read.
func DecodeHead(line []byte) (Head, error) {
	var v struct {
		ID           string `json:"id"`
		Type         Type   `json:"type"`
		Sequence     string `json:"sequence"`
		RecordedTime string `json:"recordedtime"`
		Origin       Origin `json:"origin"`
	}
	end := bytes.Index(line, payloadMember)
	if end < 0 || json.Unmarshal(append(bytes.Clone(line[:end]), '}'), &v) != nil {
		return Head{}, errors.New("event: no CloudEvents JSON")
	}
	h := Head{ID: v.ID, Type: v.Type, Origin: v.Origin}
	var okSequence, okRecorded bool
	h.Sequence, okSequence = parseSequence(v.Sequence)
	h.RecordedTime, okRecorded = parseTime(v.RecordedTime)
	if !okSequence || !okRecorded {
		return Head{}, errors.New("event: sequence or recordedtime is missing or not as it should be")
	}
	return h, nil
}
