package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// changeAccess decides about access and makes it so, in memory and in the store. What stops requests is in force before it is
// stored: none is started after a refusal was read, even if the commit takes long. Where the disk is full it stays in force, and is
// written with the next change. What allows requests is stored first. The error leaves ended halts as they were.
func (a *agency) changeAccess(decide func(watch.Access) watch.AccessChange) (watch.AccessChange, error) {
	a.committing.Lock()
	defer a.committing.Unlock()
	before := a.access()
	c := decide(before)
	if len(c.Ended) == 0 {
		a.allowed.Store(&c.Access)
	} else {
		stopped := c.Access
		stopped.Halts = before.Halts
		a.allowed.Store(&stopped)
	}
	var err error
	if len(c.Halted)+len(c.Ended)+len(c.Events) > 0 || !reflect.DeepEqual(before.Keys.Stored(), c.Keys.Stored()) {
		err = a.commit(func(*store.Tx) (watch.Effects, error) { return watch.Effects{Access: []watch.AccessChange{c}}, nil })
	}
	switch {
	case err == nil:
	case len(c.Ended) > 0:
		a.allowed.Store(&before)
		return c, err
	case errors.Is(err, store.ErrNoSpace):
		a.owed = append(a.owed, c)
	}
	a.allowed.Store(&c.Access)
	a.mu.Lock()
	for _, reference := range a.refusals.Follow(before, c, time.Now()) {
		a.dirty[failureName{failureInsertion, reference}] = struct{}{}
	}
	a.mu.Unlock()
	for _, h := range c.Ended {
		if h.Reference != "" {
			a.urge(h.Reference)
		}
	}
	a.pause()
	return c, err
}

// isHalted says whether a request must not be made because of a refusal.
func (a *agency) isHalted(r listings.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusals.IsHalted(a.access(), r, time.Now())
}

// refusedContacts lets an insertion wait whose contact requests were refused, and asks for the list.
func (a *agency) refusedContacts(reference string, err error, sent time.Time) error {
	retried, commitErr := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Retried(reference, time.Now()) })
	if len(retried.Halted) > 0 || commitErr != nil {
		return commitErr
	}
	var answer *listings.StatusError
	if !errors.As(err, &answer) {
		return fmt.Errorf("agency %s: a refusal without an answer: %w", a.id, err)
	}
	a.mu.Lock()
	waits := a.refusals.Refuse(reference, answer, sent, time.Now())
	a.mu.Unlock()
	if waits {
		a.markDirty(failureInsertion, reference)
		a.pause()
		a.doubtList()
	}
	return nil
}

// withdrawRefusal lets an insertion wait no longer because it was refused.
func (a *agency) withdrawRefusal(reference string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.refusals.Waiting[reference]; waits {
		delete(a.refusals.Waiting, reference)
		a.dirty[failureName{failureInsertion, reference}] = struct{}{}
	}
}

// haltedUntil is when a halted insertion is tried again; otherwise is for one that waits for something else.
func (a *agency) haltedUntil(reference string, otherwise time.Time) time.Time {
	if h, halted := a.access().Insertion(reference); halted {
		return h.Tried.Add(watch.RetryRefused)
	}
	return otherwise
}

// decideRefusals does what a complete walk decides about the insertions whose contact requests were refused.
func (a *agency) decideRefusals(l watch.Listing) error {
	a.mu.Lock()
	halts, gone := a.refusals.Decide(a.access(), l)
	a.mu.Unlock()
	for _, reference := range gone {
		a.forget(reference)
	}
	for _, h := range halts {
		if err := a.refused(h.Scope, h.StatusError); err != nil {
			return err
		}
		a.withdrawRefusal(h.Reference)
	}
	return nil
}

// walkDecided lets what waited for a walk go on.
func (a *agency) walkDecided() {
	a.mu.Lock()
	waited := a.refusals.Walked()
	a.mu.Unlock()
	if waited {
		a.pause()
	}
}

// refused is a refusal that stands for a whole scope: the other key is tried, or the scope halts.
func (a *agency) refused(scope watch.Scope, cause error) error {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	c, err := a.changeAccess(func(x watch.Access) watch.AccessChange {
		return x.Refuse(scope, watch.Refused{StatusError: status, At: time.Now(), KeyAnswers: a.keyAnswers(), Others: a.p.others(a)})
	})
	if c.KeyRefused {
		keys := c.Keys
		a.trying.succeeded(time.Now())
		a.p.log.Warn("key refused; trying the other one", "agency", a.id, "operation", string(status.Operation), "status", status.Status,
			"refused", keys.Slot(status.Request.Key).Slot, "tried", keys.Slot(keys.Other().Fingerprint()).Slot)
	}
	if c.KeyRefused || c.Outdated {
		a.askAgain()
	}
	return err
}

// answeredWell takes a good answer to a request that showed a key: a key that was tried works, a halted insertion is answered.
func (a *agency) answeredWell(op listings.Operation, reference string, key listings.Key) error {
	if op == listings.OperationContactRequests {
		a.mu.Lock()
		a.refusals.LastAnswer = time.Now()
		a.mu.Unlock()
	}
	x := a.access()
	if _, halted := x.Insertion(reference); !halted && (!x.Keys.Tries(op) || x.Keys.Shown(op) != key) {
		return nil
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Answered(op, reference, key, time.Now()) })
	return err
}

// askAgain walks after halts have ended or the key has changed. No event waits for the reason of a halt any more.
func (a *agency) askAgain() {
	a.wakeWalk()
	wake(a.evidence)
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
	a.askAgain()
	return len(c.Ended), nil
}

// evidenceWithin is how long the event of a halt waits for what others of its key are answered.
const evidenceWithin = 30 * time.Second

// explainHalt announces a halt whose event waits for its reason: as soon as that is settled, or no answer came in time. The halt
// itself stands in the store before.
func (a *agency) explainHalt(ctx context.Context) error {
	for began := time.Now(); ; {
		waits := false
		_, err := a.changeAccess(func(x watch.Access) (c watch.AccessChange) {
			if c, waits = x.Explain(a.keyAnswers(), a.p.others(a), time.Since(began) >= evidenceWithin); waits {
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

// keyAnswers is what the agency was answered last, as far as it tells of keys.
func (a *agency) keyAnswers() watch.KeyAnswers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusals.KeyAnswers
}

// others is what is known of the access of all other agencies.
func (p *Poller) others(a *agency) (all []watch.Other) {
	for _, o := range p.watched() {
		if o != a {
			all = append(all, watch.Other{Access: o.access(), KeyAnswers: o.keyAnswers()})
		}
	}
	return all
}

// answered notes what an agency was answered, and lets those know whose halts wait for it.
func (p *Poller) answered(a *agency, r listings.Request, good bool, sent, now time.Time) {
	a.mu.Lock()
	a.refusals.Hear(r, good, sent, now)
	a.mu.Unlock()
	for _, other := range p.watched() {
		wake(other.evidence)
	}
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
		a.mu.Lock()
		a.refusals.Restore(t.Name, watch.Refusal{At: t.Since, StatusError: &listings.StatusError{
			Request: listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: t.Name, Key: t.Key},
			Status:  t.Status, Body: listings.BodyKind(t.Body),
		}})
		a.mu.Unlock()
	} else if t.Status != 0 {
		a.markDirty(t.Scope, t.Name)
	}
}
