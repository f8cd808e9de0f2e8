package store

import (
	"encoding/json"
	"fmt"
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
	err := tx.scan(bucketHalts, prefix(agency), func(_, v []byte) error {
		var h Halt
		if err := json.Unmarshal(v, &h); err != nil {
			return fmt.Errorf("%w: halt of %s", ErrDamaged, agency)
		}
		all = append(all, h)
		return nil
	})
	return all, err
}

// PutHalt remembers a halt.
func (tx *Tx) PutHalt(agency string, h Halt) error {
	v, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return tx.bucket(bucketHalts).Put(haltKey(agency, h), v)
}

// DeleteHalt forgets a halt.
func (tx *Tx) DeleteHalt(agency string, h Halt) error {
	return tx.bucket(bucketHalts).Delete(haltKey(agency, h))
}

func haltKey(agency string, h Halt) []byte { return key(agency, string(h.Scope), h.Reference) }
