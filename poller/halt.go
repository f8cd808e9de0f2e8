package poller

import (
	"errors"
	"time"

	"doorbell/poller/watch"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// halt stops asking for a scope, and says so: halt and event are one transaction. The flag is set first: no request is
// started after the refusal was read, even if the commit takes long.
func (a *agency) halt(scope events.Scope, reference string, cause error) error {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	status, err := a.refusal(cause)
	if status == nil {
		return err
	}
	return a.enterHalt(scope, reference, status, a.ring())
}

// enterHalt is halt, and remembers the keys, in the same transaction. The caller holds deciding.
func (a *agency) enterHalt(scope events.Scope, reference string, status *listings.StatusError, keys watch.Keys) error {
	h, event := a.newHalt(scope, reference, status, keys)
	a.mu.Lock()
	_, already := a.halts[haltScope{scope, reference}]
	a.halts[haltScope{scope, reference}] = h
	a.keys = keys
	a.mu.Unlock()
	if already {
		return nil
	}
	if scope != events.ScopeInsertion {
		a.admit("")
		a.pause()
	}
	owed := owedHalt{h, event, keys}
	err := a.writeHalt(owed)
	if errors.Is(err, store.ErrNoSpace) {
		a.owed = append(a.owed, owed) // it is in force all the same
	}
	return err
}

// newHalt makes a halt and its event of a refusal. The keys are those after it.
func (a *agency) newHalt(scope events.Scope, reference string, status *listings.StatusError, keys watch.Keys) (store.Halt, *events.AccessHalted) {
	now := time.Now().UTC()
	evidence := events.Evidence{Body: string(status.Body), OtherAgenciesOfKey: a.p.othersOfKey(a, status.Request.Key)}
	reason := watch.Reason(scope, evidence)
	text := watch.Advice(reason, a.id, reference)
	if scope != events.ScopeInsertion && len(keys.Known.Refused) > 1 {
		text = "Both keys were refused, this one last. " + text
	}
	h := store.Halt{
		Scope: scope, Reference: reference, Operation: string(status.Operation), Status: status.Status, Since: now, Tried: now,
		Key: status.Request.Key, ProbableReason: reason, Advice: text,
	}
	a.mu.Lock()
	after := a.lastGood
	a.mu.Unlock()
	return h, &events.AccessHalted{
		Common: events.Common{AgencyID: a.id, ObservedAt: now, ObservedAfter: after}, PropertyReferenceID: reference,
		Scope: scope, Operation: h.Operation, Status: h.Status, ProbableReason: reason, Evidence: evidence,
		Key: keys.Slot(h.Key), Advice: text, Resume: watch.ResumeCommand(a.id, reference),
	}
}

// othersOfKey counts the other agencies of a key by what is already known; nothing is asked.
func (p *Poller) othersOfKey(a *agency, key string) (n events.AgenciesOfKey) {
	for _, other := range p.watched() {
		if other == a {
			continue
		}
		other.mu.Lock()
		keys, good := other.keys, other.goodKey
		_, halted := other.halts[haltScope{scope: events.ScopeAgency}]
		other.mu.Unlock()
		if key != keys.Known.Current && key != keys.Known.Next {
			continue
		}
		// A key that contact requests were refused to still opens the list, if it is shown there.
		listed := !halted && keys.Shown(listings.OperationInsertions).Fingerprint() == key
		switch {
		case keys.WasRefused(key) && !listed:
			n.Refused++
		case good == key:
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n
}
