package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// refusalLimit is how many still-listed insertions must be refused, without a good answer between, before all contact
// requests of an agency halt.
const refusalLimit = 3

// changeAccess decides about access and makes it so, in memory and in the store. What stops requests is in force before it is
// stored: none is started after a refusal was read, even if the commit takes long. Where the disk is full it stays in force, and is
// written with the next change. What allows requests is stored first. The error leaves ended halts as they were.
func (a *agency) changeAccess(decide func(watch.Access) watch.AccessChange) (watch.AccessChange, error) {
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.putAccess(decide(a.access()))
}

// putAccess is changeAccess of what is decided. The caller holds committing.
func (a *agency) putAccess(c watch.AccessChange) (watch.AccessChange, error) {
	before := a.access()
	first := c.Access
	if len(c.Ended) > 0 {
		first.Halts = before.Halts
	}
	a.allowed.Store(&first)
	if operation := listings.OperationContactRequests; before.Keys.Shown(operation) != c.Keys.Shown(operation) {
		a.admit("") // what was refused to the other key says nothing
	}
	if len(c.Halted)+len(c.Ended)+len(c.Events) == 0 && reflect.DeepEqual(before.Keys.Stored(), c.Keys.Stored()) {
		return c, nil
	}
	err := a.commit(func(*store.Tx) (watch.Effects, error) { return watch.Effects{Access: []watch.AccessChange{c}}, nil })
	switch {
	case err == nil:
	case len(c.Ended) > 0:
		a.allowed.Store(&before)
		return c, err
	case errors.Is(err, store.ErrNoSpace):
		a.owed = append(a.owed, c)
	}
	a.allowed.Store(&c.Access)
	if watch.KeyWasRefused(c.Ended) {
		a.mu.Lock()
		a.freed = time.Now()
		a.mu.Unlock()
	}
	for _, h := range c.Ended {
		a.admit(h.Reference)
		if h.Reference != "" {
			a.urge(h.Reference)
		}
	}
	if watch.KeyWasRefused(c.Halted) {
		a.admit("")
	}
	a.pause()
	return c, err
}

// pay writes what is owed since the disk was full, if anything is.
func (a *agency) pay() error {
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.commit(func(*store.Tx) (e watch.Effects, _ error) { return e, nil })
}

// isHalted says whether a request must not be made. It is asked before every single one.
func (a *agency) isHalted(r listings.Request) bool {
	if a.access().IsHalted(r, time.Now()) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.looks[r.Reference]
	return r.Operation == listings.OperationContactRequests && l != nil && l.refusal != nil
}

// refusedContacts is a refusal of one insertion's contact requests. The insertion waits, and the list is asked once: it
// tells whether the agency is refused, the insertion gone, or only this insertion not ours to read. Where several are
// refused and none was answered since, all wait for that. What was asked before a halt ended decides nothing after it.
func (a *agency) refusedContacts(reference string, err error, sent time.Time) error {
	retried, commitErr := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Retried(reference, time.Now()) })
	if len(retried.Halted) > 0 || commitErr != nil || a.freedSince(sent) {
		return commitErr
	}
	var answer *listings.StatusError
	if !errors.As(err, &answer) {
		return fmt.Errorf("agency %s: a refusal without an answer: %w", a.id, err)
	}
	l := a.look(reference)
	a.markDirty(failureInsertion, reference)
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

