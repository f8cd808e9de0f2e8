package poller

import (
	"doorbell/poller/listings"
	"doorbell/store"
)

// imprint is what identity is made of, of the contact requests of one answer, in its order. An answer may be judged several
// times: what is read of its records is read only once for that, and only where somebody wants to know.
type imprint struct {
	reference    string
	requests     []listings.ContactRequest
	fingerprints [][16]byte     // zero: not made
	shorts       []store.Short  // of those that are remembered just as they are; zero: is not
	remembered   map[string]int // places of all that are remembered, by id
	digests      []store.Short  // nil: not made
	rules        uint32         // that made the digests
	ids          []string       // nil: not read
	field        string         // that the ids were read from
}

func newImprint(reference string, requests []listings.ContactRequest) *imprint {
	n := len(requests)
	return &imprint{reference: reference, requests: requests, fingerprints: make([][16]byte, n), shorts: make([]store.Short, n)}
}

// fingerprint returns the whole fingerprint of a contact request.
func (m *imprint) fingerprint(n int) [16]byte {
	if m.fingerprints[n] == [16]byte{} {
		m.fingerprints[n] = m.requests[n].Fingerprint(m.reference)
	}
	return m.fingerprints[n]
}

// short returns what is remembered of the fingerprint of a contact request.
func (m *imprint) short(n int) store.Short {
	if m.shorts[n] != (store.Short{}) {
		return m.shorts[n]
	}
	return short(m.fingerprint(n))
}

// digested returns the digests under rules.
func (m *imprint) digested(rules rules) []store.Short {
	if m.digests != nil && m.rules == rules.contactRequest {
		return m.digests
	}
	m.rules, m.digests = rules.contactRequest, make([]store.Short, len(m.requests))
	for i := range m.requests {
		m.digests[i] = contactDigest(m.requests[i], rules)
	}
	return m.digests
}

// identified returns what a member says as an id, empty where there is none.
func (m *imprint) identified(field string) []string {
	if m.ids != nil && m.field == field {
		return m.ids
	}
	m.field, m.ids = field, make([]string, len(m.requests))
	for i := range m.requests {
		m.ids[i] = boundedID(m.requests[i].ID(field))
	}
	return m.ids
}

// recognise takes over the fingerprints of those that are remembered under their id just as they are: what digest and time
// of creation agree in has the same. Not where more than the score is left out of digests, or where an erased person may be
// remembered by the fingerprint of before.
func (m *imprint) recognise(s contactsSight, known []store.ContactRequest) {
	clear(m.shorts)
	m.remembered = make(map[string]int, len(known))
	for n := range known {
		m.remembered[known[n].ID] = n
	}
	if s.idField == "" || len(s.rules.ignoreContactRequest) > 0 || len(known) == 0 {
		return
	}
	ids, digests := m.identified(s.idField), m.digested(s.rules)
	for n := range m.requests {
		at, is := m.remembered[ids[n]]
		if !is || ids[n] == "" {
			continue
		}
		r, k := &m.requests[n], &known[at]
		same := k.Digest == digests[n] && k.Rules == s.rules.contactRequest
		if same && !k.Redacted && k.CreatedAt.IsZero() == r.CreatedAt.IsZero() && k.CreatedAt.UnixMilli() == r.CreatedAt.UnixMilli() {
			m.shorts[n] = k.Fingerprint
		}
	}
}
