package events

import (
	"encoding/json"
	"errors"
)

// AppendJSON appends the event as one line of CloudEvents JSON, without a line end: the form that the event log, --json
// and replays write. Nothing is escaped for HTML and the payload is compact, so the Data of an event from [New] comes
// back byte for byte. The subject is the reference as it is. The error is Data that is no JSON; it does not quote it.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	line, err := encode(e.envelope())
	if err != nil {
		return dst, errors.New("event " + e.ID + ": the payload is no JSON")
	}
	return append(dst, line...), nil
}

// MarshalJSON is [Event.AppendJSON]. Note that [json.Marshal] escapes <, > and & once more in what it returns: the same
// event, other bytes. Where bytes matter, call AppendJSON or this method.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON reads what [Event.AppendJSON] wrote. It is as strict as [Decode], and its errors quote as little.
func (e *Event) UnmarshalJSON(line []byte) error {
	var v envelope
	if err := json.Unmarshal(line, &v); err != nil {
		return errors.New("event: no CloudEvents JSON")
	}
	read, err := v.event()
	if err != nil {
		return err
	}
	*e = read
	return nil
}
