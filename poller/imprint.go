package poller

import (
	"doorbell/poller/listings"
	"doorbell/store"
)

// imprint is what identity is made of, of the contact requests of one answer, in its order. An answer is judged several
// times, once before it is known that something must be written: it is read only once for that.
type imprint struct {
	fingerprints [][16]byte
	digests      []store.Short // empty: not made
	rules        uint32        // that made the digests
}

func newImprint(reference string, requests []listings.ContactRequest) *imprint {
	m := &imprint{fingerprints: make([][16]byte, len(requests))}
	for i, r := range requests {
		m.fingerprints[i] = r.Fingerprint(reference)
	}
	return m
}

// digested returns the digests under rules of the same requests.
func (m *imprint) digested(requests []listings.ContactRequest, rules rules) []store.Short {
	if m.digests != nil && m.rules == rules.contactRequest {
		return m.digests
	}
	m.rules, m.digests = rules.contactRequest, make([]store.Short, len(requests))
	for i, r := range requests {
		m.digests[i] = contactDigest(r, rules)
	}
	return m.digests
}
