package store

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// ContactRequest is what is remembered of one contact request: enough to know it again and to say
// what changed, and nothing that the person wrote. The names of members are short because there are
// many of these.
type ContactRequest struct {
	ID          string    `json:"i"` // of one that bears an id that was given before: see AgainID
	Fingerprint Short     `json:"f,omitzero"`
	Content     Short     `json:"c,omitzero"` // of what the person wrote; zero: nothing
	Other       Short     `json:"o,omitzero"` // of a member that may be an id as well; zero: none
	Digest      Short     `json:"d,omitzero"`
	Rules       uint32    `json:"r,omitzero"` // the rules that made Digest
	Epoch       int       `json:"e,omitzero"` // the insertion's Epoch when it was learned
	Revision    int       `json:"v,omitzero"`
	CreatedAt   time.Time `json:"t,omitzero"` // zero if unknown
	Emptied     time.Time `json:"m,omitzero"` // since when the person's fields are null or empty; zero: they are not, or it is Redacted
	Nameless    bool      `json:"n,omitzero"` // it has no id of the API: ID is made of what it was when it was learned
	Redacted    bool      `json:"x,omitzero"`
	Fields      []Field   `json:"w,omitempty"` // that held the person
}

// AgainID is the id under which a contact request is remembered that bears the same id as another
// one: APIs give ids again.
func AgainID(id string, fingerprint Short) string {
	return id + "~" + hex.EncodeToString(fingerprint[:])
}

// Given is the id that the API gave.
func (c ContactRequest) Given() string {
	n := strings.LastIndexByte(c.ID, '~')
	if again, err := hex.DecodeString(c.ID[n+1:]); n < 0 || err != nil || len(again) != len(c.Fingerprint) {
		return c.ID
	}
	return c.ID[:n]
}

// Short is the beginning of a hash. Those of one insertion are compared with each other only, so it
// is long enough.
type Short [8]byte

// Field is one named field of a contact request that held the person.
type Field struct {
	Name  string `json:"n"`
	Empty bool   `json:"e,omitzero"` // it is null or empty now
}

// maxFields bounds what a hostile API can make us remember of one contact request. Fields beyond it
// are left out.
const maxFields = 500

// ContactRequests returns all contact requests remembered of an insertion, by id.
func (tx *Tx) ContactRequests(agency, reference string) []ContactRequest {
	all, _ := getJSON[[]ContactRequest](tx, bucketContacts, key(agency, reference))
	return all
}

// PutContactRequests remembers contact requests of an insertion, beside those that it has.
func (tx *Tx) PutContactRequests(agency, reference string, puts ...ContactRequest) error {
	all := map[string]ContactRequest{}
	for _, c := range tx.ContactRequests(agency, reference) {
		all[c.ID] = c
	}
	for _, c := range puts {
		inMillis(&c.CreatedAt, &c.Emptied)
		c.Fields = c.Fields[:min(len(c.Fields), maxFields)]
		all[c.ID] = c
	}
	byID := func(a, b ContactRequest) int { return cmp.Compare(a.ID, b.ID) }
	return tx.putJSON(bucketContacts, key(agency, reference), slices.SortedFunc(maps.Values(all), byID))
}
