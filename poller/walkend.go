package poller

import (
	"cmp"
	"context"
	"errors"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// structuralLimit is how many walks in a row may stay partial for the same reason in the API's structure before the
// baseline ends without a complete one.
const structuralLimit = 3

// end commits what the walk as a whole says: only a complete one counts towards disappearing. It returns whether another
// walk should follow at once, because the baseline is not settled.
func (w *walk) end(v listings.Verdict) (again bool, err error) {
	w.a.recording.Lock()
	defer w.a.recording.Unlock()
	var list store.Operation
	var outside []string
	err = w.a.p.store.Update(func(tx *store.Tx) error {
		again, outside = false, nil
		state, _, err := tx.Agency(w.a.id)
		if err != nil {
			return err
		}
		if !v.Complete {
			err = w.endPartial(tx, &state, v)
		} else {
			again, outside, err = w.endComplete(tx, &state, v)
		}
		if err != nil {
			return err
		}
		w.a.noteGood(&state)
		list = state.Operation(string(listings.OperationInsertions))
		return tx.PutAgency(w.a.id, state)
	})
	if err != nil {
		return false, err
	}
	if w.counts {
		w.a.counted = w.began
	}
	w.a.mirror(listings.OperationInsertions, list)
	for _, reference := range outside {
		w.a.forget(reference)
		w.a.mu.Lock()
		delete(w.a.halts, haltScope{events.ScopeInsertion, reference})
		w.a.mu.Unlock()
	}
	return again, nil
}

func (w *walk) endComplete(tx *store.Tx, state *store.Agency, v listings.Verdict) (again bool, outside []string, err error) {
	if err := w.endGap(tx, state, v); err != nil {
		return false, nil, err
	}
	refiltered := watch.Refiltering(*state)
	approved := state.Held != nil && state.Held.Approved
	w.counts = !state.Baselined || refiltered || approved || w.countsAfter(state.LastCompleteWalk)
	absent, err := w.countMissing(tx, state, v)
	if refiltered {
		w.absent = nil
	} else if err == nil {
		err = w.hold(tx, state, absent)
	}
	if err != nil {
		return false, nil, err
	}
	// That another filter shows nothing is believed after some time.
	tooEmpty := refiltered && len(w.seen) == 0 && w.published > 0 && w.began.Before(state.BaselineSince.Add(w.a.p.o.HoldFor))
	settled := state.CompleteWalks > 0 && w.fresh == 0 && !tooEmpty
	if refiltered && state.CompleteWalks > 0 && (settled || state.Baselined && !tooEmpty) {
		if outside, err = w.leaveOutside(tx); err != nil {
			return false, nil, err
		}
	}
	state.CompleteWalks++
	if state.LastToldWalk = watch.LastWithout(*state); len(w.waiting) == 0 && !w.overflow {
		state.LastToldWalk = w.began
	}
	state.LastCompleteWalk = w.began
	state.PartialWalks, state.PartialReason = 0, ""
	if !state.Baselined && settled {
		state.Baselined = true
		if err := w.baselined(tx, *state, true); err != nil {
			return false, nil, err
		}
	}
	return !state.Baselined && state.CompleteWalks == 1, outside, nil
}

// leaveOutside takes leave, without a word, of the insertions that another filter than before leaves out. One that only
// the last walk did not list is watched as any other.
func (w *walk) leaveOutside(tx *store.Tx) (outside []string, err error) {
	var all []store.Insertion
	err = tx.Insertions(w.a.id, func(i store.Insertion) error {
		if _, listed := w.seen[i.Reference]; !listed && i.GoneSince.IsZero() && i.Missing >= 2 {
			all = append(all, i)
		}
		return nil
	})
	for _, i := range all {
		i.Outside, i.GoneSince = true, w.began
		i.Missing, i.Moved, i.LastSeen = 0, false, time.Time{}
		outside = append(outside, i.Reference)
		err = errors.Join(err, tx.PutInsertion(w.a.id, i), tx.DeleteHalt(w.a.id, store.Halt{Scope: events.ScopeInsertion, Reference: i.Reference}))
	}
	w.published -= len(outside)
	return outside, err
}

// endPartial counts walks that came to no end. Some cannot be complete because of how the API pages: where three in a row
// say so, the baseline ends without. Where they go on, whatever the reason, it is said that not all can be seen; a list of
// which not even the first page can be read is silent, which is another alarm.
func (w *walk) endPartial(tx *store.Tx, state *store.Agency, v listings.Verdict) error {
	w.held = state.Held != nil && time.Now().Before(state.Held.Until)
	if err := w.countPublished(tx); err != nil || v.Pages == 0 || v.Reason == listings.ReasonCanceled {
		return err
	}
	if state.PartialReason != v.Reason {
		state.PartialWalks, state.PartialReason = 0, v.Reason
	}
	state.PartialWalks++
	if v.Structural && !state.Baselined && state.PartialWalks >= structuralLimit {
		state.Baselined = true
		if err := w.baselined(tx, *state, false); err != nil {
			return err
		}
	}
	return w.beginGap(tx, state, v)
}

// beginGap says, once, that walks are not complete.
func (w *walk) beginGap(tx *store.Tx, state *store.Agency, v listings.Verdict) error {
	o := state.Operation(string(listings.OperationInsertions))
	o.PartialWalks++
	tell := o.PartialWalks >= structuralLimit && o.GapSince.IsZero() && (v.Structural || w.failsLong())
	if tell {
		o.GapSince = time.Now().UTC()
	}
	state.SetOperation(string(listings.OperationInsertions), o)
	if !tell {
		return nil
	}
	w.a.p.log.Warn("the list of insertions cannot be read to its end", "agency", w.a.id, "reason", v.Reason, "insertions", v.References)
	return appendEvent(tx, &events.WatchGapDetected{
		Common: events.Common{AgencyID: w.a.id, ObservedAt: o.GapSince}, Operation: string(listings.OperationInsertions),
		Reason: "walk_incomplete", Reached: v.References, From: state.LastCompleteWalk, To: o.GapSince,
	})
}

// failsLong says whether walks have failed for so long that it is no hiccup.
func (w *walk) failsLong() bool {
	t, failing := w.a.walking.trouble(troubleWalks, "")
	return failing && time.Since(t.Since) >= unreadableFor
}

// endGap says that walks are complete again, and remembers how the list ends.
func (w *walk) endGap(tx *store.Tx, state *store.Agency, v listings.Verdict) error {
	o := state.Operation(string(listings.OperationInsertions))
	since := o.GapSince
	o.PartialWalks, o.GapSince = 0, time.Time{}
	if v.EndsEmpty {
		o.EndsEmpty = w.began
	}
	o.FirstPage = cmp.Or(v.FirstPage, o.FirstPage)
	switch o.Size = v.Size; {
	case v.Size >= w.a.p.o.PageSize:
		o.Size = 0
	case v.Size == 0:
		o.Size = -1 // is left to the API
	}
	state.SetOperation(string(listings.OperationInsertions), o)
	if since.IsZero() {
		return nil
	}
	return w.a.recovered(tx, listings.OperationInsertions, "", "gap_detected", since, time.Now())
}

func (w *walk) baselined(tx *store.Tx, state store.Agency, complete bool) error {
	w.a.p.log.Info("baselined: from here on what appears is news", "agency", w.a.id, "insertions", len(w.seen), "complete", complete)
	reason, began := watch.BaselineFirst, state.WatchStart
	if state.BaselineReason != "" {
		reason, began = state.BaselineReason, state.BaselineSince
	}
	return appendEvent(tx, &events.WatchBaselined{
		Common: events.Common{AgencyID: w.a.id, ObservedAt: time.Now()}, Reason: reason, StartedAt: began,
		Complete: complete, Insertions: len(w.seen), Announced: state.Announced,
	})
}

func (w *walk) countPublished(tx *store.Tx) error {
	w.published = 0
	return tx.Insertions(w.a.id, func(i store.Insertion) error {
		if i.GoneSince.IsZero() {
			w.published++
		}
		return nil
	})
}

// countMissing notes which published insertions the walk did not list, and returns how many.
func (w *walk) countMissing(tx *store.Tx, state *store.Agency, v listings.Verdict) (missed int, err error) {
	lastSeen := state.LastCompleteWalk
	var absent []store.Insertion
	w.published, w.absent, w.gone = 0, nil, map[string]struct{}{}
	err = tx.Insertions(w.a.id, func(i store.Insertion) error {
		if !i.GoneSince.IsZero() {
			w.gone[i.Reference] = struct{}{}
			return nil
		}
		w.published++
		if _, listed := w.seen[i.Reference]; !listed {
			absent = append(absent, watch.Missing(i, lastSeen, v.Moved, w.counts))
		}
		return nil
	})
	for _, i := range absent {
		err = errors.Join(err, tx.PutInsertion(w.a.id, i))
		if i.Missing >= watch.Confirmations(i, w.a.p.o.Confirm) {
			w.absent = append(w.absent, i.Reference)
		}
	}
	return len(absent), err
}

// hold keeps an implausible change from being believed before its time, and says when that has passed.
func (w *walk) hold(tx *store.Tx, state *store.Agency, absent int) error {
	reason, implausible := watch.Implausible(absent, w.published, len(w.seen))
	now := time.Now().UTC()
	switch {
	case implausible && (state.Held == nil || grown(*state.Held, reason, absent, w.published)):
		state.Held = &store.Held{Reason: reason, Since: now, Until: now.Add(w.a.p.o.HoldFor), Missing: absent, Known: w.published}
		w.absent, w.held = nil, true
		w.a.p.log.Warn("a change too large to believe is held", "agency", w.a.id, "missing", absent, "known", w.published)
		return appendEvent(tx, &events.WatchChangeHeld{
			Common: events.Common{AgencyID: w.a.id, ObservedAt: now}, Reason: reason, Missing: absent, Known: w.published,
			Until: state.Held.Until, Approve: "doorbell approve " + w.a.id,
		})
	case implausible:
		// Only complete walks count: where none came for long, the time without them does not.
		if without := w.began.Sub(state.LastCompleteWalk) - w.a.tookLast() - 2*w.a.p.o.WalkInterval; without > 0 && !state.Held.Approved {
			state.Held.Until = state.Held.Until.Add(without)
		}
		if now.Before(state.Held.Until) {
			w.absent, w.held = nil, true
		}
		return nil // beyond it the change is believed; the hold ends when all of it is told
	case state.Held != nil:
		h := *state.Held
		state.Held = nil
		w.a.p.log.Info("nothing is held any more", "agency", w.a.id, "since", h.Since)
		return tellHoldEnds(tx, w.a.id, h, now)
	}
	return nil
}

func tellHoldEnds(tx *store.Tx, agencyID string, h store.Held, now time.Time) error {
	return appendEvent(tx, &events.WatchRecovered{
		Common: events.Common{AgencyID: agencyID, ObservedAt: now}, Ends: "change_held", Since: h.Since,
	})
}

// tookLast is how long the walk before took; zero if this process has made none.
func (a *agency) tookLast() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastWalk.Took
}