// haltedUntil is when a halted insertion is tried again; otherwise is for one that waits for something else.
func (a *agency) haltedUntil(reference string, otherwise time.Time) time.Time {
	if h, halted := a.access().Insertion(reference); halted {
		return h.Tried.Add(watch.RetryRefused)
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
	halted := a.access().HaltedInsertions(func(reference string) bool { _, seen := w.seen[reference]; return seen })
	switch {
	case len(listed) >= refusalLimit && !answered:
		return a.refused(watch.Scope{Scope: events.ScopeContactRequests}, errs[listed[0]])
	case len(listed)+halted < w.published && !answered: // one is left that may be answered
		return nil
	}
	for _, reference := range listed {
		if err := a.refused(watch.Scope{Scope: events.ScopeInsertion, Reference: reference}, errs[reference]); err != nil {
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
			a.dirty[failureName{failureInsertion, r}] = struct{}{}
		}
	}
}

// refused decides what a refusal means that stands for a whole scope: the other key is tried, or the scope halts. One of a key
// that is not shown any more says nothing about the one that is.
func (a *agency) refused(scope watch.Scope, cause error) error {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	if a.outdated(status.Request) {
		a.wakeWalk()
		return nil
	}
	c, err := a.changeAccess(func(x watch.Access) watch.AccessChange {
		if status.Request.Key != x.Keys.Shown(status.Operation).Fingerprint() {
			return watch.AccessChange{Access: x}
		}
		a.mu.Lock()
		answers := a.answers
		a.mu.Unlock()
		return x.Refuse(scope, watch.Refused{StatusError: status, At: time.Now(), KeyAnswers: answers, Others: a.p.others(a)})
	})
	if c.KeyRefused {
		keys := c.Keys
		a.trying.succeeded(time.Now())
		a.p.log.Warn("key refused; trying the other one", "agency", a.id, "operation", string(status.Operation), "status", status.Status,
			"refused", keys.Slot(status.Request.Key).Slot, "tried", keys.Slot(keys.Other().Fingerprint()).Slot)
		a.goOn()
	}
	return err
}

// answeredWell takes a good answer to a request that showed a key: a key that was tried works, a halted insertion is answered.
func (a *agency) answeredWell(op listings.Operation, reference string, key listings.Key) error {
	if op == listings.OperationContactRequests {
		a.mu.Lock()
		a.lastAnswer = time.Now()
		a.mu.Unlock()
	}
	x := a.access()
	if _, halted := x.Insertion(reference); !halted && (!x.Keys.Tries(op) || x.Keys.Shown(op) != key) {
		return nil
	}
	c, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Answered(op, reference, key, time.Now()) })
	if err == nil && c.KeyWorks {
		a.admit("")
	}
	return err
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
	c, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Resume(reference, time.Now()) })
	if err != nil || len(c.Ended) == 0 {
		return 0, err
	}
	a.goOn()
	return len(c.Ended), nil
}

// goOn asks again after halts have ended.
func (a *agency) goOn() {
	a.pause()
	a.wakeWalk()
	select {
	case a.evidence <- struct{}{}: // no event waits for its reason any more
	default:
	}
}

// evidenceWithin is how long the event of a halt waits for what others of its key are answered.
const evidenceWithin = 30 * time.Second

