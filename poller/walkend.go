package poller

import (
	"context"
	"errors"
	"iter"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// end commits what the walk as a whole says. It returns whether another walk should follow at once.
func (w *walk) end(v listings.Verdict) (again bool, err error) {
	a := w.a
	a.recording.Lock()
	defer a.recording.Unlock()
	t, _ := a.walking.trouble(troubleWalks, "")
	now := time.Now()
	walked := watch.Walked{
		Verdict: v, Began: w.began, Seen: w.seen, Fresh: w.fresh, KeptBack: len(w.waiting) > 0 || w.overflow, Counted: a.counted, TookLast: a.tookLast(),
	}
	if t.Failures > 0 {
		walked.Failing = now.Sub(t.Since)
	}
	rules := watch.WalkRules{PageSize: a.p.o.PageSize, Interval: a.p.o.WalkInterval, Confirm: a.p.o.Confirm, HoldFor: a.p.o.HoldFor}
	var e watch.WalkEnd
	err = a.p.store.Update(func(tx *store.Tx) error {
		state, _, err := tx.Agency(a.id)
		if err != nil {
			return err
		}
		e = watch.EndWalk(a.id, rules, state, insertions(tx, a.id), walked, now)
		for _, i := range e.Insertions {
			err = errors.Join(err, tx.PutInsertion(a.id, i))
		}
		for _, reference := range e.Outside {
			err = errors.Join(err, tx.DeleteHalt(a.id, store.Halt{Scope: events.ScopeInsertion, Reference: reference}))
		}
		a.noteGood(&e.State)
		return errors.Join(err, appendEvents(tx, e.Events), tx.PutAgency(a.id, e.State))
	})
	if err != nil {
		return false, err
	}
	w.published, w.absent, w.gone, w.held = e.Published, e.Absent, e.Gone, e.Held
	if e.Counts {
		a.counted = w.began
	}
	a.told(e.Events)
	a.mirror(listings.OperationInsertions, e.State.Operation(string(listings.OperationInsertions)))
	for _, reference := range e.Outside {
		a.forget(reference)
		a.dropHalts([]store.Halt{{Scope: events.ScopeInsertion, Reference: reference}})
	}
	return e.Again, nil
}

// insertions are all that are remembered of an agency.
func insertions(tx *store.Tx, agencyID string) iter.Seq[store.Insertion] {
	return func(yield func(store.Insertion) bool) {
		enough := errors.New("enough")
		_ = tx.Insertions(agencyID, func(i store.Insertion) error {
			if !yield(i) {
				return enough
			}
			return nil
		})
	}
}

// appendEvents puts events into the log, in order.
func appendEvents(tx *store.Tx, list []events.Payload) error {
	for _, p := range list {
		if err := appendEvent(tx, p); err != nil {
			return err
		}
	}
	return nil
}

// told says in the log what events have said of the watch, once they are committed.
func (a *agency) told(list []events.Payload) {
	log := a.p.log.With("agency", a.id)
	for _, p := range list {
		switch e := p.(type) {
		case *events.WatchBaselined:
			log.Info("baselined: from here on what appears is news", "insertions", e.Insertions, "complete", e.Complete)
		case *events.WatchChangeHeld:
			log.Warn("a change too large to believe is held", "missing", e.Missing, "known", e.Known)
		case *events.WatchGapDetected:
			switch e.Reason {
			case "walk_incomplete":
				log.Warn("the list of insertions cannot be read to its end", "insertions", e.Reached)
			case "window_full":
				log.Warn("not all contact requests of an insertion can be seen", "reached", e.Reached)
			case "unreadable":
				log.Warn("the contact requests of an insertion cannot be read", "reference", e.PropertyReferenceID, "since", e.From)
			}
		case *events.WatchRecovered:
			log.Info("an alarm is over", "operation", e.Operation, "reference", e.PropertyReferenceID, "ends", e.Ends, "since", e.Since)
		}
	}
}

// tookLast is how long the walk before took; zero if this process has made none.
func (a *agency) tookLast() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastWalk.Took
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
