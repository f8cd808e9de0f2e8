package poller

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// anAgency is one that is watched, of a poller that does not run.
func anAgency(t *testing.T) *agency {
	t.Helper()
	api := listings.Options{BaseURL: "http://127.0.0.1:1"}
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: api.BaseURL, Max: 1 << 20})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	key := listings.NewKey("11111111-2222-4333-8444-555555555555")
	p, err := New(Options{Store: s, API: api, Agencies: []AgencyKeys{{ID: "A100", Key: key}}})
	must(t, err)
	return p.byID["A100"]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *agency) request(op listings.Operation, reference string) listings.Request {
	return listings.Request{Operation: op, AgencyID: a.id, Reference: reference, Key: a.key().Fingerprint()}
}

func refusalOf(q listings.Request) *listings.StatusError {
	return &listings.StatusError{Request: q, Status: 403, Body: listings.BodyNone}
}

// TestNothingIsSentAfterARefusalWhileACommitHangs reads a 403 while the disk is slow.
func TestNothingIsSentAfterARefusalWhileACommitHangs(t *testing.T) {
	a := anAgency(t)
	one, other := a.request(listings.OperationContactRequests, "a#1##"), a.request(listings.OperationContactRequests, "a#2##")
	for _, busy := range []sync.Locker{&a.committing, &a.mu} {
		busy.Lock()
		defer busy.Unlock()
	}
	refuse := func(q listings.Request) {
		admission{p: a.p}.Done(q, listings.Outcome{Status: 403, Err: refusalOf(q)})
	}
	must(t, a.p.admit(one, time.Now()))
	refuse(one)
	if err := a.p.admit(one, time.Now()); !errors.Is(err, watch.ErrHalted) {
		t.Errorf("a refused insertion is polled again: %v", err)
	}
	must(t, a.p.admit(other, time.Now()))
	refuse(a.request(listings.OperationInsertions, ""))
	if err := a.p.admit(other, time.Now()); err == nil {
		t.Error("contact requests are polled after the agency was refused")
	}
}

// TestAHaltActsBeforeItIsStored refuses the list while another commit hangs: no request is allowed
// from then on.
func TestAHaltActsBeforeItIsStored(t *testing.T) {
	a := anAgency(t)
	hangs, release, stored := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		stored <- a.p.store.Update(func(*store.Tx) error {
			close(hangs)
			<-release
			return nil
		})
	}()
	<-hangs
	list := a.request(listings.OperationInsertions, "")
	go func() { stored <- a.refused(refusalOf(list)) }()
	for end := time.Now().Add(2 * time.Minute); !a.isHalted(list.Operation, ""); runtime.Gosched() {
		if time.Now().After(end) {
			t.Error("the halt waits for the disk")
			break
		}
	}
	close(release)
	must(t, errors.Join(<-stored, <-stored))
	must(t, a.p.store.View(func(tx *store.Tx) error {
		if halts := tx.Halts(a.id); len(halts) != 1 {
			t.Errorf("stored: %v", halts)
		}
		return nil
	}))
}

// TestAHaltThatCannotBeStoredIsInForceAndEndsThePoller refuses the list when the store has no
// space. The next start sends no request before it could write.
func TestAHaltThatCannotBeStoredIsInForceAndEndsThePoller(t *testing.T) {
	a := anAgency(t)
	err := a.p.store.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", "a#1##", make([]byte, 80<<20)) })
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("there is space: %v", err)
	}
	err = a.refused(refusalOf(a.request(listings.OperationInsertions, "")))
	if !errors.Is(err, store.ErrNoSpace) || watch.Classify(err) != watch.ClassFatal {
		t.Errorf("the refusal ends with %v", err)
	}
	for _, op := range operations {
		if err := a.p.admit(a.request(op, "a#1##"), time.Now()); !errors.Is(err, watch.ErrHalted) {
			t.Errorf("%s are requested: %v", op, err)
		}
	}
	if _, err := New(a.p.o); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("another poller starts: %v", err)
	}
}

func TestTheStatusWaitsForNoCommit(t *testing.T) {
	a := anAgency(t)
	a.committing.Lock()
	defer a.committing.Unlock()
	must(t, a.p.store.Update(func(*store.Tx) error {
		done := make(chan Status, 1)
		go func() { done <- a.p.Status() }()
		select {
		case <-done:
			return nil
		case <-time.After(2 * time.Minute): // only ends a hang
			return errors.New("it waits")
		}
	}))
}

func TestAHaltThatIsResumedWhileItIsRenewedEnds(t *testing.T) {
	a := anAgency(t)
	for range 100 {
		h := store.Halt{
			Scope: events.ScopeInsertion, Reference: "a#1##", Operation: "contact_requests", Status: 403, Since: time.Now(),
		}
		halted := a.access().With(h)
		a.allowed.Store(&halted)
		must(t, a.p.store.Update(func(tx *store.Tx) error { return tx.PutHalt(a.id, h) }))
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.refusedContacts(h.Reference); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if n, err := a.p.Resume("A100", ""); n != 1 || err != nil {
				t.Errorf("%d halts ended, %v", n, err)
			}
		})
		both.Wait()
		var kept []store.Halt
		must(t, a.p.store.View(func(tx *store.Tx) error { kept = tx.Halts(a.id); return nil }))
		if len(kept)+len(a.access().Halts) > 0 {
			t.Fatalf("halted for another day: in the store %d, in memory %d", len(kept), len(a.access().Halts))
		}
	}
}

// TestAPlaceThatTwoPollsFindAtOnceIsAnnouncedOnce gives the second poll the snapshot that both read.
func TestAPlaceThatTwoPollsFindAtOnceIsAnnouncedOnce(t *testing.T) {
	a := anAgency(t)
	find := func(path string, at time.Time) {
		t.Helper()
		place := listings.Place{Known: true, Path: path}
		must(t, a.locate(listings.OperationContactRequests, "a#1##", place, 1, at))
	}
	now := time.Now()
	find("/content", now)
	both := a.published()
	find("/items", now)
	a.snapshot.Store(&both)
	find("/items", now.Add(2*placeEvery))
	log, err := a.p.store.Events(0, 10, 1<<20)
	must(t, err)
	if len(log) != 1 || log[0].Type != events.TypeWatchSchemaDrifted {
		t.Errorf("%d events are in the log", len(log))
	}
}
