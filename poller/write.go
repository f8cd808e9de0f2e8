package poller

import (
	"cmp"
	"errors"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// commit is the one way to change what is remembered of the agency: it reads and decides, writes
// the changes and their events in one transaction, then publishes the snapshot and logs the events.
// Where nothing changes nothing is committed.
func (a *agency) commit(decide func(*store.Tx) (watch.Effects, error)) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.commitLocked(decide)
}

// commitLocked is commit where the caller holds committing already, because what it reads or
// changes beside the store goes with it.
func (a *agency) commitLocked(decide func(*store.Tx) (watch.Effects, error)) error {
	var e watch.Effects
	err := a.p.store.Update(func(tx *store.Tx) (err error) {
		if e, err = decide(tx); err != nil {
			return err
		}
		if e.Empty() {
			return store.ErrUnchanged
		}
		return write(tx, a.id, e)
	})
	if err != nil || e.Empty() {
		return err
	}
	a.publish(e)
	if len(e.Halted)+len(e.Ended) > 0 {
		a.apply(e)
	}
	a.logEvents(e.Events)
	return nil
}

// publish makes a snapshot of what was committed.
func (a *agency) publish(e watch.Effects) {
	s := a.published()
	if e.State != nil {
		s.state = *e.State
	}
	s.alarms = s.alarms.After(e)
	a.snapshot.Store(&s)
}

// commitState is commit of a change of the agency's own state.
func (a *agency) commitState(change func(*store.Agency, *watch.Effects)) error {
	return a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		state, _ := tx.Agency(a.id)
		a.noteGood(&state)
		a.noteKey(&state)
		e.State = &state
		change(&state, &e)
		return e, nil
	})
}

// noteGood puts the last successes into what is written anyway: that of a restart is as old as the
// last write.
func (a *agency) noteGood(state *store.Agency) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, op := range operations {
		o := state.Operation(string(op))
		if good := a.health[op].LastGood(state.WatchStart); good.After(o.LastGood) {
			o.LastGood = good
			state.SetOperation(string(op), o)
		}
	}
}

// noteKey puts into what is written until when the key waits.
func (a *agency) noteKey(state *store.Agency) {
	key := a.key().Fingerprint()
	if b := a.p.keys[key].state(); b.Failures > 0 {
		state.KeyUntil, state.KeyOf = b.Until.UTC().Round(0), key
	} else if state.KeyOf != "" {
		state.KeyUntil, state.KeyOf = time.Time{}, ""
	}
}

// write puts a decision into a transaction.
func write(tx *store.Tx, agencyID string, e watch.Effects) (err error) {
	if e.State != nil {
		err = tx.PutAgency(agencyID, *e.State)
	}
	for _, i := range e.Insertions {
		err = errors.Join(err, tx.PutInsertion(agencyID, i))
	}
	for reference, record := range e.Records {
		err = errors.Join(err, tx.PutRecord(agencyID, reference, record))
	}
	if len(e.Contacts) > 0 {
		err = errors.Join(err, tx.PutContactRequests(agencyID, e.Reference, e.Contacts...))
	}
	for _, alarm := range e.Raised {
		err = errors.Join(err, tx.PutAlarm(agencyID, alarm))
	}
	for _, id := range e.Cleared {
		err = errors.Join(err, tx.DeleteAlarm(agencyID, id))
	}
	for _, h := range e.Halted {
		err = errors.Join(err, tx.PutHalt(agencyID, h))
	}
	for _, h := range e.Ended {
		err = errors.Join(err, tx.DeleteHalt(agencyID, h))
	}
	for _, p := range e.Events {
		event, failed := events.New(p)
		if failed == nil {
			_, failed = tx.Append(event)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// logEvents repeats in the log what events say of the watch, once they are committed.
func (a *agency) logEvents(list []events.Payload) {
	if len(list) == 0 {
		return
	}
	log := a.p.log.With("agency", a.id)
	for _, p := range list {
		switch e := p.(type) {
		case *events.AccessHalted:
			log.Error("access halted", "scope", string(e.Scope), "since", e.ObservedAt,
				"status", e.Status, "reason", e.ProbableReason, "advice", e.Advice)
		case *events.AccessResumed:
			log.Info("access resumed", "scope", string(e.Scope), "since", e.HaltedAt,
				"cause", e.Cause)
		case *events.WatchSchemaDrifted:
			log.Warn("responses have a different form than before", "operation", e.Operation,
				"expected", e.Expected, "found", e.Found)
		case *events.WatchStale:
			last := ""
			if n := len(e.Errors); n > 0 {
				last = e.Errors[n-1].Text
			}
			log.Error("no successful response for too long", "operation", e.Operation,
				"since", e.LastSuccessAt, "last", last)
		case *events.WatchBaselined:
			log.Info("baselined: anything new from now on is announced", "insertions", e.Insertions,
				"complete", e.Complete)
		case *events.WatchChangeHeld:
			log.Warn("implausible change held",
				"operation", cmp.Or(e.Operation, string(listings.OperationInsertions)),
				"missing", e.Missing, "known", e.Known)
		case *events.WatchGapDetected:
			log.Warn("something may have been missed", "operation", e.Operation,
				"reference", e.PropertyReferenceID,
				"reason", e.Reason, "reached", e.Reached, "since", e.From)
		case *events.WatchRecovered:
			log.Info("alarm cleared", "operation", e.Operation, "ends", e.Ends, "since", e.Since)
		}
	}
}

// placeEvery bounds how often another place is announced, where two servers of the API answer in
// different ones.
const placeEvery = time.Hour

// place is where the records of an operation stood in earlier responses.
func (a *agency) place(op listings.Operation) listings.Place {
	return placeOf(a.published().state, op)
}

func placeOf(state store.Agency, op listings.Operation) listings.Place {
	o := state.Operation(string(op))
	return listings.Place{Known: o.Located, Path: o.Path}
}

// locate remembers where the records of a response stand, and announces it if they stood elsewhere
// before. A response without records shows no place.
func (a *agency) locate(op listings.Operation, reference string, shown listings.Place, records int,
	at time.Time,
) error {
	if !shown.Known || records == 0 || a.place(op) == shown {
		return nil
	}
	a.mu.Lock()
	h := a.health[op]
	last := h.placeAnnounced
	a.mu.Unlock()
	announce := false
	err := a.commitState(func(state *store.Agency, e *watch.Effects) {
		before := placeOf(*state, op)
		if before == shown { // another poll that was under way committed it meanwhile
			return
		}
		announce = before.Known && at.Sub(last) >= placeEvery
		o := state.Operation(string(op))
		o.Path, o.Located = shown.Path, true
		state.SetOperation(string(op), o)
		if announce {
			e.Events = append(e.Events, &events.WatchSchemaDrifted{
				Common: events.Common{AgencyID: a.id, ObservedAt: at}, Operation: string(op),
				PropertyReferenceID: reference, Change: "place",
				Expected: "records at " + watch.DescribePointer(before.Path),
				Found:    "records at " + watch.DescribePointer(shown.Path),
			})
		}
	})
	if err == nil && announce {
		a.mu.Lock()
		h.placeAnnounced = at
		a.mu.Unlock()
	}
	return err
}
