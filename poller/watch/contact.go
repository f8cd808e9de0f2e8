package watch

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

func identityOf(nameless bool) events.Identity {
	if nameless {
		return events.IdentityFingerprint
	}
	return events.IdentityID
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
	fresh    map[string]time.Time // creation times of those that were unknown before this catch-up
	new      int                  // was not known at all
	missing  int                  // is known and not shown
	same     bool                 // each is known by its id and reads as it did
	waits    []time.Duration      // of those that are announced as live
	readings []Reading            // of those that were known

	emptied, people int // of those that are known; 0 where it is no mass
	redacted        int // of those that are emptied: are believed to be
}

// compare takes what a response shows of each contact request.
func (c *comparison) compare(requests []listings.ContactRequest) (moved bool) {
	all := c.read(requests)
	c.same = !slices.ContainsFunc(all, func(f *found) bool { return !f.unchanged })
	if c.same {
		c.missing = len(c.Known) - len(all)
	} else {
		all = identify(c.Insertion.Reference, all, c.Rules)
		c.missing, moved = match(all, c.Known, c.view, c.Rules.contactRequest)
		c.countEmptied(all)
	}
	c.nameNew(all)
	for _, f := range all {
		id, fresh := f.as, true
		if k := f.known; k == nil {
			c.add(f)
		} else if id, fresh = k.ID, k.Epoch >= c.Insertion.Epoch; !f.twin {
			c.readings = append(c.readings, c.reading(*k, f))
			if !f.unchanged || f.other != (store.Short{}) && f.other != k.Other {
				c.update(*k, f)
			}
		}
		c.shown = append(c.shown, id)
		if fresh {
			c.fresh[id] = f.CreatedAt
		}
	}
	return moved
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
func (c *comparison) add(f *found) {
	c.new++
	c.Contacts = append(c.Contacts, store.ContactRequest{
		ID: f.as, Fingerprint: f.fingerprint, Content: f.content, Other: f.other, Digest: f.digest,
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
	// else the person would be gone, or back
	if k.Emptied.IsZero() && (!k.Redacted || f.isAnonymous()) {
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
			if now.Empty && !held.Empty &&
				(held.Name == now.Name || strings.HasPrefix(held.Name, now.Name+"/")) {
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
	switch before := state.Redaction; {
	case held == (before != nil && slices.Contains(before.Insertions, reference)):
		return
	case held:
		h := store.Held{Reason: massDisappearance, Since: c.at, Until: c.at.Add(max(c.Apart, c.HoldFor))}
		if before != nil {
			h = *before
		}
		h.Missing, h.Known = h.Missing+c.emptied, h.Known+c.people
		h.Insertions = append(slices.Clip(h.Insertions), reference)
		if state.Redaction = &h; before == nil {
			c.announce(holdBegins(c.AgencyID, listings.OperationContactRequests, h))
		}
	default:
		c.announce(endRedactions(&state, c.AgencyID, []string{reference}, c.at)...)
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
	return []events.Payload{holdEnds(agencyID, listings.OperationContactRequests, h, at)}
}
