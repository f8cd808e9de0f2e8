package watch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Response is a response to a question for the contact requests of an insertion.
type Response struct {
	Question
	Requests   []listings.ContactRequest
	Total      int  // -1 if the API did not say
	Unreadable int  // elements that could not be read
	List       bool // there is a list, even an empty one
}

func (r Response) count() int        { return len(r.Requests) + r.Unreadable }
func (r Response) newestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "desc" }
func (r Response) oldestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "asc" }

// identified is a contact request of a response with what it is recognised by.
type identified struct {
	*listings.ContactRequest
	id          string
	identity    events.Identity
	fingerprint store.Short
	content     store.Short // zero: the person wrote nothing
	other       store.Short // zero: there is no other member that may be an id
	digest      store.Short
}

// identify gives every contact request of a response its id: the first candidate that is present in it and distinct in the
// response, else its fingerprint. Where one stands twice, the newest by time, then by digest, stands for both; but two of equal
// fingerprints and of different persons stay two.
func identify(reference string, requests []listings.ContactRequest, rules Rules) []identified {
	prints, contents := make([][16]byte, len(requests)), make([][8]byte, len(requests))
	for n := range requests {
		prints[n], contents[n] = requests[n].Prints(reference)
	}
	ids := idsOf(requests, prints, rules.ids)
	others := distinctOthers(requests, rules.ids)
	found := make([]identified, 0, len(requests))
	place := make(map[string]int, len(requests))
	for n := range requests {
		r := &requests[n]
		f := identified{
			ContactRequest: r, id: hex.EncodeToString(prints[n][:]), identity: events.IdentityFingerprint,
			fingerprint: store.Short(prints[n][:8]), content: contents[n], other: others[n], digest: contactDigest(r, rules),
		}
		if id := boundedID(ids[n]); id != "" {
			f.id, f.identity = id, events.IdentityID
		}
		key := f.id
		if f.identity == events.IdentityFingerprint {
			key += string(f.content[:])
		}
		i, twice := place[key]
		if !twice {
			place[key] = len(found)
			found = append(found, f)
		} else if newer(f, found[i]) {
			found[i] = f
		}
	}
	tellApart(found)
	return found
}

// tellApart gives all but one of those that share a fingerprint another id, the same ones whatever their order.
func tellApart(found []identified) {
	least := map[string]store.Short{}
	for _, f := range found {
		if c, twice := least[f.id]; !twice || bytes.Compare(f.content[:], c[:]) < 0 {
			least[f.id] = f.content
		}
	}
	for n, f := range found {
		if f.identity == events.IdentityFingerprint && f.content != least[f.id] {
			sum := sha256.Sum256([]byte(f.id + string(f.content[:])))
			found[n].id = hex.EncodeToString(sum[:16])
		}
	}
}

// idsOf returns the id of each contact request: what the first field says that is present in it. A field in which two of different
// fingerprints say the same is none.
func idsOf(requests []listings.ContactRequest, prints [][16]byte, fields []string) []string {
	ids, missing := make([]string, len(requests)), len(requests)
	for _, field := range fields {
		if missing == 0 {
			break
		}
		said := make([]string, len(requests))
		seen := make(map[string][16]byte, len(requests))
		isShared := false
		for n := range requests {
			said[n] = requests[n].ID(field)
			print, twice := seen[said[n]]
			isShared = isShared || twice && said[n] != "" && print != prints[n]
			seen[said[n]] = prints[n]
		}
		for n, id := range said {
			if !isShared && ids[n] == "" && id != "" {
				ids[n] = id
				missing--
			}
		}
	}
	return ids
}

// distinctOthers hashes for each contact request the first other member called …Id that all of them have and that is distinct.
func distinctOthers(requests []listings.ContactRequest, candidates []string) []store.Short {
	hashes := make([]store.Short, len(requests))
	values := map[string]map[string]bool{} // by name
	all := make([][]listings.OtherID, len(requests))
	for n := range requests {
		all[n] = requests[n].OtherIDs(candidates)
		for _, o := range all[n] {
			if values[o.Name] == nil {
				values[o.Name] = map[string]bool{}
			}
			values[o.Name][o.Value] = true
		}
	}
	for n := range requests {
		for _, o := range all[n] {
			if len(values[o.Name]) == len(requests) {
				sum := sha256.Sum256([]byte(o.Name + "\x00" + o.Value))
				hashes[n] = store.Short(sum[:8])
				break
			}
		}
	}
	return hashes
}

