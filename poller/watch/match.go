package watch

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// match is a contact request of an answer with what is known of it.
type match struct {
	found *identified
	k     *store.ContactRequest
	known bool
	twin  bool // known as one with another of the same answer, which stands for both
}

// matchKnown finds known contact requests again: by id; by the id that they had under other settings; and by fingerprint,
// which counts only while the id that was known with it is missing from the same answer, so that a double click with two
// ids stays two. Where there are no ids, one whose person was erased is known by its time, and one whose time is read in
// another way than before by its record. The order of matches is that of found.
func matchKnown(found []identified, known []store.ContactRequest) []match {
	m := matcher{list: make([]match, len(found)), present: make([]bool, len(known)), byFingerprint: map[store.Short][]store.ContactRequest{}}
	m.byIDs(found, known)
	for n, present := range m.present {
		if k := &known[n]; !present {
			m.byFingerprint[k.Fingerprint] = append(m.byFingerprint[k.Fingerprint], *k)
		}
	}
	if len(m.byFingerprint) == 0 {
		return m.list // whatever is not known yet is new
	}
	for _, group := range m.unknown() {
		m.byContent(group)
	}
	m.byTime(known)
	m.byRecord(known)
	return m.list
}

// matcher is what matchKnown has found so far.
type matcher struct {
	list          []match
	present       []bool // known ones that the answer holds
	byFingerprint map[store.Short][]store.ContactRequest
}

// byIDs finds those that have an id now that they had before, or had under other settings.
func (m *matcher) byIDs(found []identified, known []store.ContactRequest) {
	places := make(map[string]int, len(known))
	for n := range known {
		places[known[n].ID] = n
	}
	for n := range found {
		m.list[n].found = &found[n]
		if at, ok := places[found[n].id]; ok {
			m.find(n, known, at)
		}
	}
	for n := range found {
		for _, id := range found[n].past {
			if at, ok := places[id]; ok && !m.list[n].known && !m.present[at] && alike(known[at], found[n]) {
				m.find(n, known, at)
			}
		}
	}
}

// find notes that one of the answer is a known one.
func (m *matcher) find(n int, known []store.ContactRequest, at int) {
	m.list[n].k, m.list[n].known = &known[at], true
	m.present[at] = true
}

// alike guards against another member that counts from one, too.
func alike(k store.ContactRequest, f identified) bool {
	return k.Fingerprint == f.fingerprint || !f.CreatedAt.IsZero() && k.CreatedAt.UnixMilli() == f.CreatedAt.UnixMilli()
}

// unknown groups what is not known yet by fingerprint, the newest of each group first.
func (m *matcher) unknown() map[store.Short][]*match {
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
func (m *matcher) byContent(group []*match) {
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
			k := missing[n]
			one.k, one.known = &k, true
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
			one.k, one.known, one.twin = nameless, true, true
		}
	}
}

// isNameless says whether a contact request was known without an id: its fingerprint was taken for one.
func isNameless(k store.ContactRequest) bool {
	return len(k.ID) == 32 && strings.HasPrefix(k.ID, hex.EncodeToString(k.Fingerprint[:]))
}

// byTime finds those without an id, or that were known without one, whose person was erased.
func (m *matcher) byTime(known []store.ContactRequest) {
	for n := range m.list {
		one := m.list[n]
		if one.known || one.found.CreatedAt.IsZero() {
			continue
		}
		for at := range known {
			k := &known[at]
			if m.present[at] || k.CreatedAt.UnixMilli() != one.found.CreatedAt.UnixMilli() || m.shows(k.Fingerprint) ||
				one.found.identity == events.IdentityID && !isNameless(*k) || !anonymous(*one.found.ContactRequest) {
				continue
			}
			m.find(n, known, at)
			break
		}
	}
}

// shows says whether the answer holds one with a fingerprint.
func (m *matcher) shows(fingerprint store.Short) bool {
	return slices.ContainsFunc(m.list, func(one match) bool { return one.found.fingerprint == fingerprint })
}

