package watch

import (
	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// unchanged identifies the contact requests of a response by their ids alone. That is enough where each of them is known by its id,
// and reads as it did: then persons and texts, by which the others are recognised, are as they were, too.
func unchanged(requests []listings.ContactRequest, known []store.ContactRequest, rules Rules) (found []identified, all bool) {
	byID := make(map[string]*store.ContactRequest, len(known))
	for n := range known {
		byID[known[n].Given()] = &known[n]
	}
	field := ""
	for n := range requests {
		f := identified{ContactRequest: &requests[n], identity: events.IdentityID}
		named := ""
		for _, named = range rules.ids {
			if f.id = boundedID(f.ID(named)); f.id != "" {
				break
			}
		}
		if n == 0 {
			field = named
		}
		k := byID[f.id]
		if f.id == "" || named != field || k == nil || k.Nameless || k.Redacted || k.Rules != rules.contactRequest {
			return nil, false
		}
		f.fingerprint, f.content, f.digest = k.Fingerprint, k.Content, contactDigest(requests[n], rules)
		if f.digest != k.Digest || !f.CreatedAt.Equal(k.CreatedAt) {
			return nil, false
		}
		delete(byID, f.id) // another one with this id is not known by it
		found = append(found, f)
	}
	return found, true
}