func newer(a, b identified) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.digest[:], b.digest[:])) > 0
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

func contactDigest(r *listings.ContactRequest, rules Rules) store.Short {
	digest := r.Digest(rules.outside)
	return store.Short(digest[:8])
}

// isAnonymous reports whether nothing of the person is left.
func isAnonymous(f identified) bool { return f.content == store.Short{} }

func identityOf(k store.ContactRequest) events.Identity {
	if k.Nameless {
		return events.IdentityFingerprint
	}
	return events.IdentityID
}

// match is a contact request of a response with the known one that it is; nil: it is new.
type match struct {
	found *identified
	known *store.ContactRequest
	twin  bool // another one of the response stands for it: both were known as one
	moved bool // identity itself has changed: it takes the place of the known one
}

// matchKnown recognises the contact requests of a response among the known ones. New is what is known by neither id nor
// fingerprint. An id counts only with the same content, the same creation time, or where one of the times is unknown: APIs give
// ids again. A fingerprint counts only while the id that was known with it is missing, so that a double click with two ids stays
// two. The order of matches is that of found.
func matchKnown(found []identified, known []store.ContactRequest, v view, rules uint32) (all []match, missing int, moved bool) {
	m := &matcher{all: make([]match, len(found)), known: known, taken: make([]bool, len(known)), view: v}
	for n := range found {
		m.all[n].found = &found[n]
	}
	byID := indexBy(known, store.ContactRequest.Given)
	sameID := func(f identified) []int { return byID[f.id] }
	m.take(sameID, func(k store.ContactRequest, f identified) bool {
		return samePrint(k, f) && (f.identity == events.IdentityID || k.Content == f.content)
	})
	byPrint := indexBy(known, func(k store.ContactRequest) store.Short { return k.Fingerprint })
	samePrints := func(f identified) []int { return byPrint[f.fingerprint] }
	erased := map[string]bool{} // these still have their ids, whatever late twin has their text
	for _, f := range found {
		if isAnonymous(f) {
			erased[f.id] = true
		}
	}
	m.take(samePrints, func(k store.ContactRequest, f identified) bool {
		return k.Digest == f.digest && !erased[k.Given()] && m.isMissing(k, f)
	})
	m.take(sameID, samePrint)
	m.take(sameID, sameSecond)
	m.takePrints(samePrints)
	m.take(sameID, sameContent)
	m.take(sameID, unknownTime)
	renamed := m.markRenamed(rules)
	if m.isDone() {
		return m.all, m.missing(), renamed
	}
	byOther := indexBy(known, func(k store.ContactRequest) store.Short { return k.Other })
	delete(byOther, store.Short{})
	sameOther := func(f identified) []int { return byOther[f.other] }
	m.take(sameOther, sameSecond)
	if len(found) > 1 || len(known) == 1 { // of one alone any member is distinct
		m.take(sameOther, unknownTime)
	}
	byDigest := indexBy(known, func(k store.ContactRequest) store.Short { return k.Digest })
	m.take(func(f identified) []int { return byDigest[f.digest] }, sameReading)
	m.takeAlone()
	moved = m.takeMoved()
	return m.all, m.missing(), moved || renamed
}

// What speaks for a known contact request, beside what it was found by.

func samePrint(k store.ContactRequest, f identified) bool { return k.Fingerprint == f.fingerprint }

func sameSecond(k store.ContactRequest, f identified) bool {
	return isSameSecond(k.CreatedAt, f.CreatedAt)
}

func unknownTime(k store.ContactRequest, f identified) bool {
	return k.CreatedAt.IsZero() || f.CreatedAt.IsZero()
}

func sameContent(k store.ContactRequest, f identified) bool {
	return k.Content == f.content && !isAnonymous(f)
}

// sameReading reports whether two times may be readings of one text: one is none, or they are a zone apart.
func sameReading(k store.ContactRequest, f identified) bool {
	apart := k.CreatedAt.Sub(f.CreatedAt)
	return k.CreatedAt.IsZero() != f.CreatedAt.IsZero() || apart != 0 && apart%(15*time.Minute) == 0 && apart.Abs() <= 26*time.Hour
}

