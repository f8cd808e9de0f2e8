package events

import (
	"encoding/json"
	"time"
)

// Contact is the person behind a contact request: personal data. What the API did not say is
// absent.
type Contact struct {
	Salutation       string   `json:"salutation,omitempty"`
	Gender           string   `json:"gender,omitempty"`
	FirstName        string   `json:"firstName,omitempty"`
	LastName         string   `json:"lastName,omitempty"`
	FullName         string   `json:"fullName,omitempty"`
	Company          string   `json:"company,omitempty"`
	Email            string   `json:"email,omitempty"`
	Phone            string   `json:"phone,omitempty"`    // E.164
	PhoneRaw         string   `json:"phoneRaw,omitempty"` // as the API sent it
	Address          *Address `json:"address,omitempty"`
	Language         string   `json:"language,omitempty"`
	Message          string   `json:"message,omitempty"`
	PreferredContact string   `json:"preferredContact,omitempty"`
	Portal           string   `json:"portal,omitempty"`
}

// People says what of a person goes into events. The zero value is full.
type People string

// What of a person goes into events.
const (
	PeopleFull    People = "full"    // all that the API says
	PeopleContact People = "contact" // no message, and no record, which holds it
	PeopleNone    People = "none"    // an empty contact, and no record
)

// Address is where a person lives.
type Address struct {
	Street     string `json:"street,omitempty"`
	PostalCode string `json:"postalCode,omitempty"`
	Locality   string `json:"locality,omitempty"`
	Country    string `json:"country,omitempty"`
}

// Identity says what tells one contact request from another: the API's id, or a fingerprint of its
// content.
type Identity string

// The two identities.
const (
	IdentityID          Identity = "id"
	IdentityFingerprint Identity = "fingerprint"
)

// ContactRequestCreated: a person wrote about an insertion.
type ContactRequestCreated struct {
	Common
	// the person was taken out; see Event.Erase
	Erased              bool      `json:"erased,omitempty"`
	PropertyReferenceID string    `json:"propertyReferenceId"`
	ContactRequestID    string    `json:"contactRequestId"`
	Identity            Identity  `json:"identity"`
	CreatedAt           time.Time `json:"createdAt,omitzero"`
	// as the API sent it: number, text or null; absent if absent
	Score     json.RawMessage  `json:"score,omitempty"`
	Contact   Contact          `json:"contact"`
	Insertion InsertionSummary `json:"insertion"` // last known
	// what is wrong with the record, in fixed words
	Defects []string        `json:"defects,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
}

// ContactRequestChanged: a known contact request differs in more than its score. It holds the
// record as it is now: old values are personal data and are not kept.
type ContactRequestChanged struct {
	Common
	// the person was taken out; see Event.Erase
	Erased              bool             `json:"erased,omitempty"`
	PropertyReferenceID string           `json:"propertyReferenceId"`
	ContactRequestID    string           `json:"contactRequestId"`
	Identity            Identity         `json:"identity"`
	CreatedAt           time.Time        `json:"createdAt,omitzero"`
	Score               json.RawMessage  `json:"score,omitempty"`
	Contact             Contact          `json:"contact"`
	Insertion           InsertionSummary `json:"insertion"`
	// what is wrong with the record, in fixed words
	Defects  []string        `json:"defects,omitempty"`
	Record   json.RawMessage `json:"record,omitempty"`
	Revision int             `json:"-"` // part of the id
	Digest   [32]byte        `json:"-"` // of the new record; part of the id
}

// ContactRequestRedacted: person fields were turned to null; receivers erase them too.
type ContactRequestRedacted struct {
	Common
	PropertyReferenceID string    `json:"propertyReferenceId"`
	ContactRequestID    string    `json:"contactRequestId"`
	Identity            Identity  `json:"identity"`
	RedactedFields      []string  `json:"redactedFields"`
	CreatedAt           time.Time `json:"createdAt,omitzero"`
	Revision            int       `json:"-"` // part of the id
	Digest              [32]byte  `json:"-"` // of the new record; part of the id
}

// The id of a new contact request hashes its creation time to the second, where it is known: APIs
// give ids again.
func (p *ContactRequestCreated) facts() facts {
	f := identified(TypeContactRequestCreated, p.PropertyReferenceID, p.ContactRequestID)
	if f.time = p.CreatedAt; !f.time.IsZero() {
		f.identity = append(f.identity, f.time.UTC().Format(time.RFC3339))
	}
	return f
}

func (p *ContactRequestChanged) facts() facts {
	return identified(TypeContactRequestChanged, p.PropertyReferenceID,
		p.ContactRequestID, p.Revision, p.Digest)
}

func (p *ContactRequestRedacted) facts() facts {
	return identified(TypeContactRequestRedacted, p.PropertyReferenceID,
		p.ContactRequestID, p.Revision, p.Digest)
}
