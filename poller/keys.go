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

// configure gives the agency the pair of keys that is configured now, and what of a person its events say.
func (a *agency) configure(k AgencyKeys) error {
	a.people.Store(&k.People)
	if now, keys := watch.NewKeys(k.Key, k.Next), a.access().Keys; now.Current == keys.Current && now.Next == keys.Next {
		return nil
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Configure(k.Key, k.Next, time.Now()) })
	if err == nil {
		a.wakeWalk()
	}
	return err
}

// tryContactRequests polls one insertion if the other key is to be tried with contact requests, and says how long to
// wait before the next try. One without a plain answer is tried again with another insertion. The error is that of a commit.
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
	trial := func(reference string) {
		a.changeRefusals(func(r *watch.Refusals) { r.Trial = reference })
	}
	trial(reference)
	defer trial("")
	sent := time.Now()
	c, err := a.poll(ctx, reference)
	switch c {
	case watch.ClassCanceled:
		return 0, ctx.Err()
	case watch.ClassFatal:
		return 0, err
	case watch.ClassRefused:
		if err := a.refused(watch.Scope{Scope: events.ScopeContactRequests}, err); err != nil {
			return 0, err
		}
	}
	if !a.access().Keys.Tries(listings.OperationContactRequests) {
		a.trying.succeeded(time.Now())
		return forever, nil
	}
	return time.Until(a.trying.failed(reference, sent, time.Now())), nil
}

// trialReference is a published insertion, another one each time; empty if there is none that may be asked.
func (a *agency) trialReference() (string, error) {
	var all []string
	err := a.p.store.View(func(tx *store.Tx) error {
		for i := range tx.Insertions(a.id) {
			if i.GoneSince.IsZero() && i.Missing == 0 { // of one that may be gone a refusal says nothing
				all = append(all, i.Reference)
			}
		}
		return nil
	})
	all = slices.DeleteFunc(all, func(reference string) bool {
		return a.isHalted(listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: reference})
	})
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[a.trying.state().Failures%len(all)], nil
}