// isSameSecond compares times as APIs do that write them in other units one day.
func isSameSecond(a, b time.Time) bool {
	return !a.IsZero() && !b.IsZero() && a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}

func indexBy[K comparable](known []store.ContactRequest, key func(store.ContactRequest) K) map[K][]int {
	index := make(map[K][]int, len(known))
	for n := range known {
		k := key(known[n])
		index[k] = append(index[k], n)
	}
	return index
}

// matcher is what matchKnown has found so far.
type matcher struct {
	all   []match
	known []store.ContactRequest
	taken []bool
	view  view
}

func (m *matcher) isDone() bool {
	return !slices.ContainsFunc(m.all, func(one match) bool { return one.known == nil })
}

func (m *matcher) missing() (n int) {
	for _, taken := range m.taken {
		if !taken {
			n++
		}
	}
	return n
}

func (m *matcher) pair(one *match, at int) { one.known, m.taken[at] = &m.known[at], true }

// take matches what is found by an index and for which a test speaks.
func (m *matcher) take(at func(identified) []int, fits func(store.ContactRequest, identified) bool) {
	for n := range m.all {
		one := &m.all[n]
		if one.known != nil {
			continue
		}
		for _, at := range at(*one.found) {
			if !m.taken[at] && fits(m.known[at], *one.found) {
				m.pair(one, at)
				break
			}
		}
	}
}

// isMissing reports whether a known one that is not recognised yet is missing from the response, which must show it: else it may hide
// behind its end, and equal texts of one second are others.
func (m *matcher) isMissing(k store.ContactRequest, f identified) bool {
	named := !k.Nameless && f.identity == events.IdentityID
	return unknownTime(k, f) || m.view.shows(f.CreatedAt.Truncate(time.Second)) || m.view.ordered && m.showsAsMany() ||
		!named && k.Content == f.content
}

// hasOtherIDs reports whether most of those that were recognised have other ids than before: then ids tell nothing apart.
func (m *matcher) hasOtherIDs() bool {
	same, other := 0, 0
	for _, one := range m.all {
		switch {
		case one.known == nil || one.known.Nameless || one.found.identity == events.IdentityFingerprint:
		case one.known.Given() == one.found.id:
			same++
		default:
			other++
		}
	}
	return other >= leastMoved && other > same
}

// takePrints matches equal fingerprints, of several first those of equal content. One that is known without an id stands for all that
// have one now: that is what they were announced as.
func (m *matcher) takePrints(samePrints func(identified) []int) {
	m.take(samePrints, func(k store.ContactRequest, f identified) bool { return k.Content == f.content && m.isMissing(k, f) })
	m.take(samePrints, m.isMissing)
	if m.hasOtherIDs() {
		m.take(samePrints, sameContent)
	}
	for n := range m.all {
		one := &m.all[n]
		if one.known != nil || one.found.identity == events.IdentityFingerprint {
			continue
		}
		for _, at := range samePrints(*one.found) {
			if m.known[at].Nameless && m.known[at].Content == one.found.content {
				one.known, one.twin = &m.known[at], true
			}
		}
	}
}

// takeAlone matches what is left over with one and the same creation time, alone on both sides: the same with other content. A
// known one that the response need not show may hide behind its end, and says nothing, unless no person is left of the new one.
func (m *matcher) takeAlone() {
	left := map[time.Time][]*match{}
	for n := range m.all {
		if one := &m.all[n]; one.known == nil && !one.found.CreatedAt.IsZero() {
			second := one.found.CreatedAt.Truncate(time.Second)
			left[second] = append(left[second], one)
		}
	}
	known := map[time.Time][]int{}
	for at := range m.known {
		if second := m.known[at].CreatedAt.Truncate(time.Second); !m.taken[at] && len(left[second]) == 1 {
			known[second] = append(known[second], at)
		}
	}
	for second, list := range known {
		one := left[second][0]
		if len(list) == 1 && (m.view.shows(second) || isAnonymous(*one.found) && m.showsAsMany()) {
			m.pair(one, list[0])
		}
	}
}

