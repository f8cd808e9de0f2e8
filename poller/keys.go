package poller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// AgencyKeys names an agency and the keys that open it. Next is zero outside a rotation; it is shown only after Key was
// refused, and then for good if it works.
type AgencyKeys struct {
	ID        string
	Key, Next listings.Key
}

// keyring is an agency's pair of keys and what is known of them. It is a value: what a refusal or an answer makes of it is
// another one.
//
// One key is shown, the active one. When it is refused in a way that would halt the agency, or all of its contact
// requests, the other is tried with the same kind of question, unless it was refused before: while it is tried the active
// one is not shown. If it works it is the active one from then on; if it is refused too, the halt comes. So a pair leads
// to one switch at most. What is known is kept in the store by fingerprints, and another pair begins anew.
type keyring struct {
	current, next listings.Key // as configured
	known         store.Keys
}

func newKeyring(k AgencyKeys) keyring {
	r := keyring{current: k.Key, next: k.Next}
	if r.next == r.current {
		r.next = listings.Key{}
	}
	return r.anew()
}

// anew is the pair of which nothing is known.
func (r keyring) anew() keyring {
	r.known = store.Keys{Current: r.current.Fingerprint()}
	if !r.next.IsZero() {
		r.known.Next = r.next.Fingerprint()
	}
	return r
}

// recall is the pair with what was known of the same two keys, in whichever order they are configured now. Of another
// pair nothing is known.
func (r keyring) recall(known store.Keys) (_ keyring, same bool) {
	straight := known.Current == r.known.Current && known.Next == r.known.Next
	reversed := r.known.Next != "" && known.Current == r.known.Next && known.Next == r.known.Current
	if !straight && !reversed {
		return r, false
	}
	if len(known.Refused) > 0 {
		r.known.Active, r.known.Refused, r.known.Trying = known.Active, known.Refused, known.Trying
		if r.known.Active == "" {
			r.known.Active = known.Current
		}
	}
	return r, true
}

// remembered is what the store has to know; nothing as long as no key was refused.
func (r keyring) remembered() store.Keys {
	if len(r.known.Refused) == 0 {
		return store.Keys{}
	}
	return r.known
}

func (r keyring) active() listings.Key {
	if r.known.Active != "" && r.known.Active == r.known.Next {
		return r.next
	}
	return r.current
}

// other is the key of the pair that is not the active one; zero if there is none.
func (r keyring) other() listings.Key {
	if r.active() == r.current {
		return r.next
	}
	return r.current
}

// shown is the key that requests of an operation show. While the other one is tried with contact requests, the list,
// which is answered, goes on with the active one.
func (r keyring) shown(o listings.Operation) listings.Key {
	if r.known.Trying == string(listings.OperationInsertions) || r.tries(o) {
		return r.other()
	}
	return r.active()
}

// tries says whether the other key is being tried with an operation.
func (r keyring) tries(o listings.Operation) bool { return r.known.Trying == string(o) }

func (r keyring) wasRefused(fingerprint string) bool {
	return slices.Contains(r.known.Refused, fingerprint)
}

// slot names one of the pair as events do.
func (r keyring) slot(fingerprint string) events.KeyRef {
	ref := events.KeyRef{Slot: "current", Fingerprint: fingerprint}
	if fingerprint == r.known.Next {
		ref.Slot = "next"
	}
	return ref
}

// refuse is the pair after the key that an operation shows was refused, and whether the other one is to be tried now.
func (r keyring) refuse(o listings.Operation) (_ keyring, try bool) {
	shown := r.shown(o).Fingerprint()
	if !r.wasRefused(shown) {
		r.known.Refused = append(slices.Clone(r.known.Refused), shown)
	}
	r.known.Active = r.active().Fingerprint()
	other := r.other()
	try = !other.IsZero() && !r.wasRefused(other.Fingerprint())
	r.known.Trying = ""
	if try {
		r.known.Trying = string(o)
	}
	return r, try
}

// switched is the pair after the key that was tried has worked.
func (r keyring) switched() keyring {
	r.known.Active, r.known.Trying = r.other().Fingerprint(), ""
	return r
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
func (a *agency) ring() keyring {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys
}

func (a *agency) setRing(r keyring) {
	a.mu.Lock()
	a.keys = r
	a.mu.Unlock()
}

// keyFor is the key to show with requests of an operation.
func (a *agency) keyFor(o listings.Operation) listings.Key { return a.ring().shown(o) }

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
	if k := newKeyring(k); k.current == before.current && k.next == before.next {
		return nil
	}
	if err := a.hold(before, k); err != nil {
		return err
	}
	a.goOn()
	return nil
}

// hold holds what is known of one pair against another that is configured now. The caller holds deciding.
func (a *agency) hold(before keyring, k AgencyKeys) error {
	after, same := newKeyring(k).recall(before.known)
	shown := after.active().Fingerprint()
	var over []store.Halt
	for _, h := range a.currentHalts() {
		if h.Scope == events.ScopeInsertion && h.Key != shown || h.Scope != events.ScopeInsertion && !same {
			over = append(over, h)
		}
	}
	a.setRing(after) // first: what the old one is still answered decides nothing
	if len(over) > 0 || !reflect.DeepEqual(before.remembered(), after.remembered()) {
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
	if known = knownKeys(known, halts); known.Current != "" {
		before.known = known
	}
	return a.hold(before, AgencyKeys{ID: a.id, Key: configured.current, Next: configured.next})
}

// knownKeys is what is known of keys, also where a halt was written before pairs were known.
func knownKeys(known store.Keys, halts []store.Halt) store.Keys {
	for _, h := range halts {
		if known.Current == "" && h.Scope != events.ScopeInsertion {
			known = store.Keys{Current: h.Key, Refused: []string{h.Key}}
		}
	}
	return known
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
	after, try := before.refuse(status.Operation)
	if !try {
		return a.enterHalt(scope, "", status, after)
	}
	a.setRing(after) // first: no request with this key is started any more
	a.trying.succeeded(time.Now())
	err = a.p.store.Update(func(tx *store.Tx) error { return putKeys(tx, a.id, after.remembered()) })
	a.p.log.Warn("a key is refused; the other one is tried", "agency", a.id, "operation", string(status.Operation),
		"status", status.Status, "refused", before.slot(status.Request.Key).Slot, "tried", after.slot(after.other().Fingerprint()).Slot)
	if scope == events.ScopeContactRequests {
		a.admit("")
	}
	a.goOn()
	return err
}

// worked notes a good answer to a request that showed a key. If that key was tried with this operation, it is the active
// one from now on.
func (a *agency) worked(o listings.Operation, key listings.Key) error {
	if r := a.ring(); !r.tries(o) || r.shown(o) != key {
		return nil
	}
	a.deciding.Lock()
	defer a.deciding.Unlock()
	before := a.ring()
	if !before.tries(o) || before.shown(o) != key {
		return nil
	}
	after := before.switched()
	if err := a.commitSwitch(before, after); err != nil {
		return err
	}
	a.setRing(after)
	a.admit("")
	a.pause()
	return nil
}
