package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// LateArrivals is how far behind its moment a contact request may become visible and still be live.
const LateArrivals = 48 * time.Hour

// Observation is the circumstances of one look: who, when, after which good look before it.
type Observation struct {
	AgencyID string
	At       time.Time // our clock
	After    time.Time // the previous good look; zero if there was none
	Emit     bool      // the baseline is announced
}

func (s Observation) common(origin events.Origin) events.Common {
	return events.Common{AgencyID: s.AgencyID, Origin: origin, ObservedAt: s.At, ObservedAfter: s.After}
}

// Known is what the store holds of an insertion.
type Known struct {
	store.Insertion
	Record []byte
	Exists bool
}

// Paged is what a page of insertions changes, and what follows from it.
type Paged struct {
	Effects
	Drift     Drift             // of the walk so far
	Rotating  []string          // paths at which most records of the page have changed
	Published []store.Insertion // are listed for the first time, or again: they are to be polled
	Edited    []string          // references of records that have changed
}

// Page compares the records of a page with what is known of their references. What earlier pages
// of the walk have shown to be drift is drift.
func Page(
	s Observation, a store.Agency, known []Known, read []Listed, r Rules, earlier Drift,
) Paged {
	r = r.leavingOut(a)
	changed, comparable := make([][]events.Change, len(known)), 0
	for n, k := range known {
		if !k.Exists || !k.GoneSince.IsZero() || k.Rules != r.insertion {
			continue
		}
		comparable++
		if k.Digest != read[n].Digest {
			changed[n] = changes(k.Record, read[n].Record, r.ignoreInsertion)
		}
	}
	p := Paged{Effects: Effects{Records: map[string][]byte{}}}
	var drifted []form
	p.Drift, drifted, p.Rotating = earlier.with(changed, comparable)
	if len(drifted) > 0 {
		p.announce(driftEvent(s.AgencyID, drifted, s.At))
	}
	for n, k := range known {
		p.see(s, &a, k, read[n].Insertion, p.Drift.without(changed[n]), r)
	}
	return p
}

// see takes one record that was just read. changed is what differs from the record that is known,
// but for what has drifted; it is empty where other rules made the known digest. A rule about a
// change must follow from it alone: what is ignored, volatile or drifted differs between the two
// records as well.
func (p *Paged) see(
	s Observation, a *store.Agency, k Known, read listings.Insertion,
	changed []events.Change, r Rules,
) {
	next := k.Insertion
	next.Digest, next.Rules = read.Digest, r.insertion
	next.Missing, next.LastSeen, next.GoneSince = 0, time.Time{}, time.Time{}
	published := true
	switch insideAgain := k.Outside && refiltering(*a); {
	case !k.Exists || insideAgain: // part of the baseline, or live
		if !k.Exists {
			next.Reference, next.Episode, next.FirstSeen = read.Reference, 1, s.At
		}
		next.Baseline = !a.Baselined || insideAgain
		next.Outside, next.Polled, next.Listed, next.Start = false, false, false, contactStart(*a)
		origin := events.OriginLive
		if next.Baseline {
			if !s.Emit {
				break
			}
			origin = events.OriginBaseline
			a.Announced++
			p.State = a
		}
		p.announce(&events.InsertionAppeared{
			Common: s.common(origin), PropertyReferenceID: read.Reference, Episode: next.Episode,
			Insertion: summary(read), Defects: read.Defects, Record: read.Record,
			Digest: read.Digest,
		})
	case !k.GoneSince.IsZero(): // a new episode
		next.Outside, next.Episode, next.Revision = false, next.Episode+1, 0
		p.announce(&events.InsertionReappeared{
			Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
			Episode: next.Episode, DisappearedAt: k.GoneSince,
			Changes:   changes(k.Record, read.Record, r.ignoreInsertion),
			Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: read.Digest,
		})
	default:
		published = false
		if len(changed) == 0 {
			break
		}
		next.Revision++
		p.Edited = append(p.Edited, read.Reference)
		p.announce(&events.InsertionChanged{
			Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
			Episode: next.Episode, Revision: next.Revision, Changes: changed,
			Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: read.Digest,
		})
	}
	if published {
		p.Published = append(p.Published, next)
	}
	if published || next != k.Insertion {
		p.Insertions = append(p.Insertions, next)
	}
	if published || next.Digest != k.Digest || next.Rules != k.Rules {
		p.Records[read.Reference] = read.Record
	}
}

// contactStart is the moment before which contact requests of an insertion that is new to us are
// old: the begin of our watch for the baseline, else the last complete walk without it, less the
// time that arrivals may be late, but not before our watch began: an insertion that was withdrawn
// before it and comes back brings old ones along. Two clocks never agree, so the begin lies a
// little before the moment that is remembered.
func contactStart(a store.Agency) time.Time {
	begin := a.WatchStart.Add(-beforeBegin)
	if !a.HeardUntil.IsZero() && a.HeardUntil.Before(begin) {
		// of a watch that was lost with its store; what it has announced is known by its id
		begin = a.HeardUntil
	}
	if !a.Baselined || a.LastCompleteWalk.IsZero() {
		if a.BaselineSince.After(begin) {
			return a.BaselineSince.Truncate(time.Second)
		}
		return begin
	}
	if start := a.LastCompleteWalk.Add(-LateArrivals); start.After(begin) {
		return start
	}
	return begin
}