// showsAsMany reports whether the response shows as many as are known: then none of them was pushed out of it.
func (m *matcher) showsAsMany() bool { return len(m.all) >= len(m.known) }

// leastMoved is how many contact requests must seem to be others at least, before identity itself counts as changed.
const leastMoved = 3

// takeMoved lets unknown ones take the places of known ones where identity itself has changed: some known ones are missing that the
// response must show, and as many unknown ones are there, none younger than the youngest known one.
func (m *matcher) takeMoved() bool {
	var youngest time.Time
	var gone []int
	sure := 0 // the others may have been pushed out by new ones of their moment
	for at, k := range m.known {
		if k.CreatedAt.After(youngest) {
			youngest = k.CreatedAt
		}
		if !m.taken[at] && m.mustShow(k.CreatedAt) {
			gone = append(gone, at)
			if m.view.shows(k.CreatedAt) {
				sure++
			}
		}
	}
	var came []*match
	for n := range m.all {
		one := &m.all[n]
		if at := one.found.CreatedAt; one.known == nil && !at.After(youngest.Truncate(time.Second).Add(time.Second-1)) && m.mustShow(at) {
			came = append(came, one)
		}
	}
	if sure < leastMoved || len(gone) != len(came) {
		return false
	}
	slices.SortFunc(gone, func(a, b int) int { return m.known[a].CreatedAt.Compare(m.known[b].CreatedAt) })
	slices.SortFunc(came, func(a, b *match) int { return a.found.CreatedAt.Compare(b.found.CreatedAt) })
	for n, one := range came {
		m.pair(one, gone[n])
		one.moved = true
	}
	return true
}

// markRenamed reports whether all that were recognised so far have other ids and other records than before: then their identity has
// changed, and nothing else. Where rules are other ones than before, records cannot be compared.
func (m *matcher) markRenamed(rules uint32) bool {
	renamed := 0
	for _, one := range m.all {
		switch {
		case one.known == nil || one.twin:
		case one.found.identity != events.IdentityID, one.known.Nameless, one.known.Given() == one.found.id,
			one.known.Digest == one.found.digest, one.known.Rules != rules:
			return false
		default:
			renamed++
		}
	}
	if renamed < leastMoved {
		return false
	}
	for n := range m.all {
		m.all[n].moved = m.all[n].known != nil
	}
	return true
}

// mustShow reports whether the response must show what was created at a moment.
func (m *matcher) mustShow(at time.Time) bool {
	return !at.IsZero() && m.view.ordered && (m.view.shows(at) || m.showsAsMany() && !at.Before(m.view.oldest.Truncate(time.Second)))
}

// contacts is what one response changes of the contact requests that are remembered of an insertion.
type contacts struct {
	Puts   []store.ContactRequest
	Events []events.Payload

	shown   []string             // of the response, in its order, as they are remembered
	before  []bool               // the same: it was known before this catch-up
	fresh   map[string]time.Time // creation times of those that were not
	new     int                  // was not known at all
	missing int                  // is known and not shown
	moved   bool

	emptied, people int  // of those that are known; 0 where it is no mass
	redacted        int  // of those that are emptied: are believed to be
	held            bool // others are not, yet

	readings []Reading // of those that were known
}

// sight is the circumstances of a response.
type sight struct {
	Observation
	insertion store.Insertion
	summary   func() events.InsertionSummary
	people    events.People
	rules     Rules
	view      view
	apart     time.Duration // between two readings that make a redaction
	holdFor   time.Duration // the same, where it is of most people
	forgotten time.Time     // what was created before it is old
	approved  bool          // a person has said that these are gone
	volatile  []string      // members that are left out
}

