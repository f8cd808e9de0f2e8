package poller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// access is what may be asked at this moment. Only changeAllowed replaces it.
func (a *agency) access() watch.Access { return *a.allowed.Load() }

// changeAllowed replaces what may be asked. change may be called twice. It takes no lock, so that a
// refusal is in force as soon as it was read, and a request that is about to begin waits for no
// commit.
func (a *agency) changeAllowed(change func(watch.Access) watch.Access) {
	_ = a.mayChange(func(x watch.Access) (watch.Access, error) { return change(x), nil })
}

// mayChange is changeAllowed where a change may be refused.
func (a *agency) mayChange(change func(watch.Access) (watch.Access, error)) error {
	for {
		before := a.allowed.Load()
		after, err := change(*before)
		if err != nil {
			return err
		}
		if a.allowed.CompareAndSwap(before, &after) {
			return nil
		}
	}
}

// changeAccess decides about access and makes it so, in memory and in the store. What stops
// requests is in force before it is stored: none is started after a refusal was read, even if the
// commit takes long or fails. What allows requests is stored first. The error leaves ended halts as
// they were.
func (a *agency) changeAccess(decide func(watch.Access) watch.Effects) (watch.Effects, error) {
	a.committing.Lock()
	defer a.committing.Unlock()
	e := decide(a.access())
	if e.Empty() {
		return e, nil
	}
	a.apply(watch.Effects{Halted: e.Halted})
	if err := a.commitLocked(func(*store.Tx) (watch.Effects, error) { return e, nil }); err != nil {
		return e, err
	}
	a.pause()
	return e, nil
}

func (a *agency) apply(e watch.Effects) {
	a.changeAllowed(func(x watch.Access) watch.Access { return x.After(e, time.Now()) })
}

// isHalted reports whether a halt covers the requests of an operation, or one about an insertion.
func (a *agency) isHalted(op listings.Operation, reference string) bool {
	return a.access().IsHalted(listings.Request{Operation: op, AgencyID: a.id, Reference: reference})
}

// forever is the pause of what only a person ends.
const forever = 100 * 365 * 24 * time.Hour

// pause stops or resumes the polls of the agency, as halts and back-offs say. Where something
// failed, one at a time is sent.
func (a *agency) pause() {
	a.mu.Lock() // the last state wins
	defer a.mu.Unlock()
	now := time.Now()
	until, oneByOne := time.Time{}, false
	switch {
	case a.isHalted(listings.OperationInsertions, ""):
		until = now.Add(forever)
	case a.isHalted(listings.OperationContactRequests, ""):
		until, oneByOne = a.access().NextTry(), true
	}
	for _, reason := range []*backoff{a.p.keys[a.key().Fingerprint()], a.p.base, a.asking} {
		b := reason.state()
		if b.Failures == 0 || reason == a.asking && b.Failures < operationLimit {
			continue
		}
		oneByOne = true
		if b.Until.After(until) {
			until = b.Until
		}
	}
	a.p.schedule.Pause(a.id, until, oneByOne)
}

// refusedContacts does what follows where the contact requests of an insertion were refused: its
// silent halt is stored, and the list is walked, or what is halted waits for another day. That it
// waits is in force already.
func (a *agency) refusedContacts(reference string) error {
	h, _ := a.access().Insertion(reference)
	_, err := a.changeAccess(func(x watch.Access) watch.Effects { return x.Retried(reference, time.Now()) })
	if h.Silent {
		a.doubtList()
	}
	return err
}

// haltedUntil is when a halted insertion is tried again; otherwise is for one that waits for
// something else.
func (a *agency) haltedUntil(reference string, otherwise time.Time) time.Time {
	if h, halted := a.access().Insertion(reference); halted && !h.Silent {
		return h.Tried.Add(watch.RetryRefused)
	}
	return otherwise
}

// decideRefusals does what a walk decides about the insertions whose contact requests were refused.
func (a *agency) decideRefusals(l watch.Listing) error {
	var gone []string
	_, err := a.changeAccess(func(x watch.Access) (e watch.Effects) {
		e, gone = x.Decide(l, a.p.others(a), time.Now())
		return e
	})
	for _, reference := range gone {
		a.forget(reference)
	}
	return err
}

// refused is a refusal of the list: the agency halts.
func (a *agency) refused(cause error) error {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	_, err := a.changeAccess(func(x watch.Access) watch.Effects { return x.Refuse(status, a.p.others(a), time.Now()) })
	return err
}

// answered takes a good response to a request: the halt that it tried ends.
func (a *agency) answered(op listings.Operation, reference string) error {
	now := time.Now()
	if op == listings.OperationContactRequests {
		a.changeAllowed(func(x watch.Access) watch.Access { x.LastAnswer = now; return x })
	}
	if !a.isHalted(op, reference) {
		return nil
	}
	q := listings.Request{Operation: op, Reference: reference}
	_, err := a.changeAccess(func(x watch.Access) watch.Effects { return x.Answered(q, now) })
	return err
}

// tryHalted lets the halt of all contact requests be tried again, because there is a new insertion.
func (a *agency) tryHalted() {
	if !a.access().NextTry().IsZero() {
		a.changeAllowed(func(x watch.Access) watch.Access { return x.TryNow(time.Now()) })
		a.pause()
	}
}

// ErrUnknownAgency is returned when an agency is named that is not watched.
var ErrUnknownAgency = errors.New("agency is not watched")

