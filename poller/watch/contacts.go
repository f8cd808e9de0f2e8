package watch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Answer is one answer of the contact requests of an insertion, and what was asked.
type Answer struct {
	Requests   []listings.ContactRequest
	Asked      int    // numberOfItemsPerPage
	SortBy     string // createdAt or score
	Descending bool
	Total      int // -1 if the API did not say
	Unreadable int // elements of the answer that could not be read
	Identities *Identities
	Identified bool // it was tried to decide which member identifies them, as far as possible
}

// contactsDiff is what one answer changes.
type contactsDiff struct {
	Puts     []store.ContactRequest
	Events   []events.Payload
	ids      []string             // of the answer, in its order
	times    map[string]time.Time // creation times of the answer by id; zero where unreadable
	recalled map[string]bool      // what is remembered of the insertion and stands in the answer, by the id in the store
	before   []time.Time          // creation times of those in the answer that were learned before this catch-up
	fresh    []time.Time          // creation times of those that were not
	Since    map[string]time.Time // the same by the id in the store, each once
	New      int                  // contact requests that were known by neither id nor fingerprint
	Drift    Drift                // of the members of contact requests
	Fields   int                  // drifts of the agency, this one included
}

// contactsObservation is the circumstances of one answer.
type contactsObservation struct {
	Observation
	Insertion store.Insertion
	Summary   events.InsertionSummary
	People    events.People
	IDField   string        // empty: contact requests have no usable id
	PastIDs   []string      // members that were the id under other settings
	NoIDs     []string      // members that turned out to be none
	Skew      time.Duration // the API's clock minus ours
	Rules     Rules
	Names     []string             // fields that the agency's contact requests ever had
	Drifts    map[string]time.Time // remembered
}

// diffContactRequests compares an answer with the contact requests that are known of its insertion. It is a pure
// function. New is what is known by neither its id nor its fingerprint; a known fingerprint counts only while its id is
// missing from the same answer, so that a double click with two ids stays two.
func diffContactRequests(s contactsObservation, known []store.ContactRequest, a Answer) contactsDiff {
	if a.Identities == nil {
		a.Identities = IdentitiesOf(s.Insertion.Reference, a.Requests)
	}
	found := identify(s, a)
	d := contactsDiff{times: make(map[string]time.Time, len(found)), recalled: make(map[string]bool, len(found)), Since: map[string]time.Time{}}
	d.ids = make([]string, len(found))
	for n := range found {
		f := &found[n]
		d.ids[n], d.times[f.id] = f.id, f.CreatedAt
	}
	matches := matchKnown(found, known)
	d.judgeFields(s, matches)
	judged := s.Rules.contactRequest
	s.Rules = s.Rules.after(d.Fields)
	for n := range matches {
		m := &matches[n]
		d.place(s, m)
		switch {
		case !m.known:
			d.add(s, *m.found)
			d.New++
		case !m.twin:
			d.update(s, judged, *m.k, *m.found)
		}
	}
	return d
}

// place notes of a contact request whether it was learned before this catch-up.
func (d *contactsDiff) place(s contactsObservation, m *match) {
	if m.known {
		d.recalled[m.k.ID] = true
	}
	if m.known && m.k.Epoch < s.Insertion.Epoch {
		d.before = append(d.before, m.found.CreatedAt)
		return
	}
	d.fresh = append(d.fresh, m.found.CreatedAt)
	id := m.found.id
	if m.known {
		id = m.k.ID
	}
	d.Since[id] = m.found.CreatedAt
}

// anonymous says whether nothing is left that a fingerprint is made of but the time.
func anonymous(r listings.ContactRequest) bool {
	c := r.Contact()
	return c.Email == "" && c.PhoneRaw == "" && c.Message == ""
}

// identified is a contact request of an answer with its identity.
type identified struct {
	*listings.ContactRequest
	id          string
	past        []string // what it was called under other settings
	identity    events.Identity
	fingerprint store.Short
	digest      store.Short
}

