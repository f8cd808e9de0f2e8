package poller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/store"
)

// refusalLimit is how many still-listed insertions must be refused, without a good answer between, before all contact
// requests of an agency halt.
const refusalLimit = 3

// retryRefused is how often a halted insertion is tried again while its agency is well.
const retryRefused = 24 * time.Hour

// isHalted says whether a request must not be made. It is asked before every single one.
func (a *agency) isHalted(r listings.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.halts[haltScope{scope: events.ScopeAgency}]; ok {
		return true
	}
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	if _, ok := a.halts[haltScope{scope: events.ScopeContactRequests}]; ok {
		return true
	}
	if r.Reference == "" {
		return false
	}
	if l := a.looks[r.Reference]; l != nil && l.refused {
		return true
	}
	h, ok := a.halts[haltScope{events.ScopeInsertion, r.Reference}]
	return ok && time.Since(h.Tried) < retryRefused
}

// refusedList halts the agency: the list itself was refused. Nothing is asked from this moment on; halt and event are one
// transaction.
func (a *agency) refusedList(err error) error {
	return a.halt(events.ScopeAgency, "", listings.OperationInsertions, err)
}

// refusedContacts is a refusal of one insertion's contact requests. The insertion waits, and the list is asked once: it
// tells whether the agency is refused, the insertion gone, or only this insertion not ours to read. Where several are
// refused and none was answered since, all wait for that.
func (a *agency) refusedContacts(reference string, err error) error {
	renewed, commitErr := a.renewHalt(reference)
	if renewed || commitErr != nil {
		return commitErr
	}
	var answer *listings.StatusError
	if !errors.As(err, &answer) {
		return fmt.Errorf("agency %s: a refusal without an answer: %w", a.id, err)
	}
	l := a.look(reference)
	a.touch(troubleInsertion, reference)
	a.mu.Lock()
	l.refused, l.refusal, l.refusedAt = true, answer, time.Now()
	waiting := 0
	for _, other := range a.looks {
		if other.refused && !a.lastAnswer.After(other.refusedAt) {
			waiting++
		}
	}
	a.confirming = a.confirming || waiting >= refusalLimit
	a.mu.Unlock()
	a.pause()
	a.wakeWalk()
	return nil
}

// confirmed lets the polls go on that waited for a walk.
func (a *agency) confirmed() {
	a.mu.Lock()
	was := a.confirming
	a.confirming = false
	a.mu.Unlock()
	if was {
		a.pause()
	}
}

// renewHalt makes an insertion that was tried again in vain wait for another day, without a word.
func (a *agency) renewHalt(reference string) (halted bool, err error) {
	scope := haltScope{events.ScopeInsertion, reference}
	a.mu.Lock()
	h, halted := a.halts[scope]
	a.mu.Unlock()
	if !halted {
		return false, nil
	}
	h.Tried = time.Now().UTC()
	if err := a.p.store.Update(func(tx *store.Tx) error { return tx.PutHalt(a.id, h) }); err != nil {
		return true, err
	}
	a.mu.Lock()
	a.halts[scope] = h
	a.mu.Unlock()
	return true, nil
}

// haltedUntil is when a halted insertion is tried again; otherwise is for one that waits for something else.
func (a *agency) haltedUntil(reference string, otherwise time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h, ok := a.halts[haltScope{events.ScopeInsertion, reference}]; ok {
		return h.Tried.Add(retryRefused)
	}
	return otherwise
}

// judgeRefused decides, after a complete walk, about insertions whose contact requests were refused. One that is no longer
// listed is disappearing, which is no alarm. One that is still listed halts, if others are answered; if none is, all
// contact requests of the agency halt. As long as neither is known, the next walk decides.
func (a *agency) judgeRefused(w *walk) error {
	listed, errs, answered := a.refusedAndListed(w)
	if len(listed) == 0 {
		return nil
	}
	defer a.pause()
	switch {
	case len(listed) >= refusalLimit && !answered:
		return a.halt(events.ScopeContactRequests, "", listings.OperationContactRequests, errs[listed[0]])
	case len(listed) < w.published && !answered:
		return nil
	}
	for _, reference := range listed {
		if err := a.halt(events.ScopeInsertion, reference, listings.OperationContactRequests, errs[reference]); err != nil {
			return err
		}
		a.admit(reference)
	}
	return nil
}

// refusedAndListed returns the refused insertions that a walk listed, why they were refused, and whether there was a good
// answer of contact requests since. A refusal while the walk was under way is left to the next one. Those that
// disappeared are not polled any more.
func (a *agency) refusedAndListed(w *walk) (listed []string, errs map[string]error, answered bool) {
	var over []string
	errs = map[string]error{}
	a.mu.Lock()
	for reference, l := range a.looks {
		if !l.refused || l.refusedAt.After(w.began) {
			continue
		}
		if _, seen := w.seen[reference]; seen {
			listed = append(listed, reference)
			errs[reference] = l.refusal
			answered = answered || a.lastAnswer.After(l.refusedAt)
			continue
		}
		if _, gone := w.gone[reference]; gone {
			over = append(over, reference)
		}
	}
	a.mu.Unlock()
	for _, reference := range over {
		a.forget(reference)
	}
	slices.Sort(listed)
	return listed, errs, answered
}

