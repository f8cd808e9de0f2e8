package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// found is a contact request of a response with what it is recognised by.
type found struct {
	*listings.ContactRequest
	id          string // of the API, else the fingerprint
	nameless    bool   // it is the fingerprint
	fingerprint store.Short
	content     store.Short // zero: the person wrote nothing
	other       store.Short // of another member that may be an id; zero: there is none
	digest      store.Short

	unchanged *store.ContactRequest // is known by the same id and reads as it did; nil: see identify
	known     *store.ContactRequest // the one that it is; nil: it is new
	twin      bool                  // another one is the known one, too: both were known as one
	moved     bool                  // identity itself has changed: it takes the place of the known one
}

// isAnonymous reports whether nothing of the person is left.
func (f *found) isAnonymous() bool { return f.content == store.Short{} }

func identityOf(nameless bool) events.Identity {
	if nameless {
		return events.IdentityFingerprint
	}
	return events.IdentityID
}

// identify gives every contact request of a response its id: the first candidate that is present
// and distinct in it, else its fingerprint. One that is shown twice is one. What reads as it did has
// the fingerprint that is remembered: most do, and a new lead does not wait for their hashes.
func identify(reference string, all []*found, rules Rules) []*found {
	for _, f := range all {
		if k := f.unchanged; k != nil {
			f.fingerprint, f.content = k.Fingerprint, k.Content
			continue
		}
		print, content := f.Prints(reference)
		f.fingerprint, f.content = store.Short(print[:8]), content
		if f.nameless {
			f.id = hex.EncodeToString(print[:])
		}
	}
	for _, field := range rules.ids {
		nameBy(field, all)
	}
	nameOthers(all, rules.ids)
	once, places := all[:0], map[string]int{}
	for _, f := range all {
		key := f.id
		if f.nameless {
			key += string(f.content[:]) // two persons may write the same in one second
		}
		if n, twice := places[key]; !twice {
			places[key] = len(once)
			once = append(once, f)
		} else if bytes.Compare(f.digest[:], once[n].digest[:]) > 0 {
			once[n] = f
		}
	}
	return once
}

// idOf is what the first candidate says that is there, and which candidate that is.
func (r Rules) idOf(c *listings.ContactRequest) (field int, id string) {
	for n, name := range r.ids {
		if id = c.ID(name); id != "" {
			return n, id
		}
	}
	return len(r.ids), ""
}

func digestOf(r *listings.ContactRequest, rules Rules) store.Short {
	digest := r.Digest(rules.outside)
	return store.Short(digest[:8])
}

// nameBy takes a field for the id of those that have none yet, unless it says the same of two.
func nameBy(field string, all []*found) {
	prints := map[string]store.Short{}
	for _, f := range all {
		id := f.ID(field)
		if print, twice := prints[id]; twice && id != "" && print != f.fingerprint {
			return
		}
		prints[id] = f.fingerprint
	}
	for _, f := range all {
		if id := f.ID(field); f.nameless && id != "" {
			f.id, f.nameless = boundedID(id), false
		}
	}
}

