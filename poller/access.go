package poller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
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
	if l := a.looks[r.Reference]; l != nil && l.refusal != nil {
		return true
	}
	h, ok := a.halts[haltScope{events.ScopeInsertion, r.Reference}]
	return ok && time.Since(h.Tried) < retryRefused
}

// refusedContacts is a refusal of one insertion's contact requests. The insertion waits, and the list is asked once: it
// tells whether the agency is refused, the insertion gone, or only this insertion not ours to read. Where several are
// refused and none was answered since, all wait for that. What was asked before a halt ended decides nothing after it.
func (a *agency) refusedContacts(reference string, err error, sent time.Time) error {
	renewed, commitErr := a.renewHalt(reference)
	if renewed || commitErr != nil || a.freedSince(sent) {
		return commitErr
	}
	var answer *listings.StatusError
	if !errors.As(err, &answer) {
		return fmt.Errorf("agency %s: a refusal without an answer: %w", a.id, err)
	}
	l := a.look(reference)
	a.touch(troubleInsertion, reference)
	a.mu.Lock()
	l.refusal = &refusal{answer, time.Now()}
	waiting := 0
	for _, other := range a.looks {
		if other.refusal != nil && !a.lastAnswer.After(other.refusal.at) {
			waiting++
		}
	}
	a.confirming = a.confirming || waiting >= refusalLimit
	a.mu.Unlock()
	a.pause()
	a.doubtList()
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
	a.deciding.Lock() // a person may be ending it
	defer a.deciding.Unlock()
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
		return a.refusedKey(events.ScopeContactRequests, errs[listed[0]])
	case len(listed)+a.haltedAmong(w.seen) < w.published && !answered: // somebody is left who may be answered
		return nil
	}
	for _, reference := range listed {
		if err := a.halt(events.ScopeInsertion, reference, errs[reference]); err != nil {
			return err
		}
		a.admit(reference)
	}
	return nil
}

// haltedAmong counts insertions that are halted.
func (a *agency) haltedAmong(references map[string]struct{}) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for scope := range a.halts {
		if _, among := references[scope.reference]; among && scope.scope == events.ScopeInsertion {
			n++
		}
	}
	return n
}

// refusedAndListed returns the refused insertions that a walk listed, why they were refused, and whether there was a good
// answer of contact requests since. A refusal while the walk was under way is left to the next one. Those that
// disappeared are not polled any more.
func (a *agency) refusedAndListed(w *walk) (listed []string, errs map[string]error, answered bool) {
	var over []string
	errs = map[string]error{}
	a.mu.Lock()
	for reference, l := range a.looks {
		if l.refusal == nil || l.refusal.at.After(w.began) {
			continue
		}
		if _, seen := w.seen[reference]; seen {
			listed = append(listed, reference)
			errs[reference] = l.refusal.answer
			answered = answered || a.lastAnswer.After(l.refusal.at)
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
		if l.refusal != nil && (reference == "" || r == reference) {
			l.refusal = nil
			a.touched[troubleName{troubleInsertion, r}] = struct{}{}
		}
	}
}

// wellAsked notes a good answer of contact requests to a request that showed a key, and ends the halt of an insertion that
// was tried again.
func (a *agency) wellAsked(reference string, key listings.Key) error {
	if err := a.worked(listings.OperationContactRequests, key); err != nil {
		return err
	}
	a.mu.Lock()
	a.lastAnswer = time.Now()
	_, halted := a.halts[haltScope{events.ScopeInsertion, reference}]
	a.mu.Unlock()
	if !halted {
		return nil
	}
	a.deciding.Lock()
	defer a.deciding.Unlock()
	a.mu.Lock()
	h, halted := a.halts[haltScope{events.ScopeInsertion, reference}]
	a.mu.Unlock()
	if !halted {
		return nil
	}
	return a.endHalts([]store.Halt{h}, "retry_succeeded")
}

// endHalts lets scopes be asked again and says so, and remembers what is known of the keys, in one transaction. The caller
// holds deciding.
func (a *agency) endHalts(list []store.Halt, cause string) error {
	if err := a.pay(); err != nil {
		return err
	}
	keys := a.ring().Stored()
	a.keeping.Lock() // else a refusal of before might be written once more
	defer a.keeping.Unlock()
	err := a.p.store.Update(func(tx *store.Tx) error {
		if err := endAll(tx, a.id, list, cause); err != nil {
			return err
		}
		return putKeys(tx, a.id, keys)
	})
	if err != nil {
		return err
	}
	a.resumed(list, cause)
	return nil
}

// resumed makes the process follow the store after halts have ended there.
func (a *agency) resumed(list []store.Halt, cause string) {
	a.dropHalts(list)
	for _, h := range list {
		a.admit(h.Reference)
		if h.Reference != "" {
			a.urge(h.Reference)
		}
		a.p.log.Info("access resumed", "agency", a.id, "scope", string(h.Scope), "since", h.Since, "cause", cause)
	}
}

func (a *agency) dropHalts(list []store.Halt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range list {
		delete(a.halts, haltScope{h.Scope, h.Reference})
	}
	if refusedKeys(list) {
		a.freed = time.Now()
	}
}

// freedSince says whether a halt of the agency, or of all its contact requests, has ended since a moment.
func (a *agency) freedSince(moment time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return moment.Before(a.freed)
}

// ErrUnknownAgency is returned when an agency is named that is not watched.
var ErrUnknownAgency = errors.New("agency is not watched")

// Resume ends the halts of an agency, or of one insertion of it, and asks again at once. It returns how many it ended.
func (p *Poller) Resume(agencyID, reference string) (ended int, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return 0, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if ended, err = a.resume(reference); ended > 0 {
		a.goOn()
	}
	return ended, err
}

// resume ends halts because a person says so. Where a key was refused, both may be tried again, the current one first.
func (a *agency) resume(reference string) (ended int, err error) {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	before := a.ring()
	list := slices.DeleteFunc(a.currentHalts(), func(h store.Halt) bool { return reference != "" && h.Reference != reference })
	if len(list) == 0 {
		return 0, nil
	}
	if refusedKeys(list) {
		a.setRing(before.Anew())
	}
	if err := a.endHalts(list, "operator"); err != nil {
		a.setRing(before)
		return 0, err
	}
	return len(list), nil
}

// refusedKeys says whether one of the halts came of refused keys.
func refusedKeys(list []store.Halt) bool {
	return slices.ContainsFunc(list, func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
}

// goOn asks again after halts have ended.
func (a *agency) goOn() {
	a.pause()
	a.wakeWalk()
	select {
	case a.evidence <- struct{}{}: // nothing waits to be told any more
	default:
	}
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