// admit ends the waiting of refused insertions; all of them where none is named.
func (a *agency) admit(reference string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r, l := range a.looks {
		if l.refused && (reference == "" || r == reference) {
			l.refused, l.refusal = false, nil
			a.touched[troubleName{troubleInsertion, r}] = struct{}{}
		}
	}
}

// wellAsked notes a good answer of contact requests, and ends the halt of an insertion that was tried again.
func (a *agency) wellAsked(reference string) error {
	a.mu.Lock()
	a.lastAnswer = time.Now()
	h, halted := a.halts[haltScope{events.ScopeInsertion, reference}]
	a.mu.Unlock()
	if !halted {
		return nil
	}
	return a.endHalt(h, "retry_succeeded")
}

// halt stops asking for a scope, and says so. The flag is set first: no request is started after the refusal was read,
// even if the commit takes long.
func (a *agency) halt(scope events.Scope, reference string, operation listings.Operation, cause error) error {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	now := time.Now().UTC()
	evidence := events.Evidence{Body: string(status.Body), OtherAgenciesOfKey: a.p.othersOfKey(a)}
	reason := probableReason(scope, evidence)
	h := store.Halt{
		Scope: scope, Reference: reference, Operation: string(operation), Status: status.Status, Since: now, Tried: now,
		Key: a.currentKey().Fingerprint(), ProbableReason: reason, Advice: advice(reason, a.id, reference),
	}
	a.mu.Lock()
	if a.key.Fingerprint() != status.Request.Key {
		a.mu.Unlock()
		a.wakeWalk()
		return nil // the key before was refused; that says nothing about the one that is configured now
	}
	_, already := a.halts[haltScope{scope, reference}]
	a.halts[haltScope{scope, reference}] = h
	after := a.lastGood
	a.mu.Unlock()
	if already {
		return nil
	}
	if scope != events.ScopeInsertion {
		a.admit("")
		a.pause()
	}
	err := a.p.store.Update(func(tx *store.Tx) error {
		if err := tx.PutHalt(a.id, h); err != nil {
			return err
		}
		return appendEvent(tx, &events.AccessHalted{
			Common: events.Common{AgencyID: a.id, ObservedAt: now, ObservedAfter: after}, PropertyReferenceID: reference,
			Scope: scope, Operation: h.Operation, Status: h.Status, ProbableReason: reason, Evidence: evidence,
			Key: events.KeyRef{Slot: "current", Fingerprint: h.Key}, Advice: h.Advice, Resume: resumeCommand(a.id, reference),
		})
	})
	if errors.Is(err, store.ErrNoSpace) {
		a.mu.Lock()
		delete(a.halts, haltScope{scope, reference}) // it is not on disk, nor its event: the next refusal tries again
		a.mu.Unlock()
		a.pause()
		return err
	}
	a.p.log.Error("access halted", "agency", a.id, "scope", string(scope), "status", h.Status, "reason", reason, "advice", h.Advice)
	return err
}

// othersOfKey counts the other agencies of the same key by what is already known; nothing is asked.
func (p *Poller) othersOfKey(a *agency) (n events.AgenciesOfKey) {
	key := a.currentKey().Fingerprint()
	for _, other := range p.order {
		if other == a || other.currentKey().Fingerprint() != key {
			continue
		}
		other.mu.Lock()
		_, halted := other.halts[haltScope{scope: events.ScopeAgency}]
		good := !other.lastGood.IsZero()
		other.mu.Unlock()
		switch {
		case halted:
			n.Refused++
		case good:
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

// endHalt lets a scope be asked again, and says so.
func (a *agency) endHalt(h store.Halt, cause string) error {
	if err := a.p.store.Update(func(tx *store.Tx) error { return endHalt(tx, a.id, h, cause) }); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.halts, haltScope{h.Scope, h.Reference})
	a.mu.Unlock()
	a.admit(h.Reference)
	if h.Reference != "" {
		a.p.plan(func(s *schedule.Schedule) { s.Urge(schedule.Target{Agency: a.id, Reference: h.Reference}) })
	}
	a.p.log.Info("access resumed", "agency", a.id, "scope", string(h.Scope), "cause", cause)
	return nil
}

// ErrUnknownAgency is returned when an agency is named that is not watched.
var ErrUnknownAgency = errors.New("agency is not watched")

// Resume ends the halts of an agency, or of one insertion of it, and asks again at once. It returns how many it ended.
func (p *Poller) Resume(agencyID, reference string) (ended int, err error) {
	a := p.agencies[agencyID]
	if a == nil {
		return 0, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	for _, h := range a.currentHalts() {
		if reference != "" && h.Reference != reference {
			continue
		}
		if err := a.endHalt(h, "operator"); err != nil {
			return ended, err
		}
		ended++
	}
	if ended > 0 {
		a.goOn()
	}
	return ended, nil
}

// goOn asks again after halts have ended.
func (a *agency) goOn() {
	a.pause()
	a.wakeWalk()
}

func (a *agency) currentHalts() []store.Halt {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]store.Halt, 0, len(a.halts))
	for _, h := range a.halts {
		list = append(list, h)
	}
	slices.SortFunc(list, func(x, y store.Halt) int { return x.Since.Compare(y.Since) })
	return list
}
