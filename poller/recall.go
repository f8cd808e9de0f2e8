package poller

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// match is a contact request of an answer with what is known of it.
type match struct {
	found identified
	k     store.ContactRequest
	known bool
	twin  bool // known as one with another of the same answer, which stands for both
}

// recall finds known contact requests again: by id; by the id that they had under other settings; and by fingerprint,
// which counts only while the id that was known with it is missing from the same answer, so that a double click with two
// ids stays two. Where there are no ids, one whose person was erased is known by its time, and one whose time is read in
// another way than before by its record. The order of matches is that of found.
func recall(found []identified, known []store.ContactRequest) []match {
	m := memory{list: make([]match, len(found)), byFingerprint: map[store.Short][]store.ContactRequest{}}
	m.byIDs(found, known)
	for _, k := range known {
		if !m.present[k.ID] {
			m.byFingerprint[k.Fingerprint] = append(m.byFingerprint[k.Fingerprint], k)
		}
	}
	for _, group := range m.unknown() {
		m.byContent(group)
	}
	m.byTime(known)
	m.byRecord(known)
	return m.list
}

// memory is what recall has found so far.
type memory struct {
	list          []match
	present       map[string]bool // ids of the answer
	byFingerprint map[store.Short][]store.ContactRequest
}

func (m *memory) byIDs(found []identified, known []store.ContactRequest) {
	all := make(map[string]store.ContactRequest, len(known))
	for _, k := range known {
		all[k.ID] = k
	}
	m.present = make(map[string]bool, len(found))
	for n, f := range found {
		m.present[f.id] = true
		m.list[n].found = f
		m.list[n].k, m.list[n].known = all[f.id]
	}
	for n, f := range found {
		for _, id := range f.past {
			if k, ok := all[id]; ok && !m.list[n].known && !m.present[id] && alike(k, f) {
				m.list[n].k, m.list[n].known = k, true
			}
		}
		if m.list[n].known {
			m.present[m.list[n].k.ID] = true
		}
	}
}

// alike guards against another member that counts from one, too.
func alike(k store.ContactRequest, f identified) bool {
	return k.Fingerprint == f.fingerprint || !f.CreatedAt.IsZero() && k.CreatedAt.UnixMilli() == f.CreatedAt.UnixMilli()
}

// unknown groups what is not known yet by fingerprint, the newest of each group first.
func (m *memory) unknown() map[store.Short][]*match {
	groups := map[store.Short][]*match{}
	for n := range m.list {
		if one := &m.list[n]; !one.known {
			groups[one.found.fingerprint] = append(groups[one.found.fingerprint], one)
		}
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b *match) int {
			return cmp.Or(b.found.CreatedAt.Compare(a.found.CreatedAt), bytes.Compare(b.found.digest[:], a.found.digest[:]), cmp.Compare(a.found.id, b.found.id))
		})
	}
	return groups
}

// byContent gives every one of a group the known one with its fingerprint that looks most like it. One that was known
// without an id stands for all of them: that is what it was told as.
func (m *memory) byContent(group []*match) {
	missing := m.byFingerprint[group[0].found.fingerprint]
	if len(missing) == 0 {
		return
	}
	var nameless *store.ContactRequest
	for _, k := range missing {
		if isNameless(k) {
			nameless = &k
		}
	}
	take := func(one *match, fits func(store.ContactRequest) bool) {
		if n := slices.IndexFunc(missing, fits); n >= 0 && !one.known {
			one.k, one.known = missing[n], true
			missing = slices.Delete(missing, n, n+1)
		}
	}
	missing = slices.Clone(missing)
	for _, one := range group {
		take(one, func(k store.ContactRequest) bool { return k.Digest == one.found.digest })
	}
	for _, one := range group {
		take(one, func(store.ContactRequest) bool { return true })
		if !one.known && nameless != nil {
			one.k, one.known, one.twin = *nameless, true, true
		}
	}
}

// isNameless says whether a contact request was known without an id: its fingerprint was taken for one.
func isNameless(k store.ContactRequest) bool {
	return len(k.ID) == 32 && strings.HasPrefix(k.ID, hex.EncodeToString(k.Fingerprint[:]))
}

// byTime finds those without an id, or that were known without one, whose person was erased.
func (m *memory) byTime(known []store.ContactRequest) {
	shown := make(map[store.Short]bool, len(m.list))
	for _, one := range m.list {
		shown[one.found.fingerprint] = true
	}
	for n := range m.list {
		one := &m.list[n]
		if one.known || one.found.CreatedAt.IsZero() || !anonymous(one.found.ContactRequest) {
			continue
		}
		for _, k := range known {
			if one.found.identity == events.IdentityID && !isNameless(k) {
				continue
			}
			if !shown[k.Fingerprint] && !m.present[k.ID] && k.CreatedAt.UnixMilli() == one.found.CreatedAt.UnixMilli() {
				one.k, one.known = k, true
				m.present[k.ID] = true
				break
			}
		}
	}
}

// byRecord finds those without an id whose record is the same, and whose time was or is unreadable, or in another zone.
func (m *memory) byRecord(known []store.ContactRequest) {
	for n := range m.list {
		one := &m.list[n]
		if one.known || one.found.identity == events.IdentityID {
			continue
		}
		for _, k := range known {
			if k.Digest == one.found.digest && !m.present[k.ID] && sameReading(k.CreatedAt, one.found.CreatedAt) {
				one.k, one.known = k, true
				m.present[k.ID] = true
				break
			}
		}
	}
}

// sameReading says whether two times may be readings of one text.
func sameReading(a, b time.Time) bool {
	return a.IsZero() != b.IsZero() || a.Sub(b)%(15*time.Minute) == 0 && a.Sub(b).Abs() <= 26*time.Hour
}
