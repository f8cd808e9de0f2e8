package events

import "time"

// Cursor says how far an agency's event log is published: the newest acknowledged event, the place that the stream gave
// it, and which stream that was. The zero value means that nothing is published yet.
type Cursor struct {
	Sequence       uint64    `json:"sequence"`
	ID             string    `json:"id"`
	Position       uint64    `json:"position,omitempty"` // in the log: all up to it are published, or dropped as published before
	StreamSequence uint64    `json:"streamSequence"`
	StreamCreated  time.Time `json:"streamCreated"`
}
