package events

import (
	"errors"
	"slices"
)

// AppendJSON appends the event as one line of CloudEvents JSON, without a line end: the form that the event log, --json
// and replays write. Nothing is escaped for HTML and the payload is compact, so the Data of an event from [New] comes
// back byte for byte. The subject is the reference as it is. The error is Data that is no JSON; it does not quote it.
func (e Event) AppendJSON(dst []byte) ([]byte, error) {
	v := e.envelope()
	line := append(slices.Grow(dst, len(e.Data)+maxHeader), '{')
	for _, a := range v.attributes() {
		if *a.value == "" && a.optional {
			continue
		}
		line = append(appendQuoted(line, a.name), ':')
		line = append(appendQuoted(line, *a.value), ',')
	}
	line = append(line, payloadMember[1:]...)
	line, ok := appendCompact(line, e.Data)
	if !ok {
		return dst, errors.New("event " + e.ID + ": the payload is no JSON")
	}
	return append(line, '}'), nil
}

// MarshalJSON is [Event.AppendJSON]. Note that [json.Marshal] escapes <, > and & once more in what it returns: the same
// event, other bytes. Where bytes matter, call AppendJSON or this method.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON reads what [Event.AppendJSON] wrote. It is as strict as [Decode], and its errors quote as little.
func (e *Event) UnmarshalJSON(line []byte) error {
	o, err := parseObject(line)
	if err != nil {
		return errors.New("event: no CloudEvents JSON")
	}
	var v envelope
	for _, a := range v.attributes() {
		if !o.read(a.name, a.value) {
			return errors.New("event: no CloudEvents JSON")
		}
	}
	data := slices.Clone(o.value("data"))
	payload, err := split(data)
	if err != nil {
		return errPayload
	}
	read, err := v.event(data, payload)
	if err != nil {
		return err
	}
	*e = read
	return nil
}
