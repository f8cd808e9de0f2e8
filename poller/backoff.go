package poller

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Scopes of troubles. A trouble outlives the process, so that one that crashes again and again asks no more often than one
// that lives.
const (
	troubleInsertion = "insertion"        // the contact requests of one insertion; its name is the reference
	troublePolls     = "contact_requests" // those of the agency, whichever insertion is asked
	troubleWalks     = "insertions"       // the list
	troubleKey       = "key"              // the API asks a key for patience; its name is the fingerprint
	troubleBase      = "base"             // the base URL does not answer
)

type troubleName struct{ scope, name string }

// touch notes that a trouble may have begun, changed or ended; keepTroubles writes it.
func (a *agency) touch(scope, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.touched[troubleName{scope, name}] = struct{}{}
}

// trouble is how a trouble stands now, and whether it is one.
func (a *agency) trouble(n troubleName) (store.Trouble, bool) {
	switch n.scope {
	case troublePolls:
		return a.asking.trouble(n.scope, n.name)
	case troubleWalks:
		return a.walking.trouble(n.scope, n.name)
	case troubleKey:
		return a.p.keyBackoff(n.name).trouble(n.scope, n.name)
	case troubleBase:
		return a.p.base.trouble(n.scope, n.name)
	case watch.TroubleWindow:
		return store.Trouble{}, false // is written where it is told
	}
	a.mu.Lock()
	l := a.looks[n.name]
	if l == nil {
		a.mu.Unlock()
		return store.Trouble{}, false
	}
	refused, retry := l.refusal, l.retry
	a.mu.Unlock()
	t, failing := retry.trouble(n.scope, n.name)
	if refused != nil {
		t.Since, t.Status = refused.at.UTC().Round(0), refused.answer.Status
		t.Body, t.Key = string(refused.answer.Body), refused.answer.Request.Key
	}
	return t, failing || refused != nil
}

// keepTroubles writes the troubles that have changed, in one transaction; nothing if none has.
func (a *agency) keepTroubles() error {
	a.committing.Lock()
	defer a.committing.Unlock()
	a.mu.Lock()
	touched := a.touched
	if len(touched) == 0 {
		a.mu.Unlock()
		return nil
	}
	a.touched = map[troubleName]struct{}{}
	a.mu.Unlock()
	var puts, deletes []store.Trouble
	for n := range touched {
		now, is := a.trouble(n)
		a.mu.Lock()
		was, had := a.saved[n]
		forgotten := a.looks[n.name] == nil
		a.mu.Unlock()
		now.Told = was.Told
		switch {
		case is && now != was:
			puts = append(puts, now)
		case !is && had && (!was.Told || forgotten): // else clearUnreadable ends what was told
			deletes = append(deletes, was)
		}
	}
	var list []events.Payload
	for _, t := range deletes {
		if t.Told {
			list = append(list, watch.GapEnds(a.id, t, time.Now()))
		}
	}
	return a.writeTroubles(puts, deletes, list)
}

// writeTroubles writes troubles, and what belongs into the same transaction.
func (a *agency) writeTroubles(puts, deletes []store.Trouble, list []events.Payload) error {
	if len(puts)+len(deletes) == 0 {
		return nil
	}
	err := a.commit(func(*store.Tx) (watch.Effects, error) {
		return watch.Effects{Troubles: puts, Over: deletes, Events: list}, nil
	})
	if err != nil {
		for _, t := range slices.Concat(puts, deletes) {
			a.touch(t.Scope, t.Name) // the next one tries again
		}
	}
	return err
}