// diffContactRequests compares a response with the contact requests that are known of its insertion, and what is unknown with those
// that are known elsewhere.
func diffContactRequests(s sight, known []store.ContactRequest, elsewhere iter.Seq[store.ContactRequest], found []identified) contacts {
	matches, missing, moved := matchKnown(found, known, s.view, s.rules.contactRequest)
	d := contacts{fresh: map[string]time.Time{}, missing: missing, moved: moved}
	if emptied, people := countEmptied(matches); emptied >= leastEmptied && 2*emptied > people {
		d.emptied, d.people = emptied, people
		if s.apart = max(s.apart, s.holdFor); s.approved {
			s.apart = 0
		}
	}
	var others []store.ContactRequest
	knownElsewhere := func() []store.ContactRequest { // read once, and only where something is unknown
		if elsewhere != nil {
			others, elsewhere = slices.Collect(elsewhere), nil
		}
		return others
	}
	taken := make(map[string]bool, len(known))
	for _, k := range known {
		taken[k.ID] = true
	}
	for _, m := range matches {
		id := m.found.id
		switch {
		case m.known != nil:
			id = m.known.ID
		case slices.ContainsFunc(known, m.found.isNamesake):
			m.found.nameByContent()
			id = m.found.id
		case taken[id]:
			id = store.AgainID(id, m.found.fingerprint)
		}
		before := m.known != nil && m.known.Epoch < s.insertion.Epoch
		d.shown, d.before = append(d.shown, id), append(d.before, before)
		if !before {
			d.fresh[id] = m.found.CreatedAt
		}
		switch {
		case m.known == nil && slices.ContainsFunc(knownElsewhere(), m.found.cameAlong):
			d.remember(s, id, *m.found)
		case m.known == nil:
			d.add(s, id, *m.found)
		case !m.twin:
			d.readings = append(d.readings, s.reading(*m.known, *m.found))
			d.update(s, *m.known, *m.found, m.moved)
		}
	}
	d.held = d.redacted < d.emptied
	return d
}

// isNamesake reports whether the event of another contact request may have the id that the one of this would have.
func (f identified) isNamesake(k store.ContactRequest) bool {
	return k.Given() == f.id && (sameSecond(k, f) || unknownTime(k, f))
}

// nameByContent gives one an id of its own where neither the API's nor its fingerprint is.
func (f *identified) nameByContent() {
	sum := sha256.Sum256(slices.Concat([]byte(f.id), f.fingerprint[:], f.content[:]))
	f.id, f.identity = hex.EncodeToString(sum[:16]), events.IdentityFingerprint
}

// cameAlong reports whether a contact request is one of an insertion that got a new reference.
func (f identified) cameAlong(k store.ContactRequest) bool {
	return f.identity == events.IdentityID && k.Given() == f.id && isSameSecond(k.CreatedAt, f.CreatedAt) &&
		(k.Digest == f.digest || sameContent(k, f))
}

// remember takes a contact request that was not known.
func (d *contacts) remember(s sight, id string, f identified) {
	d.new++
	d.Puts = append(d.Puts, store.ContactRequest{
		ID: id, Fingerprint: f.fingerprint, Content: f.content, Other: f.other, Digest: f.digest, Rules: s.rules.contactRequest,
		Epoch: s.insertion.Epoch, CreatedAt: f.CreatedAt, Nameless: f.identity == events.IdentityFingerprint, Fields: personFields(f),
	})
}

// reading compares what was read of a known contact request with what is read now.
func (s sight) reading(k store.ContactRequest, f identified) Reading {
	r := Reading{ID: k.ID, Left: s.leftOut(f.ContactRequest)}
	if k.Digest != f.digest && k.Rules == s.rules.contactRequest {
		r.Leaves = f.Leaves()
	}
	return r
}

// leftOut returns the members of a contact request that are volatile.
func (s sight) leftOut(r *listings.ContactRequest) map[string]uint64 {
	if len(s.volatile) == 0 {
		return nil
	}
	left, leaves := map[string]uint64{}, r.Leaves()
	for _, path := range s.volatile {
		left[path] = leaves[path]
	}
	return left
}

// add remembers a contact request that was not known and announces it unless it is old.
func (d *contacts) add(s sight, id string, f identified) {
	d.remember(s, id, f)
	origin := events.OriginLive
	if s.isOld(f) {
		origin = events.OriginBaseline
		if !s.Emit {
			return
		}
	}
	common, contact, record := s.person(origin, f)
	d.Events = append(d.Events, &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: s.insertion.Reference, ContactRequestID: f.id, Identity: f.identity,
		CreatedAt: f.CreatedAt, Score: f.Score, Contact: contact, Insertion: s.summary(), Defects: f.Defects, Record: record,
	})
}

