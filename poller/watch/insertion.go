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

// InsertionDiff is what one sighting of an insertion changes. Nothing is to be written unless write
// is set.
type InsertionDiff struct {
	Next      store.Insertion
	NewRecord bool
	Event     events.Payload // nil: nothing to say
	Write     bool
	Fresh     bool // never seen before
	Published bool // new or back: its contact requests are to be polled at once
}

// diffInsertion compares a record that was just read with what is known of its reference. changed
// is what differs between the two, but for what has drifted.
func diffInsertion(s Observation, a store.Agency, k Known, read listings.Insertion, changed []events.Change, r Rules) InsertionDiff {
	switch {
	case !k.Exists:
		return newInsertion(s, a, read, r)
	case k.Outside && refiltering(a):
		return insideAgain(a, k, read, r)
	case !k.GoneSince.IsZero():
		return reappeared(s, k, read, r)
	}
	d := InsertionDiff{Next: k.Insertion}
	if k.Missing > 0 || !k.LastSeen.IsZero() {
		d.Next.Missing, d.Next.LastSeen = 0, time.Time{}
		d.Write = true
	}
	if k.Digest == read.Digest && k.Rules == r.insertion {
		return d
	}
	d.Next.Digest, d.Next.Rules = read.Digest, r.insertion
	d.Write, d.NewRecord = true, true
	if len(changed) == 0 { // also where other rules made the old digest
		return d
	}
	d.Next.Revision++
	d.Event = &events.InsertionChanged{
		Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
		Episode: d.Next.Episode, Revision: d.Next.Revision, Changes: changed,
		Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: read.Digest,
	}
	return d
}

// newInsertion is a reference that was never seen: part of the baseline, or live.
func newInsertion(s Observation, a store.Agency, read listings.Insertion, r Rules) InsertionDiff {
	d := InsertionDiff{
		Write: true, NewRecord: true, Fresh: true, Published: true,
		Next: store.Insertion{
			Reference: read.Reference, Digest: read.Digest, Rules: r.insertion, Episode: 1,
			FirstSeen: s.At, Baseline: !a.Baselined, Start: contactStart(a),
		},
	}
	origin := events.OriginLive
	if !a.Baselined {
		origin = events.OriginBaseline
		if !s.Emit {
			return d
		}
	}
	d.Event = &events.InsertionAppeared{
		Common: s.common(origin), PropertyReferenceID: read.Reference, Episode: 1,
		Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: read.Digest,
	}
	return d
}

