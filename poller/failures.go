package poller

import (
	"maps"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// backoffOf is the back-off of what a failure is about; nil if that has not failed. The caller holds a.mu.
func (a *agency) backoffOf(n failureName) *backoff {
	switch n.scope {
	case failurePolls:
		return a.asking
	case failureWalks:
		return a.walking
	case failureKey:
		return a.p.keyBackoff(n.name)
	case failureBase:
		return a.p.base
	}
	if l := a.pollStates[n.name]; l != nil && n.scope == failureInsertion {
		return l.retry
	}
	return nil
}

// failure is how a failure stands now, and whether it is one. The caller holds a.mu.
func (a *agency) failure(n failureName) (t store.Failure, failing bool) {
	t = a.backoffOf(n).state().Failure(n.scope, n.name)
	failing = t.Failures > 0
	if r, refused := a.refusals.Load().Waiting[n.name]; refused && n.scope == failureInsertion {
		t.Since, t.Status, t.Body, t.Key = r.At.UTC().Round(0), r.Status, string(r.Body), r.Request.Key
		failing = true
	}
	return t, failing
}

// keepFailures writes the failures that have changed, and ends the alarms of insertions that are not polled any more, in one
// transaction; nothing if nothing has changed.
func (a *agency) keepFailures() error {
	a.committing.Lock()
	defer a.committing.Unlock()
	a.mu.Lock()
	dirty := a.dirty
	a.dirty = map[failureName]struct{}{}
	a.mu.Unlock()
	if len(dirty) == 0 {
		return nil
	}
	err := a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for n := range dirty {
			was, had := tx.Failure(a.id, n.scope, n.name)
			switch is, failing := a.failure(n); {
			case failing && is != was:
				e.Failures = append(e.Failures, is)
			case !failing && had:
				e.Ended = append(e.Ended, was)
			}
			if n.scope == failureInsertion && a.pollStates[n.name] == nil {
				e.Clear(a.published().alarms, watch.AlarmOf(watch.Unreadable, listings.OperationContactRequests, n.name), a.id, time.Now())
			}
		}
		return e, nil
	})
	if err != nil {
		a.mu.Lock()
		maps.Copy(a.dirty, dirty) // the next one tries again
		a.mu.Unlock()
	}
	return err
}

// restoreFailures goes on with the failures of the process before. It returns the insertions that wait, and until when.
func (a *agency) restoreFailures(list []store.Failure, now time.Time) map[string]time.Time {
	waiting := map[string]time.Time{}
	for _, t := range list {
		switch {
		case t.Scope == failureInsertion:
			a.restoreRefusal(t)
			a.retry(t.Name)
		case t.Scope == failureKey && t.Name != a.key().Fingerprint(): // no answer would ever end it
			a.markDirty(t.Scope, t.Name)
			continue
		}
		a.mu.Lock()
		b := a.backoffOf(failureName{t.Scope, t.Name})
		a.mu.Unlock()
		after := b.change(func(b watch.Backoff) watch.Backoff { return b.Restored(t, now) })
		switch t.Scope {
		case failureKey:
			a.p.budget.resume(now)
		case failureInsertion:
			waiting[t.Name] = after.Until
		}
	}
	return waiting
}

// failures are those that the process before had.
func (a *agency) failures() (list []store.Failure, err error) {
	err = a.p.store.View(func(tx *store.Tx) error {
		list = tx.Failures(a.id)
		return nil
	})
	return list, err
}
