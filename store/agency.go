package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Agency is what is remembered of an agency as a whole.
type Agency struct {
	// WatchStart is the moment before the first request, in our clock. It never moves.
	WatchStart time.Time `json:"watchStart"`
	// Filter is the API's own filter under which the insertions were read, as a query.
	Filter string `json:"filter,omitempty"`
	// ClockSkew is the API's clock minus ours, once an answer told it.
	ClockSkew time.Duration `json:"clockSkew,omitempty"`
	SkewKnown bool          `json:"skewKnown,omitempty"`

	// Baselined: from here on what appears is news.
	Baselined bool `json:"baselined,omitempty"`
	// Announced counts insertions announced while baselining.
	Announced int `json:"announced,omitempty"`
	// CompleteWalks counts complete walks; LastCompleteWalk is when the last of them began.
	CompleteWalks    int       `json:"completeWalks,omitempty"`
	LastCompleteWalk time.Time `json:"lastCompleteWalk,omitzero"`
	// PartialWalks counts walks in a row that stayed partial for PartialReason, a reason in the API's structure.
	PartialWalks  int    `json:"partialWalks,omitempty"`
	PartialReason string `json:"partialReason,omitempty"`

	// IdentityLearned: IDField is decided. An empty IDField then means that contact requests have no usable id.
	IdentityLearned bool     `json:"identityLearned,omitempty"`
	IDField         string   `json:"idField,omitempty"`
	RefusedIDFields []string `json:"refusedIdFields,omitempty"`
	// MostReturned is the largest number of contact requests that one answer held.
	MostReturned int `json:"mostReturned,omitempty"`

	// Held is a change too large to believe at once; nil if there is none.
	Held *Held `json:"held,omitempty"`
}

// Held is a change that waits to be believed.
type Held struct {
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Missing int       `json:"missing"`
	Known   int       `json:"known"`
}

// Agency returns what is remembered of an agency, and whether anything is.
func (tx *Tx) Agency(id string) (Agency, bool, error) {
	v := tx.tx.Bucket(bucketAgencies).Get([]byte(id))
	if v == nil {
		return Agency{}, false, nil
	}
	var a Agency
	if err := json.Unmarshal(v, &a); err != nil {
		return Agency{}, false, fmt.Errorf("%w: agency %s", ErrDamaged, id)
	}
	return a, true, nil
}

// PutAgency remembers an agency.
func (tx *Tx) PutAgency(id string, a Agency) error {
	v, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return tx.tx.Bucket(bucketAgencies).Put([]byte(id), v)
}

// Agencies lists the agencies that the store knows, in order; also those that are no longer configured.
func (s *Store) Agencies() ([]string, error) {
	var ids []string
	err := s.View(func(tx *Tx) error {
		return tx.tx.Bucket(bucketAgencies).ForEach(func(k, _ []byte) error {
			ids = append(ids, string(k))
			return nil
		})
	})
	return ids, err
}
