package poller

import (
	"context"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// commitSwitch remembers that the other key is shown from now on and says so, in one transaction. Halts of insertions that
// were refused to the old key end with it. The caller holds deciding.
func (a *agency) commitSwitch(before, after watch.Keys) error {
	from, to := before.Slot(before.Active().Fingerprint()), after.Slot(after.Active().Fingerprint())
	now := time.Now().UTC()
	var over []store.Halt
	for _, h := range a.currentHalts() {
		if h.Key != to.Fingerprint {
			over = append(over, h)
		}
	}
	err := a.p.store.Update(func(tx *store.Tx) error {
		if err := putKeys(tx, a.id, after.Stored()); err != nil {
			return err
		}
		err := appendEvent(tx, &events.AccessKeySwitched{
			Common: events.Common{AgencyID: a.id, ObservedAt: now}, From: from, To: to, Advice: watch.SwitchAdvice(to.Slot),
		})
		if err != nil {
			return err
		}
		return endAll(tx, a.id, over, "key_changed")
	})
	if err != nil {
		return err
	}
	a.resumed(over, "key_changed")
	a.p.log.Warn("access goes on with the other key", "agency", a.id, "refused", from.Slot, "works", to.Slot)
	return nil
}

// onTrial says whether a request must wait because a key is being tried: contact requests wait for what the list says, and
// all but one for what that one is answered.
func (a *agency) onTrial(r listings.Request) bool {
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys.Known.Trying != "" && (!a.keys.Tries(r.Operation) || r.Reference != a.trial || r.Reference == "")
}

// tryContactRequests polls one insertion if the other key is to be tried with contact requests, and says how long to
// wait before the next try. One without a plain answer is tried again with another insertion. The error is fatal.
func (a *agency) tryContactRequests(ctx context.Context) (wait time.Duration, err error) {
	if !a.ring().Tries(listings.OperationContactRequests) {
		return forever, nil
	}
	if _, _, until := a.trying.state(); time.Until(until) > 0 {
		return time.Until(until), nil
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
		if err := a.refusedKey(events.ScopeContactRequests, err); err != nil {
			return a.afterCommitError(err)
		}
	}
	if !a.ring().Tries(listings.OperationContactRequests) {
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
