package store

import (
	"cmp"
	"encoding/hex"
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
	// since when the person's fields are null or empty; zero: they are not, or it is Redacted
	Emptied time.Time `json:"m,omitzero"`
	// it has no id of the API: ID is made of what it was when it was learned
	Nameless bool    `json:"n,omitzero"`
	Redacted bool    `json:"x,omitzero"`
	Fields   []Field `json:"-"` // that held the person; see contactRequests
}

// AgainID is the id under which a contact request is remembered that bears the same id as another
// one: APIs give ids again.
func AgainID(id string, fingerprint Short) string {
	return id + "~" + hex.EncodeToString(fingerprint[:])
}

// Given is the id that the API gave.
func (c ContactRequest) Given() string {
	n := strings.LastIndexByte(c.ID, '~')
	if again, err := hex.DecodeString(c.ID[n+1:]); n < 0 || err != nil ||
		len(again) != len(c.Fingerprint) {
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

// contactRequests is the value of one insertion: its contact requests by id. Most of them have the
// same fields, which are written once.
type contactRequests struct {
	Forms [][]Field           `json:"f,omitempty"`
	List  []contactRequestRow `json:"l"`
}

type contactRequestRow struct {
	ContactRequest
	Form int `json:"k,omitzero"` // from 1; 0: it has no fields
}

// ContactRequests returns all contact requests remembered of an insertion, by id. They share their
// Fields.
func (tx *Tx) ContactRequests(agency, reference string) []ContactRequest {
	v := tx.get(bucketContacts, key(agency, reference))
	if v == nil {
		return nil
	}
	return decodeContactRequests(v)
}

func decodeContactRequests(payload []byte) []ContactRequest {
	v := decodeJSON[contactRequests](bucketContacts, payload)
	all := make([]ContactRequest, len(v.List))
	for n, row := range v.List {
		all[n] = row.ContactRequest
		if row.Form < 0 || row.Form > len(v.Forms) {
			panic(unreadable(bucketContacts))
		}
		if row.Form > 0 {
			all[n].Fields = v.Forms[row.Form-1]
		}
	}
	return all
}

// PutContactRequests remembers contact requests of an insertion, beside those that it has.
func (tx *Tx) PutContactRequests(agency, reference string, puts ...ContactRequest) error {
	all := tx.ContactRequests(agency, reference)
	place := make(map[string]int, len(all))
	for n, c := range all {
		place[c.ID] = n
	}
	for _, c := range puts {
		n, known := place[c.ID]
		if !known {
			n, all = len(all), append(all, ContactRequest{})
			place[c.ID] = n
		}
		all[n] = c
	}
	slices.SortFunc(all, func(a, b ContactRequest) int { return cmp.Compare(a.ID, b.ID) })
	v := contactRequests{List: make([]contactRequestRow, len(all))}
	for n, c := range all {
		inMillis(&c.CreatedAt, &c.Emptied)
		v.List[n] = contactRequestRow{c, v.form(c.Fields[:min(len(c.Fields), maxFields)])}
	}
	return tx.putJSON(bucketContacts, key(agency, reference), v)
}

// form is the number of a list of fields, which is added if it is new. Of the many that have been
// written most have one of the last.
func (v *contactRequests) form(fields []Field) int {
	if len(fields) == 0 {
		return 0
	}
	for n := len(v.Forms) - 1; n >= max(0, len(v.Forms)-formsCompared); n-- {
		if slices.Equal(v.Forms[n], fields) {
			return n + 1
		}
	}
	v.Forms = append(v.Forms, fields)
	return len(v.Forms)
}

// formsCompared bounds the time that an API takes whose contact requests all have other fields.
const formsCompared = 20
