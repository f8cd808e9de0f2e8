package poller

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// AgencyKeys names an agency and the keys that open it. Next is zero outside a rotation; it is shown only after Key was
// refused, and then for good if it works.
type AgencyKeys struct {
	ID        string
	Key, Next listings.Key
}

// putKeys remembers what is known of an agency's keys.
func putKeys(tx *store.Tx, agencyID string, known store.Keys) error {
	state, exists, err := tx.Agency(agencyID)
	if err != nil || !exists || reflect.DeepEqual(state.Keys, known) {
		return err
	}
	state.Keys = known
	return tx.PutAgency(agencyID, state)
}

// ring is the agency's pair of keys at this moment.
func (a *agency) ring() watch.Keys {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys
}

func (a *agency) setRing(r watch.Keys) {
	a.mu.Lock()
	a.keys = r
	a.mu.Unlock()
}

// keyFor is the key to show with requests of an operation.
func (a *agency) keyFor(o listings.Operation) listings.Key { return a.ring().Shown(o) }

// outdated says whether a request shows another key than the one it would show now. Its answer decides nothing.
func (a *agency) outdated(r listings.Request) bool {
	return r.Key != a.keyFor(r.Operation).Fingerprint()
}

// configure gives the agency the pair of keys that is configured now. Another pair ends the halts under the one before;
// of insertions those that were not refused to the key which is shown now.
func (a *agency) configure(k AgencyKeys) error {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	before := a.ring()
	if k := watch.NewKeys(k.Key, k.Next); k.Current == before.Current && k.Next == before.Next {
		return nil
	}
	if err := a.hold(before, k); err != nil {
		return err
	}
	a.goOn()
	return nil
}

// hold holds what is known of one pair against another that is configured now. The caller holds deciding.
func (a *agency) hold(before watch.Keys, k AgencyKeys) error {
	after, same := watch.NewKeys(k.Key, k.Next).Restore(before.Known)
	shown := after.Active().Fingerprint()
	var over []store.Halt
	for _, h := range a.currentHalts() {
		if h.Scope == events.ScopeInsertion && h.Key != shown || h.Scope != events.ScopeInsertion && !same {
			over = append(over, h)
		}
	}
	a.setRing(after) // first: what the old one is still answered decides nothing
	if len(over) > 0 || !reflect.DeepEqual(before.Stored(), after.Stored()) {
		if err := a.endHalts(over, "key_changed"); err != nil {
			a.setRing(before)
			return err
		}
	}
	if !same {
		a.admit("")
	}
	return nil
}

// restore takes up what the store knows of keys and halts, and holds it against the pair that is configured.
func (a *agency) restore(known store.Keys, halts []store.Halt) error {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	configured := a.ring()
	for _, h := range halts {
		a.halts[haltScope{h.Scope, h.Reference}] = h
	}
	before := configured
	if known = watch.KnownKeys(known, halts); known.Current != "" {
		before.Known = known
	}
	return a.hold(before, AgencyKeys{ID: a.id, Key: configured.Current, Next: configured.Next})
}

// refusal is what a request was refused with. None, without an error, is one whose key is not shown any more: that says
// nothing about the one that is.
func (a *agency) refusal(cause error) (*listings.StatusError, error) {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return nil, fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	if a.outdated(status.Request) {
		a.wakeWalk()
		return nil, nil
	}
	return status, nil
}

// refusedKey decides what a refusal means that would halt the agency or all of its contact requests: the other key is
// tried, or the halt comes.
func (a *agency) refusedKey(scope events.Scope, cause error) error {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	status, err := a.refusal(cause)
	if status == nil {
		return err
	}
	before := a.ring()
	after, try := before.Refuse(status.Operation)
	if !try {
		return a.enterHalt(scope, "", status, after)
	}
	a.setRing(after) // first: no request with this key is started any more
	a.trying.succeeded(time.Now())
	err = a.p.store.Update(func(tx *store.Tx) error { return putKeys(tx, a.id, after.Stored()) })
	a.p.log.Warn("a key is refused; the other one is tried", "agency", a.id, "operation", string(status.Operation),
		"status", status.Status, "refused", before.Slot(status.Request.Key).Slot, "tried", after.Slot(after.Other().Fingerprint()).Slot)
	if scope == events.ScopeContactRequests {
		a.admit("")
	}
	a.goOn()
	return err
}

// worked notes a good answer to a request that showed a key. If that key was tried with this operation, it is the active
// one from now on.
func (a *agency) worked(o listings.Operation, key listings.Key) error {
	if r := a.ring(); !r.Tries(o) || r.Shown(o) != key {
		return nil
	}
	a.deciding.Lock()
	defer a.deciding.Unlock()
	before := a.ring()
	if !before.Tries(o) || before.Shown(o) != key {
		return nil
	}
	after := before.Switched()
	if err := a.commitSwitch(before, after); err != nil {
		return err
	}
	a.setRing(after)
	a.admit("")
	a.pause()
	return nil
}
