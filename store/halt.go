package store

import (
	"time"

	"doorbell/events"
)

// Halt is a scope that is not asked for any more.
type Halt struct {
	Scope          events.Scope `json:"scope"`
	Reference      string       `json:"propertyReferenceId,omitempty"` // where Scope is one insertion
	Operation      string       `json:"operation"`
	Status         int          `json:"status"`
	Since          time.Time    `json:"since"`
	Tried          time.Time    `json:"tried"` // the last request, which was refused
	Key            string       `json:"key"`   // fingerprint of the refused key; another key ends the halt
	ProbableReason string       `json:"probableReason"`
	Advice         string       `json:"advice"`
}

// Halts returns the halts of an agency.
func (tx *Tx) Halts(agency string) ([]Halt, error) {
	var all []Halt
	for _, v := range tx.ascend(bucketHalts, prefix(agency), prefix(agency)) {
		all = append(all, decodeJSON[Halt](bucketHalts, v))
	}
	return all, nil
}

// PutHalt remembers a halt.
func (tx *Tx) PutHalt(agency string, h Halt) error {
	return tx.putJSON(bucketHalts, haltKey(agency, h), h)
}

// DeleteHalt forgets a halt.
func (tx *Tx) DeleteHalt(agency string, h Halt) error {
	return tx.delete(bucketHalts, haltKey(agency, h))
}

func haltKey(agency string, h Halt) []byte { return key(agency, string(h.Scope), h.Reference) }
