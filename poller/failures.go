package poller

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Scopes of failures. A failure outlives the process, so that one that crashes again and again asks no more often than one
// that lives.
const (
	failureInsertion = "insertion"        // the contact requests of one insertion; its name is the reference
	failurePolls     = "contact_requests" // those of the agency, whichever insertion is asked
	failureWalks     = "insertions"       // the list
	failureKey       = "key"              // the API asks a key for patience; its name is the fingerprint
	failureBase      = "base"             // the base URL does not answer
)

type failureName struct{ scope, name string }

// markDirty notes that a failure may have begun, changed or ended; keepFailures writes it.
func (a *agency) markDirty(scope, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dirty[failureName{scope, name}] = struct{}{}
}

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
	if l := a.looks[n.name]; l != nil && n.scope == failureInsertion {
		return l.retry
	}
	return nil
}

// failure is how a failure stands now, and whether it is one. The caller holds a.mu.
func (a *agency) failure(n failureName) (t store.Failure, failing bool) {
	t = a.backoffOf(n).state().Failure(n.scope, n.name)
	failing = t.Failures > 0
	if l := a.looks[n.name]; l != nil && n.scope == failureInsertion && l.refusal != nil {
		t.Since, t.Status = l.refusal.at.UTC().Round(0), l.refusal.answer.Status
		t.Body, t.Key = string(l.refusal.answer.Body), l.refusal.answer.Request.Key
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
			if n.scope == failureInsertion && a.looks[n.name] == nil {
				for _, kind := range []string{watch.Unreadable, watch.WindowFull} {
					e.Clear(a.published().alarms, watch.AlarmOf(kind, listings.OperationContactRequests, n.name), a.id, time.Now())
				}
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
		case t.Scope == failureKey && !a.shows(t.Name): // nobody would ever hear that its patience is over
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

// forgetRefusals forgets that insertions were refused, those of the halts that end, or all of the agency where one is not
// that of an insertion: what was answered before says nothing about after. Their failures stay.
func forgetRefusals(tx *store.Tx, agencyID string, ended []store.Halt) error {
	if len(ended) == 0 {
		return nil
	}
	covered := make(map[string]bool, len(ended))
	for _, h := range ended {
		covered[h.Reference] = true
	}
	list, err := tx.Failures(agencyID)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Scope != failureInsertion || t.Status == 0 || !covered[""] && !covered[t.Name] {
			continue
		}
		t.Status, t.Body, t.Key = 0, "", ""
		keep := tx.PutFailure
		if t.Failures == 0 {
			keep = tx.DeleteFailure
		}
		if err := keep(agencyID, t); err != nil {
			return err
		}
	}
	return nil
}

// failures are those that the process before had.
func (a *agency) failures() (list []store.Failure, err error) {
	err = a.p.store.View(func(tx *store.Tx) error {
		list, err = tx.Failures(a.id)
		return err
	})
	return list, err
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

// backoff is a watch.Backoff that all share whom it makes wait. A nil one has not failed.
type backoff struct {
	mu sync.Mutex
	is watch.Backoff
}

func newBackoff(first, longest time.Duration) *backoff {
	return &backoff{is: watch.NewBackoff(first, longest)}
}

func (b *backoff) state() watch.Backoff {
	return b.change(func(b watch.Backoff) watch.Backoff { return b })
}

func (b *backoff) change(to func(watch.Backoff) watch.Backoff) watch.Backoff {
	if b == nil {
		return watch.Backoff{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.is = to(b.is)
	return b.is
}

// failed counts a failure, and returns when to try again.
func (b *backoff) failed(what string, sent, now time.Time) time.Time {
	return b.change(func(b watch.Backoff) watch.Backoff { return b.Failed(what, sent, now) }).Until
}

// succeeded says whether a success has ended the back-off.
func (b *backoff) succeeded(sent time.Time) (ended bool) {
	b.change(func(b watch.Backoff) watch.Backoff {
		after := b.Succeeded(sent)
		ended = after.Failures < b.Failures
		return after
	})
	return ended
}

func (b *backoff) try(now time.Time) {
	b.change(func(b watch.Backoff) watch.Backoff { return b.Probed(now) })
}

func (b *backoff) dismissed(sent time.Time) {
	b.change(func(b watch.Backoff) watch.Backoff { return b.Dismissed(sent) })
}

// jitter spreads an interval by a tenth, so that agencies do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + rand.N(d/10+1)
}

// operationLimit is how many different insertions must fail in a row before the whole operation backs off.
const operationLimit = 3
