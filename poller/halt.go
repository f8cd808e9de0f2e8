package poller

import (
	"errors"
	"fmt"
	"time"

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
func (a *agency) enterHalt(scope events.Scope, reference string, status *listings.StatusError, keys keyring) error {
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
func (a *agency) newHalt(scope events.Scope, reference string, status *listings.StatusError, keys keyring) (store.Halt, *events.AccessHalted) {
	now := time.Now().UTC()
	evidence := events.Evidence{Body: string(status.Body), OtherAgenciesOfKey: a.p.othersOfKey(a, status.Request.Key)}
	reason := probableReason(scope, evidence)
	text := advice(reason, a.id, reference)
	if scope != events.ScopeInsertion && len(keys.known.Refused) > 1 {
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
		Key: keys.slot(h.Key), Advice: text, Resume: resumeCommand(a.id, reference),
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
		if key != keys.known.Current && key != keys.known.Next {
			continue
		}
		// A key that contact requests were refused to still opens the list, if it is shown there.
		listed := !halted && keys.shown(listings.OperationInsertions).Fingerprint() == key
		switch {
		case keys.wasRefused(key) && !listed:
			n.Refused++
		case good == key:
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n
}

func probableReason(scope events.Scope, e events.Evidence) string {
	others := e.OtherAgenciesOfKey
	switch {
	case e.Body == "html" || e.Body == "challenge":
		return "edge_challenge"
	case scope == events.ScopeInsertion:
		return "insertion_not_allowed"
	case scope == events.ScopeContactRequests:
		return "unknown"
	case others.Working > 0:
		return "agency_not_linked"
	case others.Refused > 0:
		return "key_rejected"
	}
	return "unknown"
}

func advice(reason, agencyID, reference string) string {
	end := "run: " + resumeCommand(agencyID, reference)
	switch reason {
	case "edge_challenge":
		return "The answer did not look like the API's own: a gateway or firewall in front of it refused us. " +
			"Ask the provider to admit the address of this machine, then " + end
	case "insertion_not_allowed":
		return "The list still holds this insertion, but its contact requests are refused. Ask the provider's account " +
			"manager why; it is tried again daily, or " + end
	case "agency_not_linked":
		return "The same key works for other agencies: this agency does not exist at the API or is not linked to the key. " +
			"Check the agency's id, ask the provider's account manager to link it, then " + end
	case "key_rejected":
		return "The API refuses this key for every agency that uses it: it is wrong, expired or deactivated. Ask the " +
			"provider's account manager for the valid key and write it into the key file (picked up within 30 s), or set " +
			"DOORBELL_API_KEY and restart. If the key is right, " + end
	}
	return "The API refuses access: the key is wrong or deactivated, the agency does not exist there, or it is not linked to " +
		"the key. Check both with the provider's account manager. A changed key ends the halt: in the key file within 30 s, in the " +
		"environment at the next start. Else " + end
}

func resumeCommand(agencyID, reference string) string {
	if reference == "" {
		return "doorbell resume " + agencyID
	}
	return fmt.Sprintf("doorbell resume %s --insertion %q", agencyID, reference)
}