// boundedID keeps an id fit to be a key and part of a message: a very long or unprintable one is
// replaced by its hash.
func boundedID(id string) string {
	odd := func(r rune) bool { return r < 0x20 || r == 0x7f }
	if len(id) <= 128 && !strings.ContainsFunc(id, odd) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// nameOthers hashes the first other member called …Id that all have and that is distinct.
func nameOthers(all []*found, candidates []string) {
	values := map[string]map[string]*found{} // by name
	var names []string
	for _, f := range all {
		for _, o := range f.OtherIDs(candidates) {
			if values[o.Name] == nil {
				values[o.Name] = map[string]*found{}
				names = append(names, o.Name)
			}
			values[o.Name][o.Value] = f
		}
	}
	for _, name := range names {
		if len(values[name]) == len(all) {
			for value, f := range values[name] {
				sum := sha256.Sum256([]byte(name + "\x00" + value))
				f.other = store.Short(sum[:8])
			}
			return
		}
	}
}

// candidate is a known contact request that one of the response may be.
type candidate struct {
	*store.ContactRequest
	given string // its id
	taken bool
}

// pairing recognises the contact requests of a response among the known ones.
type pairing struct {
	all   []*found
	known []*candidate
	view  view
}

// pair recognises the contact requests of a response, the surest first: by id and fingerprint; by
// what else tells them from others; by their places where identity itself has changed, which it
// reports. New is what is left.
func pair(all []*found, known []store.ContactRequest, v view, rules uint32) (missing int, moved bool) {
	p := &pairing{all: all, view: v}
	for n := range known {
		p.known = append(p.known, &candidate{ContactRequest: &known[n], given: known[n].Given()})
	}
	sameID := func(k *candidate, f *found) bool { return k.given == f.id }
	samePrint := func(k *candidate, f *found) bool { return k.Fingerprint == f.fingerprint }

	// An id counts only with the same content, the same creation time, or where one of the times is
	// unknown: APIs give ids again. A fingerprint counts only while its id is missing: a double
	// click with two ids stays two.
	p.take(func(k *candidate, f *found) bool {
		return sameID(k, f) && samePrint(k, f) && (!f.nameless || k.Content == f.content)
	})
	p.take(func(k *candidate, f *found) bool { // an erased one, beside its late twin
		return sameID(k, f) && f.isAnonymous() && (sameSecond(k, f) || unknownTime(k, f))
	})
	p.take(func(k *candidate, f *found) bool {
		return samePrint(k, f) && k.Digest == f.digest && p.isMissing(k, f)
	})
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && sameSecond(k, f) })
	p.take(func(k *candidate, f *found) bool { return samePrint(k, f) && p.isMissing(k, f) })
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && sameContent(k, f) })
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && unknownTime(k, f) })
	if renamed := p.renamed(); len(renamed) >= leastMoved { // ids say nothing
		p.take(func(k *candidate, f *found) bool { return samePrint(k, f) && k.Content == f.content })
		for _, f := range renamed {
			f.moved = true
			moved = moved || f.known.Digest != f.digest && f.known.Rules == rules
		}
	}
	for _, f := range all { // one that is known without an id stands for all that have one now
		for _, k := range p.known {
			if f.known == nil && !f.nameless && k.Nameless && samePrint(k, f) && k.Content == f.content {
				f.known, f.twin = k.ContactRequest, true
			}
		}
	}

	p.take(func(k *candidate, f *found) bool {
		distinct := len(all) > 1 || len(known) == 1 // of one alone any member is
		return f.other != store.Short{} && k.Other == f.other && (sameSecond(k, f) || unknownTime(k, f) && distinct)
	})
	p.take(func(k *candidate, f *found) bool { return k.Digest == f.digest && zoneApart(k, f) })
	p.takeAlone()
	moved = p.takePlaces() || moved
	for _, k := range p.known {
		if !k.taken {
			missing++
		}
	}
	return missing, moved
}

// take pairs what is left where a test speaks for it.
func (p *pairing) take(fits func(*candidate, *found) bool) {
	for _, f := range p.all {
		if f.known != nil {
			continue
		}
		isIt := func(k *candidate) bool { return !k.taken && fits(k, f) }
		if n := slices.IndexFunc(p.known, isIt); n >= 0 {
			f.known, p.known[n].taken = p.known[n].ContactRequest, true
		}
	}
}

// renamed are those that were recognised, where all have other ids than before.
func (p *pairing) renamed() (all []*found) {
	for _, f := range p.all {
		if k := f.known; k != nil {
			if f.nameless || k.Nameless || k.Given() == f.id {
				return nil
			}
			all = append(all, f)
		}
	}
	return all
}

