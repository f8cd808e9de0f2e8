package poller

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// answer is one answer of the contact requests of an insertion, and what was asked.
type answer struct {
	requests   []listings.ContactRequest
	asked      int    // numberOfItemsPerPage
	sortBy     string // createdAt or score
	descending bool
	total      int // -1 if the API did not say
	unreadable int // elements of the answer that nobody could read
	identities *identities
}

// contactsDiff is what one answer changes.
type contactsDiff struct {
	puts     []store.ContactRequest
	payloads []events.Payload
	ids      []string             // of the answer, in its order
	times    map[string]time.Time // creation times of the answer by id; zero where unreadable
	recalled map[string]bool      // what is remembered of the insertion and stands in the answer, by the id in the store
	before   []time.Time          // creation times of those in the answer that were learned before this catch-up
	fresh    []time.Time          // creation times of those that were not
	since    map[string]time.Time // the same by the id in the store, each once
	known    int                  // contact requests of the insertion that were learned before this catch-up
	news     int                  // contact requests that were known by neither id nor fingerprint
	drift    drift                // of the members of contact requests
	fields   int                  // drifts of the agency, this one included
}

// contactsSight is the circumstances of one answer.
type contactsSight struct {
	sight
	insertion store.Insertion
	summary   events.InsertionSummary
	idField   string        // empty: contact requests have no usable id
	pastIDs   []string      // members that were the id under other settings
	noIDs     []string      // members that turned out to be none
	skew      time.Duration // the API's clock minus ours
	rules     rules
	names     []string             // fields that the agency's contact requests ever had
	drifts    map[string]time.Time // remembered
}

// diffContactRequests compares an answer with the contact requests that are known of its insertion. It is a pure
// function. New is what is known by neither its id nor its fingerprint; a known fingerprint counts only while its id is
// missing from the same answer, so that a double click with two ids stays two.
func diffContactRequests(s contactsSight, known []store.ContactRequest, a answer) contactsDiff {
	if a.identities == nil {
		a.identities = identitiesOf(s.insertion.Reference, a.requests)
	}
	found := identify(s, a)
	d := contactsDiff{times: make(map[string]time.Time, len(found)), recalled: make(map[string]bool, len(found)), since: map[string]time.Time{}}
	d.ids = make([]string, len(found))
	for n := range found {
		f := &found[n]
		d.ids[n], d.times[f.id] = f.id, f.CreatedAt
	}
	for n := range known {
		if known[n].Epoch < s.insertion.Epoch {
			d.known++
		}
	}
	matches := recall(found, known)
	d.judgeFields(s, matches)
	judged := s.rules.contactRequest
	s.rules = s.rules.after(d.fields)
	for n := range matches {
		m := &matches[n]
		d.place(s, m)
		switch {
		case !m.known:
			d.add(s, *m.found)
			d.news++
		case !m.twin:
			d.update(s, judged, *m.k, *m.found)
		}
	}
	return d
}