// AllAgencies stands for every agency where halts are ended. No id is written so.
const AllAgencies = "*"

// Resume ends the halts of an agency, of AllAgencies, or of one insertion, and polls again
// immediately. It returns how many it ended.
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
	e, err := a.changeAccess(func(x watch.Access) watch.Effects { return x.Resume(reference, time.Now()) })
	if err != nil || len(e.Ended) == 0 {
		return 0, err
	}
	for _, h := range e.Ended {
		a.p.schedule.Urge(a.id, h.Reference)
	}
	a.wakeWalk()
	return len(e.Events), nil
}

// others is what is known of the access of all other agencies.
func (p *Poller) others(a *agency) (all []watch.Access) {
	for _, o := range p.agencies {
		if o != a {
			all = append(all, o.access())
		}
	}
	return all
}

// Refusal says why an agency was probably refused and what to do about it. others are the other
// agencies of the same key, as they were answered just now.
func Refusal(agencyID string, refused *listings.StatusError,
	others events.AgenciesOfKey,
) (reason, remedy string) {
	reason = watch.Reason(events.ScopeAgency,
		events.Evidence{Body: string(refused.Body), OtherAgenciesOfKey: others})
	// they were asked just now, with the same key
	if others.Working > 0 && reason != "edge_challenge" {
		reason = "agency_not_linked"
	}
	return reason, watch.Advice(reason, agencyID, "")
}

// admission is the gate of a client of the API: it decides before every request, and notes how that
// ended.
type admission struct{ p *Poller }

// Wait lets a request go when its turn has come: nothing is sent to halted scopes, nor while a key
// or the base URL backs off. A walk, which has a goroutine of its own, waits where it has to; a
// poll goes back into the schedule.
func (g admission) Wait(ctx context.Context, r listings.Request) error {
	for {
		err := g.p.dispatcher.wait(ctx, r, func(now time.Time) error { return g.p.admit(r, now) })
		var early *watch.WaitError
		if !errors.As(err, &early) || r.Operation != listings.OperationInsertions {
			return err
		}
		if err := sleep(ctx,
			min(max(time.Until(early.Until), time.Second), noticeWithin)); err != nil {
			return err
		}
	}
}

// noticeWithin is how soon a walk that waits notices a halt or another key.
const noticeWithin = 5 * time.Second

// admit decides whether a request is sent now: neither its key nor the base URL backs off, and its
// scope is not halted. That comes last, for a try of a halt is spent on what is sent.
func (p *Poller) admit(r listings.Request, now time.Time) error {
	if p.o.Allowed != nil && !p.o.Allowed() {
		return &watch.WaitError{Until: now.Add(time.Second)}
	}
	if wait := max(p.keys[r.Key].state().Wait(now), p.base.state().Wait(now)); wait > 0 {
		return &watch.WaitError{Until: now.Add(wait)}
	}
	return p.byID[r.AgencyID].mayChange(func(x watch.Access) (watch.Access, error) { return x.Allow(r, now) })
}

// Done notes the end of every request that was admitted: what it says of its key and of the base
// URL ends or begins their back-offs.
func (g admission) Done(r listings.Request, o listings.Outcome) {
	p, key, class := g.p, g.p.keys[r.Key], watch.Classify(o.Err)
	p.metrics.count(r.Operation, o)
	now := time.Now()
	sent := now.Add(-o.Duration)
	answered, changed := o.Status != 0, false // an error status is a response
	switch class {
	case watch.ClassNone, watch.ClassRefused, watch.ClassAside, watch.ClassDrift:
		if answered = true; class == watch.ClassNone || class == watch.ClassRefused {
			refused, _ := errors.AsType[*listings.StatusError](o.Err) // of a good response nil
			p.byID[r.AgencyID].changeAllowed(func(x watch.Access) watch.Access { return x.Observed(r, refused, sent, now) })
		}
		if changed = key.succeeded(sent); changed {
			p.log.Info("the API accepts the key again", "key", r.Key)
		}
	case watch.ClassBusy:
		answered, changed = true, true
		p.budget.slow(now)
		wait, begins := watch.RetryAfter(o.Err), key.state().Failures == 0
		b := key.change(func(b watch.Backoff) watch.Backoff { return b.Throttled(sent, now, wait) })
		if begins {
			p.log.Warn("the API throttles a key: its requests wait", "key", r.Key,
				"wait", b.Until.Sub(now).Round(time.Second))
		}
	case watch.ClassDown:
		answered, changed = false, true
		begins := p.base.state().Failures == 0
		p.base.failed(p.o.API.BaseURL, sent, now)
		if begins {
			p.log.Warn("the API does not answer; check the base URL and the network",
				"err", o.Err)
		}
	}
	if answered && p.base.succeeded(sent) {
		p.log.Info("the API answers again")
		changed = true
	}
	if changed {
		p.pauseAll()
	}
}

// pauseAll checks again what keeps the polls of each agency.
func (p *Poller) pauseAll() {
	for _, a := range p.agencies {
		a.pause()
	}
}

// endForgotten clears the alarms of insertions that are no longer polled.
func (a *agency) endForgotten() error {
	var over []store.AlarmID
	for id := range a.published().alarms {
		if id.Reference != "" && !a.p.schedule.Has(a.id, id.Reference) {
			over = append(over, id)
		}
	}
	return a.clear(time.Now(), over...)
}