// byRecord finds those without an id whose record is the same, and whose time was or is unreadable, or in another zone.
func (m *matcher) byRecord(known []store.ContactRequest) {
	for n := range m.list {
		one := &m.list[n]
		if one.known || one.found.identity == events.IdentityID {
			continue
		}
		for at := range known {
			k := &known[at]
			if k.Digest == one.found.digest && !m.present[at] && sameReading(k.CreatedAt, one.found.CreatedAt) {
				m.find(n, known, at)
				break
			}
		}
	}
}

// sameReading says whether two times may be readings of one text.
func sameReading(a, b time.Time) bool {
	return a.IsZero() != b.IsZero() || a.Sub(b)%(15*time.Minute) == 0 && a.Sub(b).Abs() <= 26*time.Hour
}

// Unfit says why a member that was taken for the id is none. It is empty if there is nothing to say against it.
func Unfit(field string, prints *Identities, known []store.ContactRequest) (why string) {
	if field == "" {
		return ""
	}
	if why = shared(field, prints); why == "" && moved(field, prints, known) {
		why = "another for the same contact request, and its own for one more"
	}
	return why
}

// moved says whether an id that is known stands for another contact request now, while the one that had it stands beside
// with another: then it counts places.
func moved(field string, prints *Identities, known []store.ContactRequest) bool {
	was := make(map[string]store.Short, len(known))
	for n := range known {
		was[known[n].ID] = known[n].Fingerprint
	}
	same := true
	for n, id := range prints.identified(field) {
		fingerprint, is := was[id]
		same = same && (!is || fingerprint == prints.short(n))
	}
	if same {
		return false
	}
	ids := make(map[string]store.Short, len(prints.requests))
	byContent := make(map[store.Short]string, len(prints.requests))
	for n, id := range prints.identified(field) {
		fingerprint := prints.short(n)
		ids[id], byContent[fingerprint] = fingerprint, id
	}
	for id, fingerprint := range was {
		now, shown := ids[id]
		other, beside := byContent[fingerprint]
		if shown && beside && now != fingerprint && other != id && was[other] != fingerprint {
			return true
		}
	}
	return false
}

// shared says whether several contact requests of one answer share an id, or one is without.
func shared(field string, prints *Identities) string {
	seen := make(map[string]store.Short, len(prints.requests))
	for n, id := range prints.identified(field) {
		if id == "" {
			return "absent from a contact request"
		}
		if other, twice := seen[id]; twice && other != prints.short(n) {
			return "the same for several contact requests"
		}
		seen[id] = prints.short(n)
	}
	return ""
}

// Identities is what identity is made of, of the contact requests of one answer, in its order. An answer may be judged several
// times: this is read once.
type Identities struct {
	requests     []listings.ContactRequest
	fingerprints [][16]byte
	ids          []string // nil: not read
	field        string   // that the ids were read from
}

func IdentitiesOf(reference string, requests []listings.ContactRequest) *Identities {
	i := &Identities{requests: requests, fingerprints: make([][16]byte, len(requests))}
	for n := range requests {
		i.fingerprints[n] = requests[n].Fingerprint(reference)
	}
	return i
}

// short is what is remembered of the fingerprint of a contact request.
func (i *Identities) short(n int) store.Short { return store.Short(i.fingerprints[n][:8]) }

// identified returns what a member says as an id, empty where there is none.
func (i *Identities) identified(field string) []string {
	if i.ids == nil || i.field != field {
		i.field, i.ids = field, make([]string, len(i.requests))
		for n := range i.requests {
			i.ids[n] = boundedID(i.requests[n].ID(field))
		}
	}
	return i.ids
}

// maxPastIDs bounds how many members are remembered that were the id under other settings.
const maxPastIDs = 8

// Past adds a member that was the id, the last one at the end.
func Past(fields []string, field string) []string {
	if field == "" {
		return fields
	}
	fields = append(slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == field }), field)
	return fields[max(0, len(fields)-maxPastIDs):]
}