// identify gives every contact request its id. Where an answer holds an id twice, the newest by time, then by digest,
// stands for it.
func identify(s contactsObservation, a Answer) []identified {
	ids := a.Identities.identified(s.IDField)
	place := make(map[string]int, len(a.Requests))
	found := make([]identified, 0, len(a.Requests))
	for n := range a.Requests {
		r := &a.Requests[n]
		f := identified{ContactRequest: r, id: ids[n], identity: events.IdentityID, fingerprint: a.Identities.short(n), digest: contactDigest(*r, s.Rules)}
		if f.id == "" {
			f.id, f.identity = hex.EncodeToString(a.Identities.fingerprints[n][:]), events.IdentityFingerprint
		}
		for _, field := range s.PastIDs {
			if id := boundedID(r.ID(field)); id != "" && field != s.IDField {
				f.past = append(f.past, id)
			}
		}
		i, twice := place[f.id]
		if !twice {
			place[f.id] = len(found)
			found = append(found, f)
			continue
		}
		if newer(f, found[i]) {
			found[i] = f
		}
	}
	return found
}

func newer(a, b identified) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) {
		return a.CreatedAt.After(b.CreatedAt)
	}
	return bytes.Compare(a.digest[:], b.digest[:]) > 0
}

// boundedID keeps an id fit to be a key and part of a message: a very long or unprintable one is replaced by its hash.
func boundedID(id string) string {
	odd := func(r rune) bool { return r < 0x20 || r == 0x7f }
	if len(id) <= 128 && !strings.ContainsFunc(id, odd) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

func contactDigest(r listings.ContactRequest, rules Rules) store.Short {
	digest := r.Digest(rules.ignoreContactRequest)
	return store.Short(digest[:8])
}

// add remembers a contact request that was not known and announces it unless it is old.
func (d *contactsDiff) add(s contactsObservation, f identified) {
	d.Puts = append(d.Puts, store.ContactRequest{
		ID: f.id, Fingerprint: f.fingerprint, Digest: f.digest, Rules: s.Rules.contactRequest,
		Epoch: s.Insertion.Epoch, CreatedAt: f.CreatedAt, Fields: fields(*f.ContactRequest, s.Rules),
	})
	origin := events.OriginLive
	if isOld(s.Insertion, *f.ContactRequest, s.Skew) {
		origin = events.OriginBaseline
		if !s.Emit {
			return
		}
	}
	common, contact, record := s.person(origin, f)
	d.Events = append(d.Events, &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: s.Insertion.Reference, ContactRequestID: f.id, Identity: f.identity,
		CreatedAt: f.CreatedAt, Score: f.Score, Contact: contact, Insertion: s.Summary, Defects: f.Defects, Record: record,
	})
}

// person is what events say of the person behind a contact request. All else is made of the whole answer, whatever they say.
func (s contactsObservation) person(origin events.Origin, f identified) (common events.Common, c events.Contact, record json.RawMessage) {
	common, c, record = s.common(origin), contact(f.Contact()), f.Record
	switch s.People {
	case events.PeopleNone:
		common.Truncated, c, record = true, events.Contact{}, nil
	case events.PeopleContact:
		common.Truncated, c.Message, record = true, "", nil
	}
	return common, c, record
}

// isOld says whether an unknown contact request was there before we began to watch its insertion. Without a readable time
// it is taken for live, except at the first poll of what was there before us.
func isOld(i store.Insertion, r listings.ContactRequest, skew time.Duration) bool {
	if r.CreatedAt.IsZero() {
		return i.Baseline && !i.Polled
	}
	start := i.Start.Add(skew)
	if r.Minutes && !i.Polled {
		start = start.Truncate(time.Minute) // what was made in the minute of the begin is live
	}
	return r.CreatedAt.Before(start)
}

