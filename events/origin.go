package events

import "encoding/json"

// WithOrigin returns the event with another origin, in the envelope and in the payload, of which all else stays as it was
// written. What is no payload of ours stays as it is.
func (e Event) WithOrigin(o Origin) Event {
	e.Origin = o
	e.Data = members(e.Data, rewrite("origin", func(json.RawMessage) json.RawMessage { return quote(string(o)) }))
	return e
}