// restoreTroubles goes on with the troubles of the process before. It returns the insertions that wait, and until when.
func (a *agency) restoreTroubles(list []store.Trouble, now time.Time) map[string]time.Time {
	waiting := map[string]time.Time{}
	for _, t := range list {
		a.saved[troubleName{t.Scope, t.Name}] = t
		switch t.Scope {
		case troublePolls:
			a.asking.restore(t, now, a.p.o.RetryMax)
		case troubleWalks:
			a.walking.restore(t, now, a.p.o.RetryMax)
		case troubleKey:
			if !a.shows(t.Name) { // nobody would ever hear that its patience is over
				a.touch(t.Scope, t.Name)
				continue
			}
			a.p.keyBackoff(t.Name).restore(t, now, watch.LongestKeyWait)
			a.p.budget.resume(now)
		case troubleBase:
			a.p.base.restore(t, now, a.p.o.RetryMax)
		case troubleInsertion:
			waiting[t.Name] = a.restoreLook(t, now)
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
	list, err := tx.Troubles(agencyID)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Scope != troubleInsertion || t.Status == 0 || !covered[""] && !covered[t.Name] {
			continue
		}
		t.Status, t.Body, t.Key = 0, "", ""
		keep := tx.PutTrouble
		if t.Failures == 0 && !t.Told {
			keep = tx.DeleteTrouble
		}
		if err := keep(agencyID, t); err != nil {
			return err
		}
	}
	return nil
}

// troubles are those that the process before had.
func (a *agency) troubles() (list []store.Trouble, err error) {
	err = a.p.store.View(func(tx *store.Tx) error {
		list, err = tx.Troubles(a.id)
		return err
	})
	return list, err
}

// shows says whether a key is one of those that are configured.
func (a *agency) shows(fingerprint string) bool {
	keys := a.access().Keys
	return fingerprint == keys.Current.Fingerprint() || fingerprint == keys.Next.Fingerprint()
}

func (a *agency) restoreLook(t store.Trouble, now time.Time) (until time.Time) {
	l := a.look(t.Name)
	retry := a.retry(t.Name)
	retry.restore(t, now, a.p.o.RetryMax)
	if (t.Status == http.StatusForbidden || t.Status == http.StatusUnauthorized) && t.Key == a.keyFor(listings.OperationContactRequests).Fingerprint() {
		l.refusal = &refusal{at: t.Since, answer: &listings.StatusError{
			Request: listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: t.Name, Key: t.Key},
			Status:  t.Status, Body: listings.BodyKind(t.Body),
		}}
	} else if t.Status != 0 {
		a.touch(t.Scope, t.Name) // it says nothing of this key, nor of the other one another day
	}
	_, _, until = retry.state()
	return until
}

// unreadableAfter is how many failures in a row make an insertion unreadable, see also watch.UnreadableFor.
const unreadableAfter = 3