// update compares a known contact request with what was read of it. judged are the rules before a drift of this answer.
func (d *contactsDiff) update(s contactsObservation, judged uint32, k store.ContactRequest, f identified) {
	renewed := renewFingerprint(&k, f)
	if k.Digest == f.digest && k.Rules == s.Rules.contactRequest {
		if renewed {
			d.Puts = append(d.Puts, k)
		}
		return
	}
	if emptied := redacted(k.Fields, *f.ContactRequest); len(emptied) > 0 {
		k.Redacted = true
		k.Revision++
		k.Digest, k.Rules, k.Fields = f.digest, s.Rules.contactRequest, empty(k.Fields, emptied)
		d.Puts = append(d.Puts, k)
		d.Events = append(d.Events, &events.ContactRequestRedacted{
			Common: s.common(events.OriginLive), PropertyReferenceID: s.Insertion.Reference, ContactRequestID: k.ID,
			Identity: f.identity, RedactedFields: emptied, CreatedAt: f.CreatedAt,
			Revision: k.Revision, Digest: f.ContactRequest.Digest(s.Rules.ignoreContactRequest),
		})
		return
	}
	if k.Redacted {
		if renewed {
			d.Puts = append(d.Puts, k)
		}
		return // an answer older than the redaction restores no person
	}
	now := fields(*f.ContactRequest, s.Rules)
	changed, silent := s.changedSince(k.Fields, now, d.Drift)
	silent = silent || k.Rules != judged || k.Digest == f.digest
	k.Digest, k.Rules, k.Fields = f.digest, s.Rules.contactRequest, now
	if !silent {
		k.Revision++
		common, contact, record := s.person(events.OriginLive, f)
		d.Events = append(d.Events, &events.ContactRequestChanged{
			Common: common, PropertyReferenceID: s.Insertion.Reference, ContactRequestID: k.ID,
			Identity: f.identity, ChangedFields: changed, CreatedAt: f.CreatedAt, Score: f.Score,
			Contact: contact, Insertion: s.Summary, Defects: f.Defects, Record: record, Revision: k.Revision, Digest: f.ContactRequest.Digest(s.Rules.ignoreContactRequest),
		})
	}
	d.Puts = append(d.Puts, k)
}

// renewFingerprint keeps the fingerprint that of the last content, so that a contact request is found again when its id is
// another one day. One that is surely the same may have got it by a change, or by another reading of its time.
func renewFingerprint(k *store.ContactRequest, f identified) bool {
	sure := f.identity == events.IdentityID || k.Digest == f.digest
	if k.Fingerprint == f.fingerprint || !sure || k.Redacted && !anonymous(*f.ContactRequest) {
		return false
	}
	k.Fingerprint = f.fingerprint
	return true
}

// fields are the short digests by which a later answer is compared field by field.
func fields(r listings.ContactRequest, rules Rules) []store.Field {
	all := r.Fields()
	list := make([]store.Field, 0, len(all))
	for _, f := range all {
		if listings.SameName(lastName(f.Name), "score") || slices.Contains(rules.ignoreContactRequest, "/"+f.Name) {
			continue
		}
		short := store.Field{Name: f.Name}
		if !f.Empty {
			short.Digest = store.ShortenField([3]byte(f.Digest[:3]))
		}
		list = append(list, short)
	}
	return list
}