// explainHalt announces a halt whose event waits for its reason: as soon as that is settled, or no answer came in time. The halt
// itself stands in the store before.
func (a *agency) explainHalt(ctx context.Context) error {
	for began := time.Now(); ; {
		waits := false
		_, err := a.changeAccess(func(x watch.Access) (c watch.AccessChange) {
			a.mu.Lock()
			answers := a.answers
			a.mu.Unlock()
			if c, waits = x.Explain(answers, a.p.others(a), time.Since(began) >= evidenceWithin); waits {
				return watch.AccessChange{Access: x}
			}
			return c
		})
		wait := evidenceWithin - time.Since(began)
		if err != nil {
			waits = true
			wait, err = a.afterCommitError(err)
		}
		if err != nil || !waits {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-a.evidence:
		case <-ctx.Done():
		}
		if t.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// others is what is known of the access of all other agencies.
func (p *Poller) others(a *agency) (all []watch.Other) {
	for _, o := range p.watched() {
		if o == a {
			continue
		}
		o.mu.Lock()
		all = append(all, watch.Other{Access: o.access(), KeyAnswers: o.answers})
		o.mu.Unlock()
	}
	return all
}

// answered notes what an agency was answered to a question, and lets those know whose halts wait for it. Where its list was refused,
// nothing more is sent with that key, however long a commit that is under way keeps the walk from deciding what follows.
func (p *Poller) answered(a *agency, key string, good bool, op listings.Operation, sent, now time.Time) {
	a.mu.Lock()
	switch {
	case good:
		a.answers.Good, a.answers.GoodKey, a.answers.GoodAsked = now.UTC(), key, sent
	case op == listings.OperationInsertions:
		a.answers.RefusedAsked, a.refusedKey = sent, key
	}
	a.mu.Unlock()
	for _, other := range p.watched() {
		select {
		case other.evidence <- struct{}{}:
		default:
		}
	}
}

// AgencyKeys names an agency and the keys that open it. Next is zero outside a rotation; it is shown only after Key was
// refused, and then for good if it works.
type AgencyKeys struct {
	ID        string
	Key, Next listings.Key
}

// keyFor is the key to show with requests of an operation.
func (a *agency) keyFor(o listings.Operation) listings.Key { return a.access().Keys.Shown(o) }

// outdated says whether a request shows another key than the one it would show now. Its answer decides nothing.
func (a *agency) outdated(r listings.Request) bool {
	return r.Key != a.keyFor(r.Operation).Fingerprint()
}

// configure gives the agency the pair of keys that is configured now.
func (a *agency) configure(k AgencyKeys) error {
	if now, keys := watch.NewKeys(k.Key, k.Next), a.access().Keys; now.Current == keys.Current && now.Next == keys.Next {
		return nil
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Configure(k.Key, k.Next, time.Now()) })
	if err == nil {
		a.goOn()
	}
	return err
}

// onTrial says whether a request must wait because a key is being tried: contact requests wait for what the list says, and
// all but one for what that one is answered.
func (a *agency) onTrial(r listings.Request) bool {
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	keys := a.access().Keys
	a.mu.Lock()
	defer a.mu.Unlock()
	return keys.Known.Trying != "" && (!keys.Tries(r.Operation) || r.Reference != a.trial || r.Reference == "")
}

// tryContactRequests polls one insertion if the other key is to be tried with contact requests, and says how long to
// wait before the next try. One without a plain answer is tried again with another insertion. The error is fatal.
func (a *agency) tryContactRequests(ctx context.Context) (wait time.Duration, err error) {
	if !a.access().Keys.Tries(listings.OperationContactRequests) {
		return forever, nil
	}
	if wait := a.trying.state().Wait(time.Now()); wait > 0 {
		return wait, nil
	}
	reference, err := a.trialReference()
	if err != nil || reference == "" {
		return forever, err // without insertions there is nothing to ask; the next walk looks again
	}
	a.setTrial(reference)
	defer a.setTrial("")
	sent := time.Now()
	c, err := a.poll(ctx, reference)
	switch c {
	case watch.ClassCanceled:
		return 0, ctx.Err()
	case watch.ClassFatal:
		return a.afterCommitError(err)
	case watch.ClassRefused:
		if err := a.refused(watch.Scope{Scope: events.ScopeContactRequests}, err); err != nil {
			return a.afterCommitError(err)
		}
	}
	if !a.access().Keys.Tries(listings.OperationContactRequests) {
		a.trying.succeeded(time.Now())
		return forever, nil
	}
	return time.Until(a.trying.failed(reference, sent, time.Now())), nil
}

func (a *agency) setTrial(reference string) {
	a.mu.Lock()
	a.trial = reference
	a.mu.Unlock()
}

// trialReference is a published insertion, another one each time; empty if there is none that may be asked.
func (a *agency) trialReference() (string, error) {
	var all []string
	err := a.p.store.View(func(tx *store.Tx) error {
		return tx.Insertions(a.id, func(i store.Insertion) error {
			if i.GoneSince.IsZero() && i.Missing == 0 { // of one that may be gone a refusal says nothing
				all = append(all, i.Reference)
			}
			return nil
		})
	})
	all = slices.DeleteFunc(all, func(reference string) bool {
		return a.isHalted(listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: reference})
	})
	if err != nil || len(all) == 0 {
		return "", err
	}
	a.trials++
	return all[(a.trials-1)%len(all)], nil
}

// Refusal says why an agency was probably refused and what to do about it, as the watch would say it at its halt. others
// are the other agencies of the same key.
func Refusal(agencyID string, refused *listings.StatusError, others events.AgenciesOfKey) (reason, remedy string) {
	reason, _ = watch.Reason(events.ScopeAgency, events.Evidence{Body: string(refused.Body), OtherAgenciesOfKey: others}, others.Refused)
	return reason, watch.Advice(reason, agencyID, "")
}

// shows says whether a key is one of those that are configured.
func (a *agency) shows(fingerprint string) bool {
	keys := a.access().Keys
	return fingerprint == keys.Current.Fingerprint() || fingerprint == keys.Next.Fingerprint()
}

// restoreRefusal goes on with the refusal of an insertion, unless it says nothing of the key that is shown now.
func (a *agency) restoreRefusal(t store.Failure) {
	if (t.Status == http.StatusForbidden || t.Status == http.StatusUnauthorized) && t.Key == a.keyFor(listings.OperationContactRequests).Fingerprint() {
		a.look(t.Name).refusal = &refusal{at: t.Since, answer: &listings.StatusError{
			Request: listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: t.Name, Key: t.Key},
			Status:  t.Status, Body: listings.BodyKind(t.Body),
		}}
	} else if t.Status != 0 {
		a.markDirty(t.Scope, t.Name)
	}
}
