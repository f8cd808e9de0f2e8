package poller

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
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
	if len(c.Halted)+len(c.Ended)+len(c.Events) > 0 {
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
	now := time.Now()
	a.allowed.Store(&c.Access)
	var over []string
	a.changeRefusals(func(r *watch.Refusals) { over = r.Follow(c, now) })
	for _, reference := range over {
		a.markDirty(failureInsertion, reference)
	}
	for _, h := range c.Ended {
		if h.Reference != "" {
			a.prioritize(h.Reference)
		}
	}
	a.pause()
	return c, err
}

// isHalted says whether a request must not be made because of a refusal.
func (a *agency) isHalted(r listings.Request) bool {
	return a.refusals.Load().IsHalted(a.access(), r, time.Now())
}

// forever is the pause of what only a person ends.
const forever = 100 * 365 * 24 * time.Hour

// pause stops or resumes the polls of the agency, as halts and back-offs say. Where something failed, one at a time is sent.
func (a *agency) pause() {
	a.pausing.Lock() // the last state wins
	defer a.pausing.Unlock()
	now := time.Now()
	until, oneByOne := time.Time{}, false
	asked := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id}
	switch r := a.refusals.Load(); {
	case r.IsHalted(a.access(), asked, now):
		until = now.Add(forever)
	case a.p.full.Load():
		until = now.Add(forever) // watchSpace ends it
	case r.AllWait:
		until = now.Add(time.Hour) // the end of the walk comes first
	}
	for _, reason := range []*backoff{a.p.keyBackoff(a.key().Fingerprint()), a.p.base, a.asking} {
		b := reason.state()
		if b.Failures == 0 || reason == a.asking && b.Failures < operationLimit {
			continue
		}
		oneByOne = true
		if b.Until.After(until) {
			until = b.Until
		}
	}
	a.p.scheduler.change(func(s *schedule.Schedule) { s.Pause(a.id, until, oneByOne) })
}

// refusedContacts does what follows where the contact requests of an insertion were refused: the list is asked for, or a halted one
// waits for another day. That it waits is in force already.
func (a *agency) refusedContacts(reference string) error {
	if _, halted := a.access().Insertion(reference); halted {
		_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Retried(reference, time.Now()) })
		a.withdrawRefusal(reference)
		return err
	}
	if _, waits := a.refusals.Load().Waiting[reference]; waits {
		a.markDirty(failureInsertion, reference)
		a.pause()
		a.doubtList()
	}
	return nil
}

// withdrawRefusal lets an insertion wait no longer because it was refused.
func (a *agency) withdrawRefusal(reference string) {
	if _, waits := a.refusals.Load().Waiting[reference]; waits {
		a.changeRefusals(func(r *watch.Refusals) { delete(r.Waiting, reference) })
		a.markDirty(failureInsertion, reference)
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
	halts, gone := a.refusals.Load().Decide(a.access(), l)
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
	waited := false
	if a.changeRefusals(func(r *watch.Refusals) { waited = r.Walked() }); waited {
		a.pause()
	}
}

// refused is a refusal that stands for a whole scope, which halts.
func (a *agency) refused(scope watch.Scope, cause error) error {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange {
		return x.Refuse(scope, watch.Refused{StatusError: status, At: time.Now(), KeyAnswers: a.refusals.Load().KeyAnswers, Others: a.p.others(a)})
	})
	return err
}

// answeredWell takes a good answer about the contact requests of an insertion. If it was halted, its halt ends.
func (a *agency) answeredWell(reference string) error {
	a.changeRefusals(func(r *watch.Refusals) { r.LastAnswer = time.Now() })
	if _, halted := a.access().Insertion(reference); !halted {
		return nil
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Answered(reference, time.Now()) })
	return err
}

// ErrUnknownAgency is returned when an agency is named that is not watched.
var ErrUnknownAgency = errors.New("agency is not watched")

// AllAgencies stands for every agency where halts are ended. No id is written so.
const AllAgencies = "*"

// Resume ends the halts of an agency, of AllAgencies, or of one insertion, and polls again at once. It returns how many it ended.
func (p *Poller) Resume(agencyID, reference string) (ended int, err error) {
	if agencyID == AllAgencies {
		for _, a := range p.agencies {
			n, failed := p.Resume(a.id, reference)
			ended, err = ended+n, errors.Join(err, failed)
		}
		return ended, err
	}
	a := p.byID[agencyID]
	if a == nil {
		return 0, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	c, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Resume(reference, time.Now()) })
	if err != nil || len(c.Ended) == 0 {
		return 0, err
	}
	a.wakeWalk()
	return len(c.Ended), nil
}

// others is what is known of the access of all other agencies.
func (p *Poller) others(a *agency) (all []watch.Other) {
	for _, o := range p.agencies {
		if o != a {
			all = append(all, watch.Other{Access: o.access(), KeyAnswers: o.refusals.Load().KeyAnswers})
		}
	}
	return all
}

// Refusal says why an agency was probably refused and what to do about it. others are the other agencies of the same key, as they were
// answered just now.
func Refusal(agencyID string, refused *listings.StatusError, others events.AgenciesOfKey) (reason, remedy string) {
	reason = watch.Reason(events.ScopeAgency, events.Evidence{Body: string(refused.Body), OtherAgenciesOfKey: others})
	if others.Working > 0 && reason != "edge_challenge" { // they were asked just now, with the same key
		reason = "agency_not_linked"
	}
	return reason, watch.Advice(reason, agencyID, "")
}

// restoreRefusal goes on with the refusal of an insertion, unless it says nothing of the configured key.
func (a *agency) restoreRefusal(t store.Failure) {
	if (t.Status == http.StatusForbidden || t.Status == http.StatusUnauthorized) && t.Key == a.key().Fingerprint() {
		one := watch.Refusal{At: t.Since, StatusError: &listings.StatusError{
			Request: listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: t.Name, Key: t.Key},
			Status:  t.Status, Body: listings.BodyKind(t.Body),
		}}
		a.changeRefusals(func(r *watch.Refusals) { r.Restore(t.Name, one) })
	} else if t.Status != 0 {
		a.markDirty(t.Scope, t.Name)
	}
}
