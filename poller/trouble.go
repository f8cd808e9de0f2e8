package poller

import (
	"net/http"
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
	troubleBase      = "base"             // nobody answers at the base URL
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
		return a.p.keyPatience(n.name).trouble(n.scope, n.name)
	case troubleBase:
		return a.p.base.trouble(n.scope, n.name)
	case gapScope:
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
	a.keeping.Lock()
	defer a.keeping.Unlock()
	a.mu.Lock()
	touched := a.touched
	if len(touched) > 0 {
		a.touched = map[troubleName]struct{}{}
	}
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
		case !is && had && (!was.Told || forgotten): // else tellReadable ends what was told
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
	err := a.p.store.Update(func(tx *store.Tx) error {
		for _, t := range puts {
			if err := tx.PutTrouble(a.id, t); err != nil {
				return err
			}
		}
		for _, t := range deletes {
			if err := tx.DeleteTrouble(a.id, t); err != nil {
				return err
			}
		}
		return appendEvents(tx, list)
	})
	if err == nil {
		a.told(list)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range puts {
		n := troubleName{t.Scope, t.Name}
		if err != nil {
			a.touched[n] = struct{}{} // the next one tries again
			continue
		}
		a.saved[n] = t
	}
	for _, t := range deletes {
		n := troubleName{t.Scope, t.Name}
		if err != nil {
			a.touched[n] = struct{}{}
			continue
		}
		delete(a.saved, n)
		if t.Scope == gapScope {
			a.windows.told(t.Name, nil)
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
			a.p.keyPatience(t.Name).restore(t, now, watch.LongestKeyWait)
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
	ring := a.ring()
	return fingerprint == ring.Current.Fingerprint() || fingerprint == ring.Next.Fingerprint()
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

// tellUnreadable says, once, that the contact requests of an insertion cannot be read while those of others can.
func (a *agency) tellUnreadable(reference string, now time.Time) error {
	if failures, _, _ := a.asking.state(); failures >= operationLimit {
		return nil // nobody's can be read: that is another alarm
	}
	a.keeping.Lock()
	defer a.keeping.Unlock()
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

// tellReadable says that an insertion can be read again, if it was said that it cannot.
func (a *agency) tellReadable(reference string, now time.Time) error {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	a.mu.Lock()
	t, had := a.saved[troubleName{troubleInsertion, reference}]
	a.mu.Unlock()
	if !had || !t.Told {
		return nil
	}
	return a.writeTroubles(nil, []store.Trouble{t}, []events.Payload{watch.GapEnds(a.id, t, now)})
}
