package watch

import (
	"cmp"
	"iter"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// WalkRules are the settings of walks.
type WalkRules struct {
	PageSize int           // as configured
	Interval time.Duration // between two walks
	Confirm  int           // complete walks that must miss an insertion
	HoldFor  time.Duration // how long an implausible change is not believed
}

// Walked is what one reading of all pages has shown.
type Walked struct {
	listings.Verdict
	*Walk
	Unconfirmed Unconfirmed   // before it
	Counted     time.Time     // begin of the last walk that counted for what is missing; zero: none of this process
	TookLast    time.Duration // the walk before
	Failing     time.Duration // for how long walks have failed
	Alarms      Alarms        // that are on
}

// WalkEnd is what follows from a walk as a whole.
type WalkEnd struct {
	Effects                       // Unhalted are left out by another filter than before: not asked any more
	Absent    []string            // missed often enough to be announced as gone
	Gone      map[string]struct{} // disappeared before
	Late      int                 // of those: still polled, because of what arrives late
	Over      []string            // of those: not polled any more
	Published int                 // insertions
	Counts    bool                // it is another walk than the one before for what is missing
	Held      bool                // a change too large to believe waits

	Appeared    map[string]struct{} // what was kept back and is announced now
	Unconfirmed Unconfirmed         // after it
	Again       bool                // another walk should follow at once: the baseline is not settled, or it is to confirm what appears
}

// structuralLimit is how many walks in a row may stay partial for the same reason in the API's structure before the
// baseline ends without a complete one.
const structuralLimit = 3

// EndWalk says what a walk as a whole changes, by all that is remembered of the agency: only a complete one counts towards
// disappearing.
func EndWalk(agencyID string, r WalkRules, state store.Agency, all iter.Seq[store.Insertion], w Walked, now time.Time) WalkEnd {
	e := walkEnd{WalkEnd{Effects: Effects{State: &state}}, agencyID, r, w, now.UTC()}
	if w.Complete {
		e.complete(all)
	} else {
		e.partial(all)
	}
	e.appear()
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

func (e *walkEnd) complete(all iter.Seq[store.Insertion]) {
	w, s := e.walk, e.State
	e.learnEnd()
	refiltered := refiltering(*s)
	e.Counts = !s.Baselined || refiltered || s.Held != nil && s.Held.Approved || e.countsAfter(s.LastCompleteWalk)
	e.countMissing(all)
	if refiltered {
		e.Absent = nil
	} else {
		e.hold(len(e.Insertions))
	}
	// That another filter shows nothing is believed after some time.
	tooEmpty := refiltered && len(w.Seen) == 0 && e.Published > 0 && w.Began.Before(s.BaselineSince.Add(e.rules.HoldFor))
	settled := s.CompleteWalks > 0 && w.Fresh == 0 && !tooEmpty
	if refiltered && s.CompleteWalks > 0 && (settled || s.Baselined && !tooEmpty) {
		e.leaveOutside()
	}
	s.CompleteWalks++
	if len(w.Appearing.Waits)+len(w.Appearing.Left) == 0 {
		s.LastToldWalk = w.Began
	}
	s.LastCompleteWalk = w.Began
	s.PartialWalks, s.PartialReason = 0, ""
	if !s.Baselined && settled {
		e.baselined(true)
	}
	e.Again = !s.Baselined && s.CompleteWalks == 1
}

// countsAfter says whether a complete walk, after the last one, counts for what is missing. Absence needs walks with time
// between them, however often somebody wishes for one; so a walk that follows another too soon says nothing new. Where a
// baseline is made, or a person has said that what is missing is gone, every walk counts.
func (e *walkEnd) countsAfter(last time.Time) bool {
	if !e.walk.Counted.IsZero() {
		last = e.walk.Counted
	}
	return e.walk.Began.Sub(last) >= e.rules.Interval/2
}

// countMissing notes which published insertions the walk did not list.
func (e *walkEnd) countMissing(all iter.Seq[store.Insertion]) {
	e.Gone = map[string]struct{}{}
	for i := range all {
		if !i.GoneSince.IsZero() {
			e.Gone[i.Reference] = struct{}{}
			e.countLate(i)
			continue
		}
		e.Published++
		if _, listed := e.walk.Seen[i.Reference]; listed {
			continue
		}
		i = missing(i, e.State.LastCompleteWalk, e.walk.Moved, e.Counts)
		e.Insertions = append(e.Insertions, i)
		if i.Missing >= Confirmations(i, e.rules.Confirm) {
			e.Absent = append(e.Absent, i.Reference)
		}
	}
}

func (e *walkEnd) countLate(i store.Insertion) {
	if !i.Outside && e.now.Sub(i.GoneSince) <= LateArrivals {
		e.Late++
	} else {
		e.Over = append(e.Over, i.Reference)
	}
}

// leaveOutside takes leave, without a word, of the insertions that another filter than before leaves out. One that only
// the last walk did not list is watched as any other.
func (e *walkEnd) leaveOutside() {
	for n, i := range e.Insertions {
		if i.Missing < 2 {
			continue
		}
		i.Outside, i.GoneSince = true, e.walk.Began
		i.Missing, i.Moved, i.LastSeen = 0, false, time.Time{}
		e.Insertions[n] = i
		e.Unhalted = append(e.Unhalted, i.Reference)
	}
	e.Published -= len(e.Unhalted)
}

// partial counts walks that came to no end. Some cannot be complete because of how the API pages: where three in a row
// say so, the baseline ends without. Where they go on, whatever the reason, it is said that not all can be seen; a list of
// which not even the first page can be read is silent, which is another alarm.
func (e *walkEnd) partial(all iter.Seq[store.Insertion]) {
	w, s := e.walk, e.State
	e.Held = s.Held != nil && e.now.Before(s.Held.Until)
	for i := range all {
		if i.GoneSince.IsZero() {
			e.Published++
		} else {
			e.countLate(i)
		}
	}
	if w.Pages == 0 || w.Reason == listings.ReasonCanceled {
		return
	}
	if s.PartialReason != w.Reason {
		s.PartialWalks, s.PartialReason = 0, w.Reason
	}
	s.PartialWalks++
	if w.Structural && !s.Baselined && s.PartialWalks >= structuralLimit {
		e.baselined(false)
	}
	o := s.Operation(string(listings.OperationInsertions))
	if o.PartialWalks++; o.PartialWalks >= structuralLimit && (w.Structural || w.Failing >= unreadableFor) {
		e.Raise(w.Alarms, store.Alarm{AlarmID: AlarmOf(Incomplete, listings.OperationInsertions, ""), Since: e.now}, &events.WatchGapDetected{
			Common: e.common(), Operation: string(listings.OperationInsertions),
			Reason: Incomplete, Reached: w.References, From: s.LastCompleteWalk, To: e.now,
		})
	}
	s.SetOperation(string(listings.OperationInsertions), o)
}

// learnEnd remembers how the list ends, and that walks are complete again.
func (e *walkEnd) learnEnd() {
	op := string(listings.OperationInsertions)
	o := e.State.Operation(op)
	if o.PartialWalks = 0; e.walk.EndsEmpty {
		o.EndsEmpty = e.walk.Began
	}
	o.FirstPage = cmp.Or(e.walk.FirstPage, o.FirstPage)
	switch o.Size = e.walk.Size; {
	case e.walk.Size >= e.rules.PageSize:
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
	reason, began := BaselineFirst, s.WatchStart
	if s.BaselineReason != "" {
		reason, began = s.BaselineReason, s.BaselineSince
	}
	e.announce(&events.WatchBaselined{
		Common: e.common(), Reason: reason, StartedAt: began, Complete: complete, Insertions: len(e.walk.Seen), Announced: s.Announced,
	})
}

// hold keeps an implausible change from being believed before its time, and says when that has passed.
func (e *walkEnd) hold(absent int) {
	w, s := e.walk, e.State
	reason, odd := Implausible(absent, e.Published, len(w.Seen))
	switch {
	case odd && (s.Held == nil || grown(*s.Held, reason, absent, e.Published)):
		s.Held = &store.Held{Reason: reason, Since: e.now, Until: e.now.Add(e.rules.HoldFor), Missing: absent, Known: e.Published}
		e.Absent, e.Held = nil, true
		e.announce(&events.WatchChangeHeld{
			Common: e.common(), Reason: reason, Missing: absent, Known: e.Published,
			Until: s.Held.Until, Approve: "doorbell approve " + e.agencyID,
		})
	case odd:
		h := *s.Held
		// Only complete walks count: where none came for long, the time without them does not.
		if without := w.Began.Sub(s.LastCompleteWalk) - w.TookLast - 2*e.rules.Interval; without > 0 && !h.Approved {
			h.Until = h.Until.Add(without)
		}
		if s.Held = &h; e.now.Before(h.Until) {
			e.Absent, e.Held = nil, true
		}
		// Beyond it the change is believed; the hold ends when all of it is announced.
	case s.Held != nil:
		e.announce(HoldEnds(e.agencyID, *s.Held, e.now))
		s.Held = nil
	}
}

// HoldEnds announces that nothing is held any more.
func HoldEnds(agencyID string, h store.Held, now time.Time) events.Payload {
	return &events.WatchRecovered{Common: events.Common{AgencyID: agencyID, ObservedAt: now}, Ends: "change_held", Since: h.Since}
}

// grown says whether a change is another, larger one than the one that is held: then it waits for its own time.
func grown(h store.Held, reason string, absent, published int) bool {
	_, more := Implausible(absent-h.Missing, published, 1)
	return more || reason == "empty_list" && h.Reason != reason
}

// Refilter begins the baseline of another filter. Where the first one has not come to its end, there is no difference yet: contact
// requests count from the begin of the watch, and where nothing was seen at all it simply goes on.
func Refilter(agencyID string, state store.Agency, filter string, seen bool, now time.Time) (e Effects) {
	if state.Held != nil {
		e.announce(HoldEnds(agencyID, *state.Held, now))
	}
	first := !state.Baselined && (state.BaselineReason == "" || state.BaselineSince.Equal(state.WatchStart))
	state.Filter, state.Held = filter, nil
	switch state.BaselineReason, state.BaselineSince = BaselineFilter, now; {
	case first && seen:
		state.BaselineSince = state.WatchStart
	case first:
		state.BaselineReason, state.BaselineSince = "", time.Time{}
	}
	state.Baselined, state.CompleteWalks, state.Announced = false, 0, 0
	state.PartialWalks, state.PartialReason = 0, ""
	e.State = &state
	return e
}