// summary says in the words of an event what listings read.
func summary(i listings.Insertion) events.InsertionSummary {
	if len(i.Record) == 0 {
		return events.InsertionSummary{}
	}
	s := i.Summary()
	return events.InsertionSummary{
		Title: s.Title, Street: s.Street, PostalCode: s.PostalCode, Locality: s.Locality,
		OfferType: s.OfferType, RankType: s.RankType, Rooms: s.Rooms, LivingSpace: s.LivingSpace,
		Price: (*events.Price)(s.Price), URL: s.URL,
	}
}

// refiltered says whether an insertion came into the watch because the filter has changed: what was
// there before is then never announced.
func refiltered(a store.Agency, i store.Insertion) bool {
	return i.Baseline && !a.BaselineSince.IsZero() &&
		!i.Start.Before(a.BaselineSince.Truncate(time.Second))
}

// changes lists what differs between two records, by path: objects member by member, everything
// else whole. Members below an ignored pointer never appear.
func changes(before, after []byte, ignored []string) []events.Change {
	found := compare(nil, "", before, after, ignored)
	slices.SortFunc(found, func(a, b events.Change) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func compare(
	found []events.Change, path string, before, after json.RawMessage, ignored []string,
) []events.Change {
	if slices.Contains(ignored, path) || same(before, after) {
		return found
	}
	old, oldIsObject := members(before)
	now, nowIsObject := members(after)
	if !oldIsObject || !nowIsObject {
		return append(found, events.Change{Path: path, Before: before, After: after})
	}
	for name, value := range old {
		found = compare(found, path+"/"+EscapePointer.Replace(name), value, now[name], ignored)
	}
	for name, value := range now {
		if _, both := old[name]; !both {
			found = compare(found, path+"/"+EscapePointer.Replace(name), nil, value, ignored)
		}
	}
	return found
}

var EscapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// same compares two values in canonical form; nil is an absent one.
func same(a, b json.RawMessage) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	if bytes.Equal(a, b) {
		return true
	}
	da, errA := listings.Digest(a, nil)
	db, errB := listings.Digest(b, nil)
	return errA == nil && errB == nil && da == db
}

func members(v json.RawMessage) (map[string]json.RawMessage, bool) {
	if len(v) == 0 || v[0] != '{' {
		return nil, false
	}
	m := map[string]json.RawMessage{}
	return m, json.Unmarshal(v, &m) == nil
}

// BaselineFilter is the reason of a baseline that another filter has begun.
const BaselineFilter = "filter_changed"

// Listed is an insertion as a page shows it.
type Listed struct {
	listings.Insertion
	At   time.Time
	Left map[string]uint64 // hashes of the members that are volatile, by path
}

// These change with everything in the code that makes equal records give other digests. Each has
// its own: a change that comes with a renewal is not announced.
const (
	insertionRules      = 2
	contactRequestRules = 4
)

// Rules is what makes a digest: digests of other rules are renewed at the next reading, silently.
type Rules struct {
	ignoreInsertion      []string
	ignoreContactRequest []string // beside the score and the ids
	ids                  []string // candidates for the id of contact requests
	outside              listings.Outside
	insertion            uint32 // names the rules of insertions
	contactRequest       uint32 // names the rules of contact requests
}

func NewRules(ignoreInsertion, ignoreContactRequest, ids []string) Rules {
	return Rules{
		ignoreInsertion: ignoreInsertion, ignoreContactRequest: ignoreContactRequest, ids: ids,
		outside:        listings.NewOutside(ignoreContactRequest, ids),
		insertion:      rulesID(insertionRules, ignoreInsertion),
		contactRequest: rulesID(contactRequestRules, slices.Concat(ignoreContactRequest, ids)),
	}
}

// leavingOut is the rules for an agency, some members of whose records are volatile.
func (r Rules) leavingOut(state store.Agency) Rules {
	if len(state.Volatile) == 0 {
		return r
	}
	return NewRules(
		slices.Concat(r.ignoreInsertion, volatilePaths(state, listings.OperationInsertions)),
		slices.Concat(r.ignoreContactRequest,
			volatilePaths(state, listings.OperationContactRequests)),
		r.ids,
	)
}

func rulesID(version int, ignored []string) uint32 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", version, ignored))
	return binary.BigEndian.Uint32(sum[:4])
}

// contact says in the words of an event what listings read of a person.
func contact(c listings.Contact) events.Contact {
	return events.Contact{
		Salutation: c.Salutation, Gender: c.Gender, FirstName: c.FirstName, LastName: c.LastName,
		FullName: c.FullName, Company: c.Company, Email: c.Email, Phone: c.Phone,
		PhoneRaw: c.PhoneRaw, Address: (*events.Address)(c.Address), Language: c.Language,
		Message: c.Message, PreferredContact: c.PreferredContact, Portal: c.Portal,
	}
}