// contactStart is the moment before which contact requests of an insertion that is new to us are
// old: the begin of our watch for the baseline, else the last complete walk without it, less the
// time that arrivals may be late, but not before our watch began: an insertion that was withdrawn
// before it and comes back brings old ones along. Two clocks never agree, so the begin lies a
// little before the moment that is remembered.
func contactStart(a store.Agency) time.Time {
	begin := a.WatchStart.Add(-beforeBegin)
	if !a.HeardUntil.IsZero() && a.HeardUntil.Before(begin) {
		begin = a.HeardUntil // of a watch that was lost with its store; what it has announced is known by its id
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

// reappeared is a reference that had disappeared and is listed again: a new episode, announced by
// one event.
func reappeared(s Observation, k Known, read listings.Insertion, r Rules) InsertionDiff {
	d := InsertionDiff{Next: k.Insertion, Write: true, NewRecord: true, Published: true}
	gone := k.GoneSince
	d.Next.Episode++
	d.Next.Outside = false
	d.Next.Revision = 0
	d.Next.Digest, d.Next.Rules = read.Digest, r.insertion
	d.Next.Missing, d.Next.LastSeen, d.Next.GoneSince = 0, time.Time{}, time.Time{}
	d.Event = &events.InsertionReappeared{
		Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
		Episode: d.Next.Episode, DisappearedAt: gone, Changes: changes(k.Record, read.Record, r.ignoreInsertion),
		Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: read.Digest,
	}
	return d
}

// insideAgain is an insertion that another filter had left out: part of the baseline of the one
// that holds it.
func insideAgain(a store.Agency, k Known, read listings.Insertion, r Rules) InsertionDiff {
	d := InsertionDiff{Next: k.Insertion, Write: true, NewRecord: true, Fresh: true, Published: true}
	d.Next.Outside, d.Next.GoneSince = false, time.Time{}
	d.Next.Digest, d.Next.Rules = read.Digest, r.insertion
	d.Next.Baseline, d.Next.Polled, d.Next.Listed, d.Next.Start = true, false, false, contactStart(a)
	return d
}

// missed is an insertion that a complete walk did not list. lastSeen is the latest moment at which
// it was surely there.
func missed(i store.Insertion, lastSeen time.Time, counts bool) store.Insertion {
	if i.LastSeen.IsZero() {
		i.LastSeen = lastSeen
		if i.FirstSeen.After(lastSeen) {
			i.LastSeen = i.FirstSeen
		}
	}
	if counts {
		i.Missing++
	}
	return i
}

func summary(i listings.Insertion) events.InsertionSummary {
	if len(i.Record) == 0 {
		return events.InsertionSummary{}
	}
	return insertionSummary(i.Summary())
}

// refiltered says whether an insertion came into the watch because the filter has changed: what was
// there before is then never announced.
func refiltered(a store.Agency, i store.Insertion) bool {
	return i.Baseline && !a.BaselineSince.IsZero() && !i.Start.Before(a.BaselineSince.Truncate(time.Second))
}

// changes lists what differs between two records, by path: objects member by member, everything
// else whole. Members below an ignored pointer never appear.
func changes(before, after []byte, ignored []string) []events.Change {
	found := compare(nil, "", before, after, ignored)
	slices.SortFunc(found, func(a, b events.Change) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func compare(found []events.Change, path string, before, after json.RawMessage, ignored []string) []events.Change {
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

// Reasons of a baseline.
const (
	BaselineFirst  = "first"
	BaselineFilter = "filter_changed"
)

// PageDiff is what one page of insertions changes.
type PageDiff struct {
	Insertions []InsertionDiff // as on the page
	Drift      Drift           // of the walk so far
	drifted    []form          // what this page has added to it
	Rotating   []string        // paths at which most records of the page have changed
}

// Published are the references that were not listed before, or are listed again.
func (d PageDiff) Published() (references []string) {
	for _, i := range d.Insertions {
		if i.Published {
			references = append(references, i.Next.Reference)
		}
	}
	return references
}

// Effects is what is to be written where a page changes anything.
func (d PageDiff) Effects(agencyID string, state store.Agency, page []Listed) (e Effects) {
	if len(d.drifted) > 0 {
		e.announce(driftEvent(agencyID, d.drifted, page[0].At))
	}
	announced := 0
	e.Records = map[string][]byte{}
	for n, i := range d.Insertions {
		if i.Write {
			e.Insertions = append(e.Insertions, i.Next)
		}
		if i.NewRecord {
			e.Records[page[n].Reference] = page[n].Record
		}
		if i.Event != nil {
			e.announce(i.Event)
			if i.Fresh && i.Next.Baseline {
				announced++
			}
		}
	}
	if state.Announced += announced; announced > 0 {
		e.State = &state
	}
	return e
}

// DiffPage compares the records of a page with what is known of their references. What earlier
// pages of the walk have shown to be drift is drift. It is a pure function.
func DiffPage(s Observation, a store.Agency, page []Known, read []Listed, r Rules, earlier Drift) (d PageDiff) {
	r = r.leavingOut(a)
	changed, count, known := make([][]events.Change, len(page)), map[string]int{}, 0
	for n, k := range page {
		if !k.Exists || !k.GoneSince.IsZero() || k.Rules != r.insertion {
			continue
		}
		known++
		if k.Digest != read[n].Digest {
			changed[n] = changes(k.Record, read[n].Record, r.ignoreInsertion)
		}
		for _, c := range changed[n] {
			count[c.Path]++
		}
	}
	for path, n := range count {
		if n >= volatileChanges && 2*n > known {
			d.Rotating = append(d.Rotating, path)
		}
	}
	d.Drift, d.drifted = earlier.with(changed, known)
	for n, k := range page {
		d.Insertions = append(d.Insertions, diffInsertion(s, a, k, read[n].Insertion, d.Drift.without(changed[n]), r))
	}
	return d
}

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
		outside:   listings.NewOutside(ignoreContactRequest, ids),
		insertion: rulesID(insertionRules, ignoreInsertion), contactRequest: rulesID(contactRequestRules, slices.Concat(ignoreContactRequest, ids)),
	}
}

// leavingOut is the rules for an agency, some members of whose records are volatile.
func (r Rules) leavingOut(state store.Agency) Rules {
	if len(state.Volatile) == 0 {
		return r
	}
	return NewRules(
		slices.Concat(r.ignoreInsertion, volatilePaths(state, listings.OperationInsertions)),
		slices.Concat(r.ignoreContactRequest, volatilePaths(state, listings.OperationContactRequests)),
		r.ids,
	)
}

func rulesID(version int, ignored []string) uint32 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q", version, ignored))
	return binary.BigEndian.Uint32(sum[:4])
}

// insertionSummary says in the words of an event what listings read.
func insertionSummary(s listings.Summary) events.InsertionSummary {
	return events.InsertionSummary{
		Title: s.Title, Street: s.Street, PostalCode: s.PostalCode, Locality: s.Locality,
		OfferType: s.OfferType, RankType: s.RankType, Rooms: s.Rooms, LivingSpace: s.LivingSpace,
		Price: (*events.Price)(s.Price), URL: s.URL,
	}
}

// contact says in the words of an event what listings read of a person.
func contact(c listings.Contact) events.Contact {
	return events.Contact{
		Salutation: c.Salutation, Gender: c.Gender, FirstName: c.FirstName, LastName: c.LastName, FullName: c.FullName,
		Company: c.Company, Email: c.Email, Phone: c.Phone, PhoneRaw: c.PhoneRaw, Address: (*events.Address)(c.Address),
		Language: c.Language, Message: c.Message, PreferredContact: c.PreferredContact, Portal: c.Portal,
	}
}
