package poller

import (
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Remembered describes what the store of a stopped daemon knows.
func Remembered(s *store.Store) (Status, error) {
	ids, err := s.Agencies()
	if err != nil {
		return Status{}, err
	}
	all := Status{At: time.Now().UTC(), BaseURL: s.BaseURL(), Agencies: []AgencyStatus{}}
	err = s.View(func(tx *store.Tx) error {
		for _, id := range ids {
			one, err := remembered(tx, id)
			if err != nil {
				return err
			}
			all.Agencies = append(all.Agencies, one)
		}
		return nil
	})
	return all, err
}

func remembered(tx *store.Tx, id string) (AgencyStatus, error) {
	state, _, err := tx.Agency(id)
	if err != nil {
		return AgencyStatus{}, err
	}
	s := AgencyStatus{
		AgencyID: id, State: "stopped", WatchStart: state.WatchStart, LastCompleteWalk: state.LastCompleteWalk,
		LastSequence: tx.LastSequence(id), Held: heldStatus(id, state.Held), Alarms: operationAlarms(state), Dialects: shownDialects(state),
	}
	halts, err := tx.Halts(id)
	if err != nil {
		return s, err
	}
	for _, h := range halts {
		s.Halts = append(s.Halts, haltStatus(id, h))
	}
	troubles, err := tx.Troubles(id)
	if err != nil {
		return s, err
	}
	for _, t := range troubles {
		if t.Told {
			s.Alarms = append(s.Alarms, insertionAlarm(t))
		}
	}
	return s, tx.Insertions(id, func(i store.Insertion) error {
		if i.GoneSince.IsZero() {
			s.Insertions++
		}
		return nil
	})
}

// Access is how a watch would begin to ask for an agency, by what a stopped daemon remembers.
type Access struct {
	Key, Next listings.Key // the one that it would show, and the one that it would try if that is refused; zero: none
	Halt      *store.Halt  // of the whole agency or all of its contact requests, which it would keep; nil: none

	Dialects map[listings.Operation]listings.Dialect // what was learned of the answers
}

// RememberedAccess holds what is remembered of keys and halts against the keys that are configured now.
func RememberedAccess(tx *store.Tx, k AgencyKeys) (Access, error) {
	state, _, err := tx.Agency(k.ID)
	if err != nil {
		return Access{}, err
	}
	halts, err := tx.Halts(k.ID)
	if err != nil {
		return Access{}, err
	}
	r, same := watch.NewKeys(k.Key, k.Next).Restore(watch.KnownKeys(state.Keys, halts))
	access := Access{Key: r.Shown(listings.OperationInsertions), Dialects: dialects(state)}
	if other := r.Other(); other != access.Key && !r.WasRefused(other.Fingerprint()) {
		access.Next = other
	}
	for _, h := range halts {
		if h.Scope != events.ScopeInsertion && same {
			access.Halt = &h
		}
	}
	return access, nil
}

// ResumeRemembered ends halts in the store of a stopped daemon, as Resume does in a running one.
func ResumeRemembered(s *store.Store, agencyID, reference string) (ended int, err error) {
	err = s.Update(func(tx *store.Tx) error {
		ended = 0
		_, known, err := tx.Agency(agencyID)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
		}
		halts, err := tx.Halts(agencyID)
		if err != nil {
			return err
		}
		halts = slices.DeleteFunc(halts, func(h store.Halt) bool { return reference != "" && h.Reference != reference })
		if err := endAll(tx, agencyID, halts, "operator"); err != nil {
			return err
		}
		ended = len(halts)
		if refusedKeys(halts) { // both may be tried
			return putKeys(tx, agencyID, store.Keys{})
		}
		return nil
	})
	return ended, err
}

// endAll forgets halts, and the refusals of before, and says so, in one transaction; also that there was one, if that waited for
// its reason.
func endAll(tx *store.Tx, agencyID string, list []store.Halt, cause string) error {
	state, _, err := tx.Agency(agencyID)
	if err != nil {
		return err
	}
	for _, h := range list {
		if !h.Asked.IsZero() {
			key := watch.Keys{Known: state.Keys}.Slot(h.Key)
			if err := appendEvent(tx, watch.HaltEvent(agencyID, h, key, events.AgenciesOfKey{}, time.Time{})); err != nil {
				return err
			}
		}
		if err := tx.DeleteHalt(agencyID, h); err != nil {
			return err
		}
		err := appendEvent(tx, &events.AccessResumed{
			Common: events.Common{AgencyID: agencyID, ObservedAt: time.Now()}, PropertyReferenceID: h.Reference,
			Scope: h.Scope, HaltedAt: h.Since, Cause: cause,
		})
		if err != nil {
			return err
		}
	}
	return forgetRefusals(tx, agencyID, list)
}
