package poller

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"doorbell/events"
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
	return nil // that of a window is written where it is told
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

// keepFailures writes the failures that have changed, in one transaction; nothing if none has.
func (a *agency) keepFailures() error {
	a.committing.Lock()
	defer a.committing.Unlock()
	var puts, deletes []store.Failure
	var list []events.Payload
	a.mu.Lock()
	for n := range a.dirty {
		now, is := a.failure(n)
		was, had := a.saved[n]
		forgotten := a.looks[n.name] == nil
		now.Told = was.Told
		switch {
		case is && now != was:
			puts = append(puts, now)
		case !is && had && (!was.Told || forgotten): // else clearUnreadable ends what was told
			deletes = append(deletes, was)
			if was.Told {
				list = append(list, watch.GapEnds(a.id, was, time.Now()))
			}
		}
	}
	clear(a.dirty)
	a.mu.Unlock()
	return a.writeFailures(puts, deletes, list)
}

// writeFailures writes failures, and what belongs into the same transaction.
func (a *agency) writeFailures(puts, deletes []store.Failure, list []events.Payload) error {
	if len(puts)+len(deletes) == 0 {
		return nil
	}
	err := a.commit(func(*store.Tx) (watch.Effects, error) {
		return watch.Effects{Failures: puts, Over: deletes, Events: list}, nil
	})
	if err != nil {
		for _, t := range slices.Concat(puts, deletes) {
			a.markDirty(t.Scope, t.Name) // the next one tries again
		}
	}
	return err
}

// restoreFailures goes on with the failures of the process before. It returns the insertions that wait, and until when.
func (a *agency) restoreFailures(list []store.Failure, now time.Time) map[string]time.Time {
	waiting := map[string]time.Time{}
	for _, t := range list {
		n := failureName{t.Scope, t.Name}
		a.saved[n] = t
		switch {
		case t.Scope == failureInsertion:
			a.restoreRefusal(t)
			a.retry(t.Name)
		case t.Scope == failureKey && !a.shows(t.Name): // nobody would ever hear that its patience is over
			a.markDirty(t.Scope, t.Name)
			continue
		}
		a.mu.Lock()
		b := a.backoffOf(n)
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
		if t.Failures == 0 && !t.Told {
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

// unreadableAfter is how many failures in a row make an insertion unreadable, see also watch.UnreadableFor.
const unreadableAfter = 3

// raiseUnreadable says, once, that the contact requests of an insertion cannot be read while those of others can.
func (a *agency) raiseUnreadable(reference string, now time.Time) error {
	if a.asking.state().Failures >= operationLimit {
		return nil // nobody's can be read: that is another alarm
	}
	a.committing.Lock()
	defer a.committing.Unlock()
	n := failureName{failureInsertion, reference}
	a.mu.Lock()
	t, failing := a.failure(n)
	told := a.saved[n].Told
	a.mu.Unlock()
	long := max(3*a.p.o.PollInterval, watch.UnreadableFor)
	if !failing || told || t.Failures < unreadableAfter || now.Sub(t.Since) < long {
		return nil
	}
	t.Told = true
	return a.writeFailures([]store.Failure{t}, nil, []events.Payload{&events.WatchGapDetected{
		Common:    events.Common{AgencyID: a.id, ObservedAt: now},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: reference,
		Reason: "unreadable", From: t.Since, To: now,
	}})
}

// clearUnreadable says that an insertion can be read again, if it was said that it cannot.
func (a *agency) clearUnreadable(reference string, now time.Time) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	a.mu.Lock()
	t, had := a.saved[failureName{failureInsertion, reference}]
	a.mu.Unlock()
	if !had || !t.Told {
		return nil
	}
	return a.writeFailures(nil, []store.Failure{t}, []events.Payload{watch.GapEnds(a.id, t, now)})
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