// grown says whether a change is another, larger one than the one that is held: then it waits for its own time.
func grown(h store.Held, reason string, absent, published int) bool {
	_, more := watch.Implausible(absent-h.Missing, published, 1)
	return more || reason == "empty_list" && h.Reason != reason
}

// withdraw announces the insertions that enough complete walks did not list, each after a last look at its contact
// requests, so that the last of them are not lost.
func (w *walk) withdraw(ctx context.Context) error {
	for _, reference := range w.absent {
		looked, refused, err := w.lastLook(ctx, reference)
		if err != nil || refused {
			return err
		}
		if !looked {
			continue // the next complete walk tries again
		}
		if err := w.announceGone(reference); err != nil {
			return err
		}
	}
	return nil
}

// lastLookPatience is how many walks more than needed may pass before an insertion counts as gone without a last look.
const lastLookPatience = 5

// lastLook polls an insertion once more. What only might have been seen later is waited for, but not for ever. After a
// refusal no further one is asked: the next walk finds this one waiting, and goes on.
func (w *walk) lastLook(ctx context.Context, reference string) (looked, refused bool, err error) {
	c, sent := watch.ClassWaiting, time.Now()
	if failures, _, until := w.a.asking.state(); failures < operationLimit || sent.After(until) {
		c, err = w.a.poll(ctx, reference)
	}
	switch c {
	case watch.ClassFatal, watch.ClassCanceled:
		return false, false, err
	case watch.ClassRefused:
		return false, true, w.a.refusedContacts(reference, err, sent)
	case watch.ClassNone:
		w.a.answered(sent)
	case watch.ClassTransient, watch.ClassDrift:
		w.a.unanswered(reference, sent, time.Now())
	}
	switch c {
	case watch.ClassTransient, watch.ClassBusy, watch.ClassDown, watch.ClassWaiting, watch.ClassDrift:
		i, err := w.a.insertion(reference)
		return i.Missing >= watch.Confirmations(i, w.a.p.o.Confirm)+lastLookPatience, false, err
	}
	return true, false, nil
}