// lastName is the name of a field without that of the member that holds it.
func lastName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// redacted names the person fields that held something and are null or empty now; an empty member that held the person
// stands for all of its own. A field that is absent is no redaction.
func redacted(before []store.Field, now listings.ContactRequest) []string {
	var names []string
	for _, f := range now.Fields() {
		if !f.Erased {
			continue
		}
		for _, b := range before {
			if !b.Empty() && (b.Name == f.Name || strings.HasPrefix(b.Name, f.Name+"/")) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

func empty(list []store.Field, names []string) []store.Field {
	list = slices.Clone(list)
	for i, f := range list {
		if slices.Contains(names, f.Name) {
			list[i].Digest = store.FieldDigest{}
		}
	}
	return list
}

func changedFields(before, now []store.Field) []string {
	names := []string{}
	was := make(map[string]store.FieldDigest, len(before))
	for _, f := range before {
		was[f.Name] = f.Digest
	}
	for _, f := range now {
		if old, ok := was[f.Name]; !ok || old != f.Digest {
			names = append(names, f.Name)
		}
		delete(was, f.Name)
	}
	for name := range was {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// changedSince names the fields that changed, without what is drift and without what was or is taken for the id, which is said
// elsewhere. silent says that nothing else has changed.
func (s contactsObservation) changedSince(before, now []store.Field, d Drift) (names []string, silent bool) {
	all := changedFields(before, now)
	differing := len(all)
	came := comings(before, now, nil)
	names = slices.DeleteFunc(all, func(name string) bool {
		if s.isID(name) {
			return true
		}
		n := slices.IndexFunc(came, func(f form) bool { return f.path == "/"+name })
		return n >= 0 && d.holds(came[n])
	})
	return names, differing > 0 && len(names) == 0
}

// comings are the fields that came or went, as forms. record is where their types can be read; nil: they do not matter.
func comings(before, now []store.Field, record []byte) (forms []form) {
	has := func(list []store.Field, name string) bool {
		return slices.ContainsFunc(list, func(f store.Field) bool { return f.Name == name })
	}
	for _, f := range now {
		if !has(before, f.Name) {
			forms = append(forms, form{"/" + f.Name, nothing, typeAt(record, f.Name)})
		}
	}
	for _, f := range before {
		if !has(now, f.Name) {
			forms = append(forms, form{"/" + f.Name, something, nothing})
		}
	}
	return forms
}

// something is the type of what only a digest is left of.
const something = "something"

// typeAt is the JSON type of a field of a record.
func typeAt(record []byte, name string) string {
	all, _ := members(record)
	if value, ok := all[name]; ok {
		return listings.TypeOf(value)
	}
	outer, inner, nested := strings.Cut(name, "/")
	if deeper, ok := members(all[outer]); ok && nested && len(deeper[inner]) > 0 {
		return listings.TypeOf(deeper[inner])
	}
	return something
}

// judgeFields says which fields came or went in most of the known contact requests of an answer, or came in all of at
// least two and were never seen before: then all digests of the agency are renewed.
func (d *contactsDiff) judgeFields(s contactsObservation, matches []match) {
	t := newTally()
	for n := range matches {
		m := &matches[n]
		if !m.known || m.twin || m.k.Redacted || m.k.Rules != s.Rules.contactRequest {
			continue
		}
		if m.k.Digest == m.found.digest {
			t.known++
			continue
		}
		if len(redacted(m.k.Fields, *m.found.ContactRequest)) > 0 {
			continue // an erasure may empty members that were never shown: it is the person's, not the API's
		}
		t.known++
		forms := comings(m.k.Fields, fields(*m.found.ContactRequest, s.Rules), m.found.Record)
		t.add(slices.DeleteFunc(forms, func(f form) bool { return s.isID(f.path[1:]) }))
	}
	sure := map[string]bool{}
	for key, f := range t.forms {
		sure[key] = f.before == nothing && t.known >= 2 && t.count[key] == t.known && !slices.Contains(s.Names, f.path[1:])
	}
	d.Drift = t.judge(s.Drifts, s.At, func(used time.Time) bool { return s.At.Sub(used) < fieldsInForce }, sure)
	if d.Fields = s.Rules.fields; d.Drift.wide {
		d.Fields++
	} else {
		d.Drift.remains = nil // what few show keeps nothing in force
	}
}

// fieldsInForce is how long after a drift of the fields of contact requests single ones may still show it.
const fieldsInForce = time.Hour

// isID says whether a field is taken for the id, was under other settings, or turned out to be none.
func (s contactsObservation) isID(name string) bool {
	name = lastName(name)
	return name == s.IDField || slices.Contains(s.PastIDs, name) || slices.Contains(s.NoIDs, name)
}

// waits are how long the contact requests that are live have waited: since they were created, by our clock, or since the
// poll before where that is not known.
func waits(payloads []events.Payload, s contactsObservation) (all []time.Duration) {
	for _, payload := range payloads {
		c, is := payload.(*events.ContactRequestCreated)
		if !is || c.Origin != events.OriginLive {
			continue
		}
		since := s.After
		if !c.CreatedAt.IsZero() {
			since = c.CreatedAt.Add(-s.Skew)
		}
		if !since.IsZero() {
			all = append(all, s.At.Sub(since))
		}
	}
	return all
}

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
// without an id stands for all of them: that is what it was announced as.
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

// unfit says why a member that was taken for the id is none. It is empty if there is nothing to say against it.
func unfit(field string, prints *Identities, known []store.ContactRequest) (why string) {
	if field == "" {
		return ""
	}
	if why = shared(field, prints); why == "" && moved(field, prints, known) {
		why = "another for the same contact request, and its own for one more"
	}
	return why
}

// moved says whether an id that is known stands for another contact request now, while the one that had it stands beside
// with another: then it counts places. One whose person was erased is no other.
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
		if byContent[fingerprint] = id; !anonymous(prints.requests[n]) {
			ids[id] = fingerprint
		}
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
	ids := make([]string, len(i.requests))
	for n := range i.requests {
		ids[n] = boundedID(i.requests[n].ID(field))
	}
	return ids
}

// maxPastIDs bounds how many members are remembered that were the id under other settings.
const maxPastIDs = 8

// past adds a member that was the id, the last one at the end.
func past(fields []string, field string) []string {
	if field == "" {
		return fields
	}
	fields = append(slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == field }), field)
	return fields[max(0, len(fields)-maxPastIDs):]
}