// isOld reports whether an unknown contact request was there before we began to watch its insertion. Without a readable time it is
// live, except at the first poll of what was there before us.
func (s sight) isOld(f identified) bool {
	if f.CreatedAt.IsZero() {
		return s.insertion.Baseline && !s.insertion.Polled
	}
	start := startOf(s.insertion, s.view, f.HasZone())
	if start.After(s.At) { // our clock was ahead at the begin, and was set since
		start = s.At.Add(-beforeBegin)
	}
	return f.CreatedAt.Before(start) || f.CreatedAt.Before(s.forgotten)
}

// person is what events say of the person behind a contact request. Everything else is made of the whole response, whatever they say.
func (s sight) person(origin events.Origin, f identified) (common events.Common, c events.Contact, record json.RawMessage) {
	common, c, record = s.common(origin), contact(f.Contact()), f.Record
	switch s.people {
	case events.PeopleNone:
		common.Truncated, c, record = true, events.Contact{}, nil
	case events.PeopleContact:
		common.Truncated, c.Message, record = true, "", nil
	}
	return common, c, record
}

// update compares a known contact request with what was read of it.
func (d *contacts) update(s sight, k store.ContactRequest, f identified, moved bool) {
	before := k
	emptied := emptiedFields(k, f)
	switch {
	case len(emptied) > 0 && k.Emptied.IsZero():
		k.Emptied = s.At // one reading may be a failure behind the API
	case len(emptied) > 0 && s.At.Sub(k.Emptied) < s.apart:
	case len(emptied) > 0:
		d.redacted++
		k.Emptied, k.Redacted, k.Revision = time.Time{}, true, k.Revision+1
		k.Digest, k.Rules, k.Fields = f.digest, s.rules.contactRequest, without(k.Fields, emptied)
		d.Events = append(d.Events, &events.ContactRequestRedacted{
			Common: s.common(events.OriginLive), PropertyReferenceID: s.insertion.Reference, ContactRequestID: k.Given(),
			Identity: identityOf(k), RedactedFields: emptied, CreatedAt: f.CreatedAt,
			Revision: k.Revision, Digest: f.ContactRequest.Digest(s.rules.outside),
		})
	default:
		k.Emptied = time.Time{}
		d.change(s, &k, f, moved)
	}
	if k.Emptied.IsZero() && (!k.Redacted || isAnonymous(f)) { // else the person would be gone, or back, in what it is recognised by
		k.Fingerprint, k.Content = f.fingerprint, f.content
	}
	if f.other != (store.Short{}) {
		k.Other = f.other
	}
	if !f.CreatedAt.IsZero() && !isSameSecond(k.CreatedAt, f.CreatedAt) {
		k.CreatedAt = f.CreatedAt
	}
	if !sameRow(k, before) {
		d.Puts = append(d.Puts, k)
	}
}

// change announces that a contact request differs from what was read before. A response older than a redaction restores no person.
func (d *contacts) change(s sight, k *store.ContactRequest, f identified, silent bool) {
	if k.Redacted || k.Digest == f.digest && k.Rules == s.rules.contactRequest {
		return
	}
	silent = silent || k.Rules != s.rules.contactRequest || k.Digest == f.digest
	k.Digest, k.Rules, k.Fields = f.digest, s.rules.contactRequest, personFields(f)
	if silent {
		return
	}
	k.Revision++
	common, contact, record := s.person(events.OriginLive, f)
	d.Events = append(d.Events, &events.ContactRequestChanged{
		Common: common, PropertyReferenceID: s.insertion.Reference, ContactRequestID: k.Given(), Identity: identityOf(*k),
		CreatedAt: f.CreatedAt, Score: f.Score, Contact: contact, Insertion: s.summary(), Defects: f.Defects, Record: record,
		Revision: k.Revision, Digest: f.ContactRequest.Digest(s.rules.outside),
	})
}

func sameRow(a, b store.ContactRequest) bool {
	same := a.ID == b.ID && a.Fingerprint == b.Fingerprint && a.Content == b.Content && a.Other == b.Other && a.Digest == b.Digest
	return same && a.Rules == b.Rules && a.Revision == b.Revision && a.CreatedAt.Equal(b.CreatedAt) && a.Emptied.Equal(b.Emptied) &&
		a.Redacted == b.Redacted && a.Nameless == b.Nameless && slices.Equal(a.Fields, b.Fields)
}