// announceGone commits the disappearance, unless the insertion was seen again meanwhile.
func (w *walk) announceGone(reference string) error {
	done := false
	err := w.a.p.store.Update(func(tx *store.Tx) error {
		done = false
		var k watch.Known
		var err error
		if k.Insertion, k.Exists, err = tx.Insertion(w.a.id, reference); err != nil || !k.Exists {
			return err
		}
		if !k.GoneSince.IsZero() || k.Missing < watch.Confirmations(k.Insertion, w.a.p.o.Confirm) {
			return nil
		}
		k.Record = tx.Record(w.a.id, reference)
		s := watch.Observation{AgencyID: w.a.id, At: time.Now().UTC(), After: k.LastSeen}
		next, payload := watch.Disappeared(s, k)
		if err := tx.PutInsertion(w.a.id, next); err != nil {
			return err
		}
		done = true
		halt := store.Halt{Scope: events.ScopeInsertion, Reference: reference}
		return errors.Join(tx.DeleteHalt(w.a.id, halt), appendEvent(tx, payload))
	})
	if err == nil && done {
		w.published--
		w.a.withdrawn(reference)
	}
	return err
}

// withdrawn counts a disappeared insertion. A halt of its own went with it.
func (a *agency) withdrawn(reference string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known--
	a.gone++
	delete(a.halts, haltScope{events.ScopeInsertion, reference})
}

// keepScheduled makes sure that everything a complete walk saw is polled.
func (w *walk) keepScheduled() error {
	missing := w.a.p.turns.without(w.a.id, w.seen)
	if len(missing) == 0 {
		return nil
	}
	list, err := w.a.planned(missing)
	w.a.plan(list)
	return err
}