// raiseUnreadable says, once, that the contact requests of an insertion cannot be read while those of others can.
func (a *agency) raiseUnreadable(reference string, now time.Time) error {
	if failures, _, _ := a.asking.state(); failures >= operationLimit {
		return nil // nobody's can be read: that is another alarm
	}
	a.committing.Lock()
	defer a.committing.Unlock()
	n := troubleName{troubleInsertion, reference}
	t, failing := a.trouble(n)
	a.mu.Lock()
	told := a.saved[n].Told
	a.mu.Unlock()
	long := max(3*a.p.o.PollInterval, watch.UnreadableFor)
	if !failing || told || t.Failures < unreadableAfter || now.Sub(t.Since) < long {
		return nil
	}
	t.Told = true
	return a.writeTroubles([]store.Trouble{t}, nil, []events.Payload{&events.WatchGapDetected{
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
	t, had := a.saved[troubleName{troubleInsertion, reference}]
	a.mu.Unlock()
	if !had || !t.Told {
		return nil
	}
	return a.writeTroubles(nil, []store.Trouble{t}, []events.Payload{watch.GapEnds(a.id, t, now)})
}

// backoff is the back-off of one thing that fails: an insertion, an operation of an agency, a key, the base URL. It
// counts failures in a row and says when to try again; after a failure requests go one at a time, until one succeeds.
//
// Answers come in another order than their questions were sent. What was sent before the last failure says nothing about
// what came after it: it neither ends the back-off nor lengthens it. Safe for concurrent use. A nil one has not failed.
type backoff struct {
	mu       sync.Mutex
	first    time.Duration
	longest  time.Duration
	failures int
	since    time.Time // the first of them
	failedAt time.Time
	until    time.Time
	probe    time.Time // when the one that may try was let go; zero: nobody was
	last     string    // what failed last
}

func newBackoff(first, longest time.Duration) *backoff {
	return &backoff{first: first, longest: longest}
}

// failed counts a failure of what, of a request that was sent at a moment, and returns when to try again.
func (p *backoff) failed(what string, sent, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 && !sent.After(p.failedAt) {
		return p.until
	}
	if p.failures == 0 {
		p.since = now
	}
	p.failures++
	p.last, p.failedAt, p.probe = what, now, time.Time{}
	p.until = now.Add(watch.Delay(p.first, p.longest, p.failures))
	return p.until
}

// begged counts a failure of who says when to come back, after wait, whatever the back-off says; zero: nothing was said. An
// answer that was under way when another one begged may only lengthen the wait.
func (p *backoff) begged(sent, now time.Time, wait time.Duration) {
	p.mu.Lock()
	underWay := p.failures > 0 && !sent.After(p.failedAt)
	p.mu.Unlock()
	p.failed("", sent, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(wait); wait > 0 && (!underWay || until.After(p.until)) {
		p.until = until
	}
}

// succeeded ends the back-off, and says whether it did.
func (p *backoff) succeeded(sent time.Time) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 || !sent.After(p.failedAt) {
		return false
	}
	p.failures, p.since, p.until, p.failedAt, p.probe, p.last = 0, time.Time{}, time.Time{}, time.Time{}, time.Time{}, ""
	return true
}

// restore goes on where a process before this one was. A moment that is implausibly far away, because a clock jumped, is
// not waited for.
func (p *backoff) restore(t store.Trouble, now time.Time, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Failures <= 0 || p.failures > 0 && !t.Until.After(p.until) {
		return
	}
	p.failures, p.since, p.failedAt, p.probe, p.last = t.Failures, t.Since, now, time.Time{}, t.Last
	if t.Until.Before(now) { // the failure was before that; what was answered since is news
		p.failedAt = t.Until
	}
	if p.until = t.Until; p.until.After(now.Add(longest)) {
		p.until = now.Add(longest)
	}
}

// trouble is what a restart must know; without failures there is none.
func (p *backoff) trouble(scope, name string) (t store.Trouble, failing bool) {
	if p == nil {
		return store.Trouble{Scope: scope, Name: name}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return store.Trouble{
		Scope: scope, Name: name, Failures: p.failures, Since: p.since.UTC().Round(0), Until: p.until.UTC().Round(0), Last: p.last,
	}, p.failures > 0
}

// wait is how long a request must wait before it may go; zero: it may go now.
func (p *backoff) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 && !p.probe.IsZero() {
		return max(p.until.Sub(now), time.Second)
	}
	return max(p.until.Sub(now), 0)
}

// try says that a request goes now; after a failure it is the only one until it is over: failed, succeeded or dismissed.
func (p *backoff) try(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 {
		p.probe = now
	}
}

// failedSince says whether something has failed since a moment, and until when to wait then.
func (p *backoff) failedSince(moment time.Time) (until time.Time, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until, p.failures > 0 && p.failedAt.After(moment)
}

// dismissed ends a try that told nothing, of a request that was sent, or would have been, at a moment.
func (p *backoff) dismissed(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probe.IsZero() && !sent.Before(p.probe) {
		p.probe = time.Time{}
	}
}

// state returns the failures in a row, what failed last and when the next try is due.
func (p *backoff) state() (failures int, last string, until time.Time) {
	if p == nil {
		return 0, "", time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures, p.last, p.until
}
