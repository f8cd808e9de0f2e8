package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"doorbell/events"
	"doorbell/poller/listings"
)

// These change with everything in the code that makes equal records give other digests. Each has its own: a change that
// comes with a renewal is not told.
const (
	insertionRules      = 2
	contactRequestRules = 3
)

// Rules is what makes a digest: digests of other rules are renewed at the next reading, silently.
type Rules struct {
	ignoreInsertion      []string
	ignoreContactRequest []string // beside the score
	insertion            uint32   // names the rules of insertions
	contactRequest       uint32   // names the rules of contact requests
	fields               int      // counts the drifts of the members of contact requests
}

func NewRules(ignoreInsertion, ignoreContactRequest []string) Rules {
	return Rules{
		ignoreInsertion: ignoreInsertion, ignoreContactRequest: ignoreContactRequest,
		insertion: rulesID(insertionRules, ignoreInsertion), contactRequest: rulesID(contactRequestRules, ignoreContactRequest),
	}
}

// After are the rules of an agency whose contact requests drifted that often: all of their digests are renewed.
func (r Rules) After(drifts int) Rules {
	if r.fields = drifts; drifts > 0 {
		r.contactRequest = rulesID(contactRequestRules, slices.Concat([]string{"/score"}, r.ignoreContactRequest, []string{strconv.Itoa(drifts)}))
	}
	return r
}

func rulesID(version int, ignored []string) uint32 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", version, ignored))
	return binary.BigEndian.Uint32(sum[:4])
}

// insertionSummary says in the words of an event what listings read.
func insertionSummary(s listings.Summary) events.InsertionSummary {
	return events.InsertionSummary{
		Title: s.Title, Street: s.Street, PostalCode: s.PostalCode, Locality: s.Locality,
		OfferType: s.OfferType, RankType: s.RankType, Rooms: s.Rooms, LivingSpace: s.LivingSpace,
		Price: (*events.Price)(s.Price), URL: s.URL,
	}
}

// contact says in the words of an event what listings read of a person.
func contact(c listings.Contact) events.Contact {
	return events.Contact{
		Salutation: c.Salutation, Gender: c.Gender, FirstName: c.FirstName, LastName: c.LastName, FullName: c.FullName,
		Company: c.Company, Email: c.Email, Phone: c.Phone, PhoneRaw: c.PhoneRaw, Address: (*events.Address)(c.Address),
		Language: c.Language, Message: c.Message, PreferredContact: c.PreferredContact, Portal: c.Portal,
	}
}
