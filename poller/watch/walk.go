package watch

import (
	"bytes"
	"iter"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Walk is one reading of all pages of an agency's insertions, as far as it has come.
type Walk struct {
	Began time.Time
	Seen  map[string]struct{} // references
	Fresh int                 // insertions that were never seen before
}

// NewWalk begins a walk.
func NewWalk(now time.Time) *Walk { return &Walk{Began: now.UTC(), Seen: map[string]struct{}{}} }

// Unseen returns what a page shows that this walk has not seen yet. Where a reference is repeated,
// the first record of a walk decides, and of two on one page the smaller digest: otherwise every
// walk would find a change.
func (w *Walk) Unseen(page *listings.InsertionsPage) (first []Listed) {
	place := make(map[string]int, len(page.Insertions))
	for _, i := range page.Insertions {
		if _, seen := w.Seen[i.Reference]; seen {
			continue
		}
		one := Listed{Insertion: i, At: page.Received.UTC()}
		n, twice := place[i.Reference]
		switch {
		case !twice:
			place[i.Reference] = len(first)
			first = append(first, one)
		case bytes.Compare(i.Digest[:], first[n].Digest[:]) < 0:
			first[n] = one
		}
	}
	for reference := range place {
		w.Seen[reference] = struct{}{}
	}
	return first
}

// WalkRules are the settings of walks.
type WalkRules struct {
	Interval time.Duration // between two walks
	HoldFor  time.Duration // how long an implausible change is not believed
}

// Walked is what one reading of all pages has shown.
type Walked struct {
	listings.Verdict
	*Walk
	Failing time.Duration // for how long walks have failed
	Alarms  Alarms        // that are on
}

// WalkEnd is what follows from a walk as a whole.
type WalkEnd struct {
	Effects
	Gone      map[string]struct{} // disappeared, before this walk or with it
	Over      []string            // of those: not polled any more
	Published int                 // insertions
	// another walk follows immediately, because the baseline is not settled
	Again bool
}

const (
	// confirmingWalks is how many complete walks must miss an insertion before it has disappeared.
	confirmingWalks = 2
	// structuralLimit is how many partial walks in a row make an alarm, and end a baseline without
	// a complete one.
	structuralLimit = 3
	// emptyFor is how long an empty list is not believed.
	emptyFor = 24 * time.Hour
)

// EndWalk decides what a walk as a whole changes, by all that is remembered of the agency: only a
// complete one counts towards disappearing. record returns the record of an insertion as last read.
func EndWalk(
	agencyID string, r WalkRules, state store.Agency, all iter.Seq[store.Insertion],
	record func(reference string) []byte, w Walked, now time.Time,
) WalkEnd {
	e := walkEnd{
		WalkEnd{Effects: Effects{State: &state}, Gone: map[string]struct{}{}},
		agencyID, r,
		w, now.UTC(),
	}
	missing := e.count(all)
	if w.Complete {
		e.complete(missing, record)
	} else {
		e.partial()
	}
	e.announce(endRedactions(e.State, agencyID, e.Over, e.now)...)
	return e.WalkEnd
}

type walkEnd struct {
	WalkEnd
	agencyID string
	rules    WalkRules
	walk     Walked
	now      time.Time
}

func (e *walkEnd) common() events.Common {
	return events.Common{AgencyID: e.agencyID, ObservedAt: e.now}
}

// count counts what is published and what has disappeared, and returns what the walk did not list.
func (e *walkEnd) count(all iter.Seq[store.Insertion]) (missing []store.Insertion) {
	for i := range all {
		_, listed := e.walk.Seen[i.Reference]
		switch {
		case i.GoneSince.IsZero():
			e.Published++
			if !listed {
				missing = append(missing, i)
			}
			continue
		case i.Outside || e.now.Sub(i.GoneSince) > LateArrivals:
			e.Over = append(e.Over, i.Reference)
		}
		e.Gone[i.Reference] = struct{}{}
	}
	return missing
}

func (e *walkEnd) complete(missing []store.Insertion, record func(string) []byte) {
	s, began := e.State, e.walk.Began
	e.learnEnd()
	refiltered := refiltering(*s)
	// Absence needs walks with time between them, however often one is asked for. Where a baseline
	// is made, or a person has said that what is missing is gone, every walk counts.
	counts := !s.Baselined || refiltered || s.Held != nil && s.Held.Approved ||
		began.Sub(s.LastCompleteWalk).Abs() >= e.rules.Interval/2
	for n := range missing {
		i := &missing[n]
		if i.LastSeen.IsZero() {
			i.LastSeen = later(s.LastCompleteWalk, i.FirstSeen)
		}
		if counts {
			i.Missing++
		}
	}
	e.Insertions = missing
	// That another filter shows nothing is believed after some time.
	tooEmpty := refiltered && len(e.walk.Seen) == 0 && e.Published > 0 &&
		began.Before(s.BaselineSince.Add(e.rules.HoldFor))
	settled := s.CompleteWalks > 0 && !tooEmpty
	if refiltered && settled || !refiltered && !e.hold(len(missing)) {
		for n := range missing {
			if missing[n].Missing >= confirmingWalks {
				e.vanish(&missing[n], refiltered, record)
			}
		}
	}
	s.CompleteWalks++
	s.PartialWalks = 0
	if counts {
		s.LastCompleteWalk = began
	}
	if !s.Baselined && settled {
		e.baselined(true)
	}
	e.Again = !s.Baselined && s.CompleteWalks == 1
}

// vanish takes an insertion that enough complete walks did not list. One that another filter than
// before leaves out is outside, silently.
func (e *walkEnd) vanish(i *store.Insertion, outside bool, record func(string) []byte) {
	e.Gone[i.Reference] = struct{}{}
	e.Published--
	if outside {
		i.Outside, i.GoneSince = true, e.walk.Began
		i.Missing, i.LastSeen = 0, time.Time{}
		e.Over = append(e.Over, i.Reference)
		return
	}
	i.GoneSince = e.now
	last := listings.Insertion{Reference: i.Reference, Record: record(i.Reference)}
	common := e.common()
	common.Origin, common.ObservedAfter = events.OriginLive, i.LastSeen
	e.announce(&events.InsertionDisappeared{
		Common: common, PropertyReferenceID: i.Reference, Episode: i.Episode,
		LastSeenAt: i.LastSeen, WalksWithout: i.Missing, Insertion: summary(last),
		Record: last.Record, Digest: i.Digest,
	})
}

// partial counts walks that cannot be complete: because of how the API pages, or because they have
// failed for long. Three in a row raise an alarm; three in a row that brought nothing new end a
// baseline. A list of which not even the first page can be read is another alarm.
func (e *walkEnd) partial() {
	w, s := e.walk, e.State
	if w.Pages == 0 || w.Reason == listings.ReasonCanceled {
		return
	}
	lasting := w.Structural && w.Reason != listings.ReasonPagesMoved || w.Failing >= failingFor
	if w.Fresh > 0 {
		s.PartialWalks = 0
	} else if s.PartialWalks++; lasting && !s.Baselined && s.PartialWalks >= structuralLimit {
		e.baselined(false)
	}
	o := s.Operation(string(listings.OperationInsertions))
	if o.PartialWalks++; o.PartialWalks >= structuralLimit && lasting {
		incomplete := AlarmOf(Incomplete, listings.OperationInsertions, "")
		e.Raise(w.Alarms, store.Alarm{AlarmID: incomplete, Since: e.now}, &events.WatchGapDetected{
			Common: e.common(), Operation: string(listings.OperationInsertions),
			Reason: Incomplete, Reached: w.References, From: s.LastCompleteWalk, To: e.now,
		})
	}
	s.SetOperation(string(listings.OperationInsertions), o)
}

// learnEnd remembers the page size, and that walks are complete again.
func (e *walkEnd) learnEnd() {
	op := string(listings.OperationInsertions)
	o := e.State.Operation(op)
	o.PartialWalks = 0
	switch o.Size = e.walk.Size; {
	case e.walk.Size >= listings.PageSize:
		o.Size = 0
	case e.walk.Size == 0:
		o.Size = -1 // is left to the API
	}
	e.Clear(e.walk.Alarms, AlarmOf(Incomplete, listings.OperationInsertions, ""), e.agencyID, e.now)
	e.State.SetOperation(op, o)
}

// baselined ends a baseline: anything new from now on is announced.
func (e *walkEnd) baselined(complete bool) {
	s := e.State
	s.Baselined = true
	began := s.WatchStart
	if s.BaselineReason != "" {
		began = s.BaselineSince
	}
	e.announce(&events.WatchBaselined{
		Common: e.common(), StartedAt: began, Complete: complete, Insertions: len(e.walk.Seen),
		Announced: s.Announced,
	})
}

// hold reports whether a mass disappearance is held. It is believed when a complete walk still
// shows it after long enough, and the hold ends when everything is announced.
func (e *walkEnd) hold(missing int) bool {
	s := e.State
	reason, odd := implausible(missing, e.Published, len(e.walk.Seen))
	switch {
	case odd && (s.Held == nil || grown(*s.Held, reason, missing, e.Published)):
		long := e.rules.HoldFor
		if reason == "empty_list" {
			long = max(long, emptyFor)
		}
		s.Held = &store.Held{
			Reason: reason, Since: e.now, Until: e.now.Add(long), Missing: missing,
			Known: e.Published,
		}
		e.announce(holdBegins(e.agencyID, "", *s.Held))
		return true
	case odd:
		return e.now.Before(s.Held.Until)
	case s.Held != nil:
		e.announce(holdEnds(e.agencyID, "", *s.Held, e.now))
		s.Held = nil
	}
	return false
}

// holdBegins announces that a change is held. The operation of a hold of insertions is not named,
// nor is it in holdEnds.
func holdBegins(agencyID string, op listings.Operation, h store.Held) events.Payload {
	return &events.WatchChangeHeld{
		Common: events.Common{AgencyID: agencyID, ObservedAt: h.Since}, Operation: string(op),
		Reason: h.Reason, Missing: h.Missing, Known: h.Known, Until: h.Until,
		Approve: "doorbell approve " + agencyID,
	}
}

// holdEnds announces that nothing is held any more.
func holdEnds(agencyID string, op listings.Operation, h store.Held, now time.Time) events.Payload {
	return &events.WatchRecovered{
		Common: events.Common{AgencyID: agencyID, ObservedAt: now}, Operation: string(op),
		Ends: "change_held", Since: h.Since,
	}
}

// massDisappearance is why the disappearance of many insertions, or people, is held.
const massDisappearance = "mass_disappearance"

// grown reports whether a change is larger than the one that is held: then it waits for its own
// time.
func grown(h store.Held, reason string, missing, published int) bool {
	_, more := implausible(missing-h.Missing, published, 1)
	return more || reason == "empty_list" && h.Reason != reason
}

// implausible reports whether the number of insertions gone at once is too large to believe without
// time or a person's approval.
func implausible(missing, known, listed int) (reason string, held bool) {
	switch {
	case known > 0 && listed == 0:
		return "empty_list", true
	case missing > 5 && missing*10 > known*3:
		return massDisappearance, true
	}
	return "", false
}

// refiltering reports whether it is not known yet what another filter than before leaves out: two
// complete walks show it, also where partial ones have ended the baseline.
func refiltering(a store.Agency) bool {
	return a.BaselineReason == BaselineFilter && (!a.Baselined || a.CompleteWalks < 2)
}

// Refilter begins the baseline of another filter. Where the first one has not come to its end,
// contact requests count from the begin of the watch still.
func Refilter(agencyID string, state store.Agency, filter string, now time.Time) (e Effects) {
	if state.Held != nil {
		e.announce(holdEnds(agencyID, "", *state.Held, now))
	}
	if !state.Baselined &&
		(state.BaselineReason == "" || state.BaselineSince.Equal(state.WatchStart)) {
		now = state.WatchStart
	}
	state.Filter, state.Held = filter, nil
	state.BaselineReason, state.BaselineSince = BaselineFilter, now
	state.Baselined, state.CompleteWalks, state.PartialWalks, state.Announced = false, 0, 0, 0
	e.State = &state
	return e
}
