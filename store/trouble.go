package store

import "time"

// Trouble is something that fails: an operation of an agency, one insertion, a key, the base URL. It is remembered so that
// a restart asks no sooner than the process before it would have.
type Trouble struct {
	Scope    string    `json:"scope"`            // the poller's word for what fails
	Name     string    `json:"name,omitempty"`   // which one: a reference, the fingerprint of a key
	Failures int       `json:"failures"`         // in a row
	Since    time.Time `json:"since"`            // the first of them
	Until    time.Time `json:"until"`            // nothing is asked before
	Told     bool      `json:"told,omitempty"`   // an event has said that it goes on
	Status   int       `json:"status,omitempty"` // of the last answer, 0 if there was none
	Body     string    `json:"body,omitempty"`   // kind of its body, in the words of access.halted
	Key      string    `json:"key,omitempty"`    // fingerprint of the key that was shown
	Last     string    `json:"last,omitempty"`   // which one failed last, where several share the trouble
}

// Troubles returns the troubles of an agency.
func (tx *Tx) Troubles(agency string) ([]Trouble, error) {
	var all []Trouble
	for _, v := range tx.ascend(bucketTroubles, prefix(agency), prefix(agency)) {
		all = append(all, decodeJSON[Trouble](bucketTroubles, v))
	}
	return all, nil
}

// PutTrouble remembers a trouble of an agency; there is one of each scope and name.
func (tx *Tx) PutTrouble(agency string, t Trouble) error {
	return tx.putJSON(bucketTroubles, key(agency, t.Scope, t.Name), t)
}

// DeleteTrouble forgets a trouble that has ended.
func (tx *Tx) DeleteTrouble(agency string, t Trouble) error {
	return tx.delete(bucketTroubles, key(agency, t.Scope, t.Name))
}