// personFields are the members that hold the person now, by name. What they hold is not remembered.
func personFields(f identified) []store.Field {
	list := []store.Field{}
	for _, p := range f.PersonFields() {
		if !p.Empty {
			list = append(list, store.Field{Name: p.Name})
		}
	}
	return list
}

// emptiedFields names the members that held the person and are null or empty now; an empty member that held the person stands for all
// of its own. A member that is absent is no redaction.
func emptiedFields(k store.ContactRequest, f identified) (names []string) {
	for _, now := range f.PersonFields() {
		if !now.Empty {
			continue
		}
		for _, held := range k.Fields {
			if !held.Empty && (held.Name == now.Name || strings.HasPrefix(held.Name, now.Name+"/")) {
				names = append(names, held.Name)
			}
		}
	}
	return names
}

// without keeps the names of members that hold nothing any more.
func without(list []store.Field, names []string) []store.Field {
	list = slices.Clone(list)
	for n, f := range list {
		if slices.Contains(names, f.Name) {
			list[n].Empty = true
		}
	}
	return list
}

// leastEmptied is how many people must vanish from a response at least, before it counts as a failure behind the API.
const leastEmptied = 3

// countEmptied counts the people of a response that were known before, and those of them that have vanished.
func countEmptied(matches []match) (emptied, people int) {
	for _, m := range matches {
		if m.known == nil || m.twin || !slices.ContainsFunc(m.known.Fields, func(f store.Field) bool { return !f.Empty }) {
			continue
		}
		people++
		if len(emptiedFields(*m.known, *m.found)) > 0 {
			emptied++
		}
	}
	return emptied, people
}

// holdRedactions holds the redaction of most people of a response, for the whole agency at once: what fails behind one insertion fails
// behind others. The hold ends when none of its insertions shows a mass any more that is not believed.
func (p Poll) holdRedactions(e *Effects, state store.Agency, reference string, d contacts, at time.Time) {
	if d.held == (state.Redaction != nil && slices.Contains(state.Redaction.Insertions, reference)) {
		return
	}
	switch {
	case !d.held:
		e.announce(endRedactions(&state, p.AgencyID, []string{reference}, at)...)
	case state.Redaction == nil:
		h := &store.Held{
			Reason: massDisappearance, Since: at, Until: at.Add(max(p.Apart, p.HoldFor)), Missing: d.emptied, Known: d.people,
			Insertions: []string{reference},
		}
		state.Redaction = h
		e.announce(&events.WatchChangeHeld{
			Common: events.Common{AgencyID: p.AgencyID, ObservedAt: at}, Operation: string(listings.OperationContactRequests),
			Reason: h.Reason, Missing: h.Missing, Known: h.Known, Until: h.Until, Approve: "doorbell approve " + p.AgencyID,
		})
	default:
		h := *state.Redaction
		h.Missing, h.Known, h.Insertions = h.Missing+d.emptied, h.Known+d.people, append(slices.Clip(h.Insertions), reference)
		state.Redaction = &h
	}
	e.State = &state
}

// endRedactions takes insertions out of a hold of redactions, which ends with the last.
func endRedactions(state *store.Agency, agencyID string, references []string, at time.Time) []events.Payload {
	if state.Redaction == nil {
		return nil
	}
	h := *state.Redaction
	h.Insertions = slices.DeleteFunc(slices.Clone(h.Insertions), func(r string) bool { return slices.Contains(references, r) })
	if state.Redaction = &h; len(h.Insertions) > 0 {
		return nil
	}
	state.Redaction = nil
	return []events.Payload{HoldEnds(agencyID, listings.OperationContactRequests, h, at)}
}

// waits are how long the contact requests that are live have waited: since they were created, or since the poll before where that is
// not known.
func waits(payloads []events.Payload, s sight) (all []time.Duration) {
	for _, payload := range payloads {
		c, is := payload.(*events.ContactRequestCreated)
		if !is || c.Origin != events.OriginLive {
			continue
		}
		since := s.After
		if !c.CreatedAt.IsZero() {
			since = c.CreatedAt
		}
		if !since.IsZero() {
			all = append(all, max(0, s.At.Sub(since)))
		}
	}
	return all
}