// place notes of a contact request whether it was learned before this catch-up.
func (d *contactsDiff) place(s contactsSight, m *match) {
	if m.known {
		d.recalled[m.k.ID] = true
	}
	if m.known && m.k.Epoch < s.insertion.Epoch {
		d.before = append(d.before, m.found.CreatedAt)
		return
	}
	d.fresh = append(d.fresh, m.found.CreatedAt)
	id := m.found.id
	if m.known {
		id = m.k.ID
	}
	d.since[id] = m.found.CreatedAt
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
func identify(s contactsSight, a answer) []identified {
	ids := a.identities.identified(s.idField)
	place := make(map[string]int, len(a.requests))
	found := make([]identified, 0, len(a.requests))
	for n := range a.requests {
		r := &a.requests[n]
		f := identified{ContactRequest: r, id: ids[n], identity: events.IdentityID, fingerprint: a.identities.short(n), digest: contactDigest(*r, s.rules)}
		if f.id == "" {
			f.id, f.identity = hex.EncodeToString(a.identities.fingerprints[n][:]), events.IdentityFingerprint
		}
		for _, field := range s.pastIDs {
			if id := boundedID(r.ID(field)); id != "" && field != s.idField {
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

func contactDigest(r listings.ContactRequest, rules rules) store.Short {
	digest := r.Digest(rules.ignoreContactRequest)
	return store.Short(digest[:8])
}

// add remembers a contact request that was not known and announces it unless it is old.
func (d *contactsDiff) add(s contactsSight, f identified) {
	d.puts = append(d.puts, store.ContactRequest{
		ID: f.id, Fingerprint: f.fingerprint, Digest: f.digest, Rules: s.rules.contactRequest,
		Epoch: s.insertion.Epoch, CreatedAt: f.CreatedAt, Fields: fields(*f.ContactRequest, s.rules),
	})
	origin := events.OriginLive
	if isOld(s.insertion, *f.ContactRequest, s.skew) {
		origin = events.OriginBaseline
		if !s.emit {
			return
		}
	}
	d.payloads = append(d.payloads, &events.ContactRequestCreated{
		Common: s.common(origin), PropertyReferenceID: s.insertion.Reference, ContactRequestID: f.id, Identity: f.identity,
		CreatedAt: f.CreatedAt, Score: f.Score, Contact: contact(f.Contact()), Insertion: s.summary, Defects: f.Defects, Record: f.Record,
	})
}

// isOld says whether an unknown contact request was there before we began to watch its insertion. Without a readable time
// it is taken for news, except at the first poll of what was there before us.
func isOld(i store.Insertion, r listings.ContactRequest, skew time.Duration) bool {
	if r.CreatedAt.IsZero() {
		return i.Baseline && !i.Polled
	}
	start := i.Start.Add(skew)
	if r.Minutes && !i.Polled {
		start = start.Truncate(time.Minute) // what was made in the minute of the begin is news
	}
	return r.CreatedAt.Before(start)
}

// update compares a known contact request with what was read of it. judged are the rules before a drift of this answer.
func (d *contactsDiff) update(s contactsSight, judged uint32, k store.ContactRequest, f identified) {
	renewed := renewFingerprint(&k, f)
	if k.Digest == f.digest && k.Rules == s.rules.contactRequest {
		if renewed {
			d.puts = append(d.puts, k)
		}
		return
	}
	if emptied := redacted(k.Fields, *f.ContactRequest); len(emptied) > 0 {
		k.Redacted = true
		k.Revision++
		k.Digest, k.Rules, k.Fields = f.digest, s.rules.contactRequest, empty(k.Fields, emptied)
		d.puts = append(d.puts, k)
		d.payloads = append(d.payloads, &events.ContactRequestRedacted{
			Common: s.common(events.OriginLive), PropertyReferenceID: s.insertion.Reference, ContactRequestID: k.ID,
			Identity: f.identity, RedactedFields: emptied, CreatedAt: f.CreatedAt,
			Revision: k.Revision, Digest: f.ContactRequest.Digest(s.rules.ignoreContactRequest),
		})
		return
	}
	if k.Redacted {
		if renewed {
			d.puts = append(d.puts, k)
		}
		return // an answer older than the redaction brings nobody back
	}
	now := fields(*f.ContactRequest, s.rules)
	changed, silent := s.news(k.Fields, now, d.drift)
	silent = silent || k.Rules != judged || k.Digest == f.digest
	k.Digest, k.Rules, k.Fields = f.digest, s.rules.contactRequest, now
	if !silent {
		k.Revision++
		d.payloads = append(d.payloads, &events.ContactRequestChanged{
			Common: s.common(events.OriginLive), PropertyReferenceID: s.insertion.Reference, ContactRequestID: k.ID,
			Identity: f.identity, ChangedFields: changed, CreatedAt: f.CreatedAt, Score: f.Score,
			Contact: contact(f.Contact()), Insertion: s.summary, Defects: f.Defects, Record: f.Record, Revision: k.Revision, Digest: f.ContactRequest.Digest(s.rules.ignoreContactRequest),
		})
	}
	d.puts = append(d.puts, k)
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