// takeAlone pairs what is left with one and the same creation time, alone on both sides: the same
// with other content.
func (p *pairing) takeAlone() {
	left, known := map[time.Time]int{}, map[time.Time]int{}
	for _, f := range p.all {
		if f.known == nil {
			left[secondOf(f.CreatedAt)]++
		}
	}
	for _, k := range p.known {
		if !k.taken {
			known[secondOf(k.CreatedAt)]++
		}
	}
	p.take(func(k *candidate, f *found) bool {
		second := secondOf(f.CreatedAt)
		return sameSecond(k, f) && left[second] == 1 && known[second] == 1 &&
			(p.view.shows(second) || f.isAnonymous() && len(p.all) >= len(p.known))
	})
}

// leastMoved is how many contact requests must seem to be others before identity itself counts as
// changed.
const leastMoved = 3

// takePlaces lets unknown ones take the places of known ones where identity itself has changed: at
// least three that the response must show are missing, and as many unknown ones are there, none
// younger than the youngest known one.
func (p *pairing) takePlaces() bool {
	var youngest time.Time
	var gone []*candidate
	sure := 0 // the others may have been pushed out by new ones of their moment
	for _, k := range p.known {
		youngest = later(youngest, k.CreatedAt)
		if !k.taken && p.mustShow(k.CreatedAt) {
			gone = append(gone, k)
			if p.view.shows(k.CreatedAt) {
				sure++
			}
		}
	}
	var came []*found
	for _, f := range p.all {
		if f.known == nil && !secondOf(f.CreatedAt).After(youngest) && p.mustShow(f.CreatedAt) {
			came = append(came, f)
		}
	}
	if sure < leastMoved || len(gone) != len(came) {
		return false
	}
	slices.SortFunc(gone, func(a, b *candidate) int { return a.CreatedAt.Compare(b.CreatedAt) })
	slices.SortFunc(came, func(a, b *found) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for n, f := range came {
		f.known, gone[n].taken, f.moved = gone[n].ContactRequest, true, true
	}
	return true
}

// mustShow reports whether the response must show what was created at a moment: it is in order, and
// either is not cut there, or shows as many as are known.
func (p *pairing) mustShow(at time.Time) bool {
	return p.view.ordered && !at.IsZero() && !at.Before(secondOf(p.view.oldest)) &&
		(p.view.shows(at) || len(p.all) >= len(p.known))
}

// isMissing reports whether the id of a known one is missing from the response, which must show it:
// else it may hide behind its end, and equal texts of one second are others.
func (p *pairing) isMissing(k *candidate, f *found) bool {
	return unknownTime(k, f) || (k.Nameless || f.nameless) && k.Content == f.content ||
		p.view.shows(secondOf(f.CreatedAt)) || p.mustShow(f.CreatedAt)
}

func sameSecond(k *candidate, f *found) bool { return isSameSecond(k.CreatedAt, f.CreatedAt) }

func sameContent(k *candidate, f *found) bool {
	return k.Content == f.content && !f.isAnonymous()
}

func isSameSecond(a, b time.Time) bool { return !a.IsZero() && secondOf(a).Equal(secondOf(b)) }

// secondOf is what times are compared by: APIs write them in other units one day.
func secondOf(t time.Time) time.Time { return t.Truncate(time.Second) }

func unknownTime(k *candidate, f *found) bool {
	return k.CreatedAt.IsZero() || f.CreatedAt.IsZero()
}

// zoneApart reports whether two times may be readings of one text.
func zoneApart(k *candidate, f *found) bool {
	apart := k.CreatedAt.Sub(f.CreatedAt)
	return k.CreatedAt.IsZero() != f.CreatedAt.IsZero() ||
		apart != 0 && apart%(15*time.Minute) == 0 && apart.Abs() <= 26*time.Hour
}

// comparison is one response beside what is remembered, and what follows from it.
type comparison struct {
	Poll
	Prior
	Effects
	at       time.Time
	volatile []string // members that are left out
	view     view
	others   []store.ContactRequest // of Elsewhere, once they are read

	shown    []string             // in the order of the response, as they are remembered
	before   []bool               // the same: it was known before this catch-up
	fresh    map[string]time.Time // creation times of those that were not
	new      int                  // was not known at all
	missing  int                  // is known and not shown
	same     bool                 // each is known by its id and reads as it did
	waits    []time.Duration      // of those that are announced as live
	readings []Reading            // of those that were known

	emptied, people int // of those that are known; 0 where it is no mass
	redacted        int // of those that are emptied: are believed to be
}

// read takes the contact requests of a response, and looks for those that are known by their id and
// read as they did. That holds only where one candidate names all of them, each otherwise.
func (c *comparison) read(requests []listings.ContactRequest) (all []*found) {
	known := map[string]*store.ContactRequest{}
	for n := range c.Known {
		known[c.Known[n].ID] = &c.Known[n]
	}
	fields, ids := map[int]bool{}, map[string]bool{}
	for n := range requests {
		f := &found{ContactRequest: &requests[n], digest: digestOf(&requests[n], c.Rules)}
		field, id := c.Rules.idOf(f.ContactRequest)
		f.id = boundedID(id)
		fields[field], ids[f.id] = true, true
		if k := known[f.id]; k != nil && !k.Redacted && k.Emptied.IsZero() && k.Digest == f.digest &&
			k.Rules == c.Rules.contactRequest && k.CreatedAt.Equal(f.CreatedAt) {
			f.unchanged = k
		}
		all = append(all, f)
	}
	if len(fields) > 1 || len(ids) < len(all) || ids[""] {
		for _, f := range all {
			f.id, f.nameless, f.unchanged = "", true, nil
		}
	}
	return all
}

// compare takes what a response shows of each contact request.
func (c *comparison) compare(requests []listings.ContactRequest) (moved bool) {
	all := c.read(requests)
	c.same = !slices.ContainsFunc(all, func(f *found) bool { return f.unchanged == nil })
	if c.same {
		for _, f := range all {
			f.known = f.unchanged
		}
		c.missing = len(c.Known) - len(all)
	} else {
		all = identify(c.Insertion.Reference, all, c.Rules)
		c.missing, moved = pair(all, c.Known, c.view, c.Rules.contactRequest)
		c.countEmptied(all)
	}
	names := c.nameNew(all)
	for _, f := range all {
		id, before := names[f], false
		if k := f.known; k != nil {
			id, before = k.ID, k.Epoch < c.Insertion.Epoch
			if !f.twin {
				c.readings = append(c.readings, c.reading(*k, f))
			}
			if !f.twin && (k != f.unchanged || f.other != (store.Short{}) && f.other != k.Other) {
				c.update(*k, f)
			}
		} else {
			c.add(id, f)
		}
		c.shown, c.before = append(c.shown, id), append(c.before, before)
		if !before {
			c.fresh[id] = f.CreatedAt
		}
	}
	return moved
}

// nameNew gives each new contact request an id under which it is remembered, and one that no other
// event has: where it bears the id of another one, of the same moment, it is named by its content.
// Of several that are new the one of the least content keeps the id, whatever their order.
func (c *comparison) nameNew(all []*found) map[*found]string {
	fresh := slices.DeleteFunc(slices.Clone(all), func(f *found) bool { return f.known != nil })
	if len(fresh) == 0 {
		return nil
	}
	slices.SortStableFunc(fresh, func(a, b *found) int { return bytes.Compare(a.content[:], b.content[:]) })
	taken, names := map[string]bool{}, map[*found]string{}
	for _, k := range c.Known {
		taken[k.ID] = true
	}
	given := map[string]bool{}
	for _, f := range fresh {
		isNamesake := func(k store.ContactRequest) bool {
			return k.Given() == f.id && (k.CreatedAt.IsZero() || f.CreatedAt.IsZero() || isSameSecond(k.CreatedAt, f.CreatedAt))
		}
		if given[f.id] || slices.ContainsFunc(c.Known, isNamesake) {
			sum := sha256.Sum256(slices.Concat([]byte(f.id), f.fingerprint[:], f.content[:]))
			f.id, f.nameless = hex.EncodeToString(sum[:16]), true
		}
		given[f.id], names[f] = true, f.id
		if taken[f.id] {
			names[f] = store.AgainID(f.id, f.fingerprint)
		}
	}
	return names
}

// reading says for [Volatility.Observe] what is read of a known contact request.
func (c *comparison) reading(k store.ContactRequest, f *found) Reading {
	r := Reading{ID: k.ID}
	if len(c.volatile) > 0 {
		r.Left = map[string]uint64{}
		leaves := f.Leaves()
		for _, path := range c.volatile {
			r.Left[path] = leaves[path]
		}
	}
	if k.Digest != f.digest && k.Rules == c.Rules.contactRequest {
		r.Leaves = f.Leaves()
	}
	return r
}

// add remembers a contact request that is new, and announces it unless it is old, or has come along
// with an insertion that got a new reference.
func (c *comparison) add(id string, f *found) {
	c.new++
	c.Contacts = append(c.Contacts, store.ContactRequest{
		ID: id, Fingerprint: f.fingerprint, Content: f.content, Other: f.other, Digest: f.digest,
		Rules: c.Rules.contactRequest, Epoch: c.Insertion.Epoch, CreatedAt: f.CreatedAt,
		Nameless: f.nameless, Fields: personFields(f),
	})
	if c.cameAlong(f) {
		return
	}
	origin := events.OriginLive
	if c.isOld(f) {
		origin = events.OriginBaseline
		if !c.Announce || refiltered(c.Prior.State, c.Insertion) {
			return
		}
	} else if since := f.CreatedAt; !since.IsZero() || !c.after().IsZero() {
		if since.IsZero() {
			since = c.after()
		}
		c.waits = append(c.waits, max(0, c.at.Sub(since)))
	}
	common, person, record := c.person(origin, f)
	c.announce(&events.ContactRequestCreated{
		Common: common, PropertyReferenceID: c.Insertion.Reference, ContactRequestID: f.id,
		Identity: identityOf(f.nameless), CreatedAt: f.CreatedAt, Score: f.Score, Contact: person,
		Insertion: c.summary(), Defects: f.Defects, Record: record,
	})
}

// person is what events say of the person behind a contact request. Everything else is made of the
// whole response.
func (c *comparison) person(origin events.Origin, f *found) (events.Common, events.Contact, json.RawMessage) {
	common, person, record := c.common(origin), contact(f.Contact()), f.Record
	switch c.People {
	case events.PeopleNone:
		common.Truncated, person, record = true, events.Contact{}, nil
	case events.PeopleContact:
		common.Truncated, person.Message, record = true, "", nil
	}
	return common, person, record
}

// cameAlong reports whether a contact request is known of an insertion of which this may be another
// name.
func (c *comparison) cameAlong(f *found) bool {
	if c.Elsewhere != nil {
		c.others, c.Elsewhere = c.Elsewhere(), nil
	}
	return !f.nameless && slices.ContainsFunc(c.others, func(k store.ContactRequest) bool {
		return k.Given() == f.id && isSameSecond(k.CreatedAt, f.CreatedAt) &&
			(k.Digest == f.digest || k.Content == f.content && !f.isAnonymous())
	})
}

// isOld reports whether a contact request that is new to us was there before we began to watch its
// insertion. Without a readable time it is live, except at the first poll of what was there before
// us.
func (c *comparison) isOld(f *found) bool {
	if f.CreatedAt.IsZero() {
		return c.Insertion.Baseline && !c.Insertion.Polled
	}
	return f.CreatedAt.Before(c.startOf(f.HasZone())) || f.CreatedAt.Before(c.forgotten())
}

// forgotten is the moment before which a store that was lost or set back takes contact requests for
// old: they may have been announced, and the stream knows them no more. Zero: there is none.
func (c *comparison) forgotten() time.Time {
	if c.Retention <= 0 || !c.Prior.State.SetBack && c.Prior.State.HeardUntil.IsZero() {
		return time.Time{}
	}
	return c.at.Add(-c.Retention)
}

// after is when the insertion was read well before; zero: never.
func (c *comparison) after() time.Time {
	if !c.Before.IsZero() {
		return c.Before.UTC()
	}
	return c.Insertion.LastPoll.UTC()
}

func (c *comparison) common(origin events.Origin) events.Common {
	return events.Common{AgencyID: c.AgencyID, Origin: origin, ObservedAt: c.at, ObservedAfter: c.after()}
}

// update compares a known contact request with what is read of it.
func (c *comparison) update(k store.ContactRequest, f *found) {
	before := k
	switch emptied := emptiedFields(k, f); {
	case len(emptied) == 0:
		k.Emptied = time.Time{}
		c.change(&k, f)
	case k.Emptied.IsZero():
		k.Emptied = c.at // one reading may be a failure behind the API
	case c.at.Sub(k.Emptied) >= c.apart():
		c.redact(&k, f, emptied)
	}
	if k.Emptied.IsZero() && (!k.Redacted || f.isAnonymous()) { // else the person would be gone, or back
		k.Fingerprint, k.Content = f.fingerprint, f.content
	}
	if f.other != (store.Short{}) {
		k.Other = f.other
	}
	if !f.CreatedAt.IsZero() && !isSameSecond(k.CreatedAt, f.CreatedAt) {
		k.CreatedAt = f.CreatedAt
	}
	if !reflect.DeepEqual(k, before) {
		c.Contacts = append(c.Contacts, k)
	}
}

// change announces that a contact request differs from what was read before, unless other rules
// made its digest. A response older than a redaction restores no person.
func (c *comparison) change(k *store.ContactRequest, f *found) {
	differs, sameRules := k.Digest != f.digest, k.Rules == c.Rules.contactRequest
	if k.Redacted || !differs && sameRules {
		return
	}
	k.Digest, k.Rules, k.Fields = f.digest, c.Rules.contactRequest, personFields(f)
	if f.moved || !differs || !sameRules {
		return
	}
	k.Revision++
	common, person, record := c.person(events.OriginLive, f)
	c.announce(&events.ContactRequestChanged{
		Common: common, PropertyReferenceID: c.Insertion.Reference, ContactRequestID: k.Given(),
		Identity: identityOf(k.Nameless), CreatedAt: f.CreatedAt, Score: f.Score, Contact: person,
		Insertion: c.summary(), Defects: f.Defects, Record: record,
		Revision: k.Revision, Digest: f.ContactRequest.Digest(c.Rules.outside),
	})
}

// redact announces that members of a person are gone for good.
func (c *comparison) redact(k *store.ContactRequest, f *found, emptied []string) {
	c.redacted++
	k.Emptied, k.Redacted, k.Revision = time.Time{}, true, k.Revision+1
	k.Digest, k.Rules = f.digest, c.Rules.contactRequest
	k.Fields = slices.Clone(k.Fields)
	for n := range k.Fields { // whose names stay: one that was erased by a person has none
		k.Fields[n].Empty = k.Fields[n].Empty || slices.Contains(emptied, k.Fields[n].Name)
	}
	c.announce(&events.ContactRequestRedacted{
		Common: c.common(events.OriginLive), PropertyReferenceID: c.Insertion.Reference,
		ContactRequestID: k.Given(), Identity: identityOf(k.Nameless), RedactedFields: emptied,
		CreatedAt: f.CreatedAt,
		Revision:  k.Revision, Digest: f.ContactRequest.Digest(c.Rules.outside),
	})
}

// personFields are the members that hold the person now, by name. What they hold is not remembered.
func personFields(f *found) []store.Field {
	list := []store.Field{}
	for _, p := range f.PersonFields() {
		if !p.Empty {
			list = append(list, store.Field{Name: p.Name})
		}
	}
	return list
}

// emptiedFields names the members that held the person and are null or empty now; an empty member
// that held the person stands for all of its own. A member that is absent is no redaction.
func emptiedFields(k store.ContactRequest, f *found) (names []string) {
	for _, now := range f.PersonFields() {
		for _, held := range k.Fields {
			if now.Empty && !held.Empty && (held.Name == now.Name || strings.HasPrefix(held.Name, now.Name+"/")) {
				names = append(names, held.Name)
			}
		}
	}
	return names
}

// leastEmptied is how many people must vanish from a response at least, before it counts as a
// failure behind the API.
const leastEmptied = 3

// countEmptied counts the people who have vanished, where they are most of the response.
func (c *comparison) countEmptied(all []*found) {
	emptied, people := 0, 0
	for _, f := range all {
		isHeld := func(held store.Field) bool { return !held.Empty }
		if f.known == nil || f.twin || !slices.ContainsFunc(f.known.Fields, isHeld) {
			continue
		}
		people++
		if len(emptiedFields(*f.known, f)) > 0 {
			emptied++
		}
	}
	if emptied >= leastEmptied && 2*emptied > people {
		c.emptied, c.people = emptied, people
	}
}

// apart is how long members must be empty before that is believed.
func (c *comparison) apart() time.Duration {
	switch {
	case c.emptied == 0:
		return c.Apart
	case c.Prior.State.Redaction != nil && c.Prior.State.Redaction.Approved:
		return 0
	}
	return max(c.Apart, c.HoldFor)
}

// holdRedactions holds the redaction of most people of a response, for the whole agency: what fails
// behind one insertion fails behind others. The hold ends when none of its insertions shows such a
// mass any more that is not believed.
func (c *comparison) holdRedactions() {
	state, reference, held := c.Prior.State, c.Insertion.Reference, c.redacted < c.emptied
	if held == (state.Redaction != nil && slices.Contains(state.Redaction.Insertions, reference)) {
		return
	}
	switch {
	case !held:
		c.announce(endRedactions(&state, c.AgencyID, []string{reference}, c.at)...)
	case state.Redaction == nil:
		h := store.Held{
			Reason: massDisappearance, Since: c.at, Until: c.at.Add(max(c.Apart, c.HoldFor)),
			Missing: c.emptied, Known: c.people, Insertions: []string{reference},
		}
		state.Redaction = &h
		c.announce(&events.WatchChangeHeld{
			Common:    events.Common{AgencyID: c.AgencyID, ObservedAt: c.at},
			Operation: string(listings.OperationContactRequests), Reason: h.Reason, Missing: h.Missing,
			Known: h.Known, Until: h.Until, Approve: "doorbell approve " + c.AgencyID,
		})
	default:
		h := *state.Redaction
		h.Missing, h.Known = h.Missing+c.emptied, h.Known+c.people
		h.Insertions = append(slices.Clip(h.Insertions), reference)
		state.Redaction = &h
	}
	c.Effects.State = &state
}

// endRedactions takes insertions out of a hold of redactions, which ends with the last.
func endRedactions(state *store.Agency, agencyID string, references []string, at time.Time) []events.Payload {
	if state.Redaction == nil {
		return nil
	}
	h := *state.Redaction
	h.Insertions = slices.DeleteFunc(slices.Clone(h.Insertions), func(r string) bool {
		return slices.Contains(references, r)
	})
	if state.Redaction = &h; len(h.Insertions) > 0 {
		return nil
	}
	state.Redaction = nil
	return []events.Payload{HoldEnds(agencyID, listings.OperationContactRequests, h, at)}
}
