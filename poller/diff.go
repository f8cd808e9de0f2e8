package poller

import (
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// lateArrivals is how far behind its moment a contact request may become visible and still be news.
const lateArrivals = 48 * time.Hour

// sight is the circumstances of one look: who, when, after which good look before it.
type sight struct {
	agencyID string
	at       time.Time // our clock
	after    time.Time // the previous good look; zero if there was none
	emit     bool      // the baseline is announced
}

func (s sight) common(origin events.Origin) events.Common {
	return events.Common{AgencyID: s.agencyID, Origin: origin, ObservedAt: s.at, ObservedAfter: s.after}
}

// known is what the store holds of an insertion.
type known struct {
	store.Insertion
	record []byte
	exists bool
}

// insertionDiff is what one sighting of an insertion changes. Nothing is to be written unless write is set.
type insertionDiff struct {
	next      store.Insertion
	newRecord bool
	payload   events.Payload // nil: nothing to say
	write     bool
	fresh     bool // never seen before
	published bool // new or back: its contact requests are to be polled at once
}

// diffInsertion compares a record that was just read with what is known of its reference. What is drift of its page is no
// change. It is a pure function.
func diffInsertion(s sight, a store.Agency, k known, read listings.Insertion, digest [32]byte, r rules, drifted drift) insertionDiff {
	switch {
	case !k.exists:
		return newInsertion(s, a, read, digest, r)
	case k.Outside && refiltering(a):
		return insideAgain(a, k, digest, r)
	case !k.GoneSince.IsZero():
		return reappeared(s, k, read, digest, r)
	}
	d := insertionDiff{next: k.Insertion}
	if k.Missing > 0 || !k.LastSeen.IsZero() {
		d.next.Missing, d.next.Moved, d.next.LastSeen = 0, false, time.Time{}
		d.write = true
	}
	if k.Digest == digest && k.Rules == r.insertion {
		return d
	}
	d.next.Digest, d.next.Rules = digest, r.insertion
	d.write, d.newRecord = true, true
	if k.Rules != r.insertion {
		return d // other rules made the old digest: renewed without a word
	}
	all := changes(k.record, read.Record, r.ignoreInsertion)
	differing := len(all)
	left := drifted.without(all)
	if differing > 0 && len(left) == 0 {
		return d
	}
	d.next.Revision++
	list, cut := events.CapChanges(left)
	p := &events.InsertionChanged{
		Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
		Episode: d.next.Episode, Revision: d.next.Revision, Changes: list,
		Insertion: summary(read), Defects: read.Defects, Record: read.Record, Digest: digest,
	}
	p.Truncated = cut
	d.payload = p
	return d
}

// newInsertion is a reference that was never seen: part of the baseline, or news.
func newInsertion(s sight, a store.Agency, read listings.Insertion, digest [32]byte, r rules) insertionDiff {
	d := insertionDiff{
		write: true, newRecord: true, fresh: true, published: true,
		next: store.Insertion{
			Reference: read.Reference, Digest: digest, Rules: r.insertion, Episode: 1,
			FirstSeen: s.at, Baseline: !a.Baselined, Start: contactStart(a),
		},
	}
	origin := events.OriginLive
	if !a.Baselined {
		origin = events.OriginBaseline
		if !s.emit {
			return d
		}
	}
	d.payload = &events.InsertionAppeared{
		Common: s.common(origin), PropertyReferenceID: read.Reference, Episode: 1,
		Insertion: summary(read), Defects: read.Defects, Record: read.Record,
	}
	return d
}

// contactStart is the moment before which contact requests of an insertion that is new to us are old: the begin of our
// watch for the baseline, else the last complete walk without it, less the time that arrivals may be late, but not before
// our watch began: an insertion that was withdrawn before it and comes back brings old ones along. An API may tell times in
// whole seconds, so what was made in the second of the begin is news.
func contactStart(a store.Agency) time.Time {
	begin := a.WatchStart
	if !a.HeardUntil.IsZero() && a.HeardUntil.Before(begin) {
		begin = a.HeardUntil // of a watch that was lost with its store; what it has told is known by its id
	}
	begin = begin.Truncate(time.Second)
	if !a.Baselined || a.LastCompleteWalk.IsZero() {
		if a.BaselineSince.After(begin) {
			return a.BaselineSince.Truncate(time.Second)
		}
		return begin
	}
	if start := lastWithout(a).Add(-lateArrivals); start.After(begin) {
		return start
	}
	return begin
}

// lastWithout is the last complete walk that had not shown what is told now.
func lastWithout(a store.Agency) time.Time {
	if a.LastToldWalk.IsZero() {
		return a.LastCompleteWalk
	}
	return a.LastToldWalk
}

// reappeared is a reference that had disappeared and is listed again: a new episode, told by one event.
func reappeared(s sight, k known, read listings.Insertion, digest [32]byte, r rules) insertionDiff {
	d := insertionDiff{next: k.Insertion, write: true, newRecord: true, published: true}
	gone := k.GoneSince
	d.next.Episode++
	d.next.Outside = false
	d.next.Revision = 0
	d.next.Digest, d.next.Rules = digest, r.insertion
	d.next.Missing, d.next.Moved, d.next.LastSeen, d.next.GoneSince = 0, false, time.Time{}, time.Time{}
	list, cut := events.CapChanges(changes(k.record, read.Record, r.ignoreInsertion))
	p := &events.InsertionReappeared{
		Common: s.common(events.OriginLive), PropertyReferenceID: read.Reference,
		Episode: d.next.Episode, DisappearedAt: gone, Changes: list,
		Insertion: summary(read), Defects: read.Defects, Record: read.Record,
	}
	p.Truncated = cut
	d.payload = p
	return d
}

// insideAgain is an insertion that another filter had left out: part of the baseline of the one that holds it.
func insideAgain(a store.Agency, k known, digest [32]byte, r rules) insertionDiff {
	d := insertionDiff{next: k.Insertion, write: true, newRecord: true, fresh: true, published: true}
	d.next.Outside, d.next.GoneSince = false, time.Time{}
	d.next.Digest, d.next.Rules = digest, r.insertion
	d.next.Baseline, d.next.Polled, d.next.Start = true, false, contactStart(a)
	return d
}

// missing is the absence of an insertion from a complete walk, whether that counts or not. lastSeen is the latest moment at
// which it was surely there.
func missing(i store.Insertion, lastSeen time.Time, moved, counts bool) store.Insertion {
	if i.LastSeen.IsZero() {
		i.LastSeen = lastSeen
		if i.FirstSeen.After(lastSeen) {
			i.LastSeen = i.FirstSeen
		}
	}
	if counts {
		i.Missing++
	}
	i.Moved = i.Moved || moved
	return i
}

// confirmations is how many complete walks must miss an insertion: twice as many where pages moved under a walk.
func confirmations(i store.Insertion, wanted int) int {
	if i.Moved {
		return 2 * wanted
	}
	return wanted
}

// disappeared is an insertion of which enough complete walks did not know.
func disappeared(s sight, k known) (store.Insertion, events.Payload) {
	next := k.Insertion
	next.GoneSince = s.at
	last := listings.Insertion{Reference: k.Reference, Record: k.record}
	return next, &events.InsertionDisappeared{
		Common: s.common(events.OriginLive), PropertyReferenceID: k.Reference, Episode: k.Episode,
		LastSeenAt: k.LastSeen, WalksWithout: k.Missing, Insertion: summary(last), Record: k.record,
	}
}

// implausible says whether so many insertions are gone at once that it is not believed without time or a person's word.
func implausible(missing, known, listed int) (reason string, held bool) {
	switch {
	case known > 0 && listed == 0:
		return "empty_list", true
	case missing > 5 && missing*10 > known*3:
		return "mass_disappearance", true
	}
	return "", false
}

func summary(i listings.Insertion) events.InsertionSummary {
	if len(i.Record) == 0 {
		return events.InsertionSummary{}
	}
	return insertionSummary(i.Summary())
}

// refiltered says whether an insertion came into the watch because the filter has changed: what was there before is then
// never announced.
func refiltered(a store.Agency, i store.Insertion) bool {
	return i.Baseline && !a.BaselineSince.IsZero() && !i.Start.Before(a.BaselineSince.Truncate(time.Second))
}

// refiltering says whether it is not known yet what another filter than before leaves out: two complete walks tell, also
// where partial ones have ended the baseline.
func refiltering(a store.Agency) bool {
	return a.BaselineReason == baselineFilter && (!a.Baselined || a.CompleteWalks < 2)
}
