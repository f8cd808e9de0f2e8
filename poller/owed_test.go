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

// TestAHaltThatWasOwedIsWrittenBeforeItEnds is what follows a refusal whose commit found no space.
func TestAHaltThatWasOwedIsWrittenBeforeItEnds(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: "https://api.example.org"},
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := p.byID["A100"]
	a.oweHalt(watch.Scope{Scope: events.ScopeAgency})
	if ended, err := p.Resume("A100", ""); err != nil || ended != 1 {
		t.Fatalf("%d ended, %v", ended, err)
	}
	if err := p.tryToWrite(); err != nil {
		t.Fatal(err)
	}
	log, err := s.Events(0, 100, 1<<20)
	if err != nil || len(log) != 2 || log[0].Type != events.TypeAccessHalted || log[1].Type != events.TypeAccessResumed {
		t.Errorf("told: %v, %v", log, err)
	}
	err = s.View(func(tx *store.Tx) error {
		halts := tx.Halts("A100")
		if len(halts) != 0 {
			t.Errorf("halts are left: %v", halts)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNothingIsSentAfterARefusalWhileACommitHangs lets the first 403 of the list be read while the disk takes its time.
func TestNothingIsSentAfterARefusalWhileACommitHangs(t *testing.T) {
	a := anAgency(t)
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()}
	poll := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: "a#1##", Key: list.Key}
	for _, busy := range []sync.Locker{&a.committing, &a.pausing, &a.mu} {
		busy.Lock()
		defer busy.Unlock()
	}
	if err := a.p.admit(poll, time.Now()); err != nil {
		t.Fatal(err)
	}
	refused := &listings.StatusError{Request: list, Status: 403, Body: listings.BodyNone}
	admission{p: a.p}.Done(list, listings.Outcome{Status: 403, Err: refused})
	if err := a.p.admit(poll, time.Now()); err == nil {
		t.Error("contact requests are asked for after the agency was refused")
	}
}

// TestAHaltActsBeforeItIsStored refuses the list while another commit hangs: nothing may be asked from then on.
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
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()}
	go func() {
		stored <- a.refused(&listings.StatusError{Request: list, Status: 403, Body: listings.BodyNone})
	}()
	for end := time.Now().Add(2 * time.Minute); !a.isHalted(list); runtime.Gosched() {
		if time.Now().After(end) {
			t.Error("the halt waits for the disk")
			break
		}
	}
	close(release)
	for range 2 {
		if err := <-stored; err != nil {
			t.Error(err)
		}
	}
	err := a.p.store.View(func(tx *store.Tx) error {
		halts := tx.Halts(a.id)
		if len(halts) != 1 {
			t.Errorf("stored: %v", halts)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNothingIsAskedOfARefusedInsertionWhileACommitTakesLong is a refusal that is read while the disk is slow.
func TestNothingIsAskedOfARefusedInsertionWhileACommitTakesLong(t *testing.T) {
	a := anAgency(t)
	a.committing.Lock()
	defer a.committing.Unlock()
	q := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: "a#1##"}
	q.Key = a.key().Fingerprint()
	admission{p: a.p}.Done(q, listings.Outcome{Status: 403, Err: &listings.StatusError{Request: q, Status: 403, Body: listings.BodyNone}})
	if err := a.p.mayAsk(q); !errors.Is(err, watch.ErrHalted) {
		t.Errorf("%v", err)
	}
	q.Reference = "a#2##"
	if err := a.p.mayAsk(q); err != nil {
		t.Errorf("another one: %v", err)
	}
}

// TestWhatIsOwedGoesInFrontOfTheEndOfAnInsertion lets a halted insertion disappear before the halt could be written.
func TestWhatIsOwedGoesInFrontOfTheEndOfAnInsertion(t *testing.T) {
	a := anAgency(t)
	a.oweHalt(watch.Scope{Scope: events.ScopeInsertion, Reference: "a#1##"})
	a.committing.Lock()
	err := a.commit(func(*store.Tx) (watch.Effects, error) { return watch.Effects{Unhalted: []string{"a#1##"}}, nil })
	a.committing.Unlock()
	if err == nil {
		err = a.p.tryToWrite()
	}
	if err != nil {
		t.Fatal(err)
	}
	a.mustHold(t, 0)
	if list := a.access().List(""); len(list) > 0 {
		t.Errorf("in force: %v", list)
	}
}

// TestAHaltThatEndsSilentOnesIsOwedToo refuses the list on a full disk while an insertion is halted silently.
func TestAHaltThatEndsSilentOnesIsOwedToo(t *testing.T) {
	a := anAgency(t)
	a.apply(watch.AccessChange{Halted: []store.Halt{{Scope: events.ScopeInsertion, Reference: "a#1##", Since: time.Now(), Silent: true}}})
	a.holdAtMost(t, 1)
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()}
	if err := a.refused(&listings.StatusError{Request: list, Status: 403, Body: listings.BodyNone}); !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("it is not full: %v", err)
	}
	a.holdAtMost(t, 0)
	if err := a.p.tryToWrite(); err != nil {
		t.Fatal(err)
	}
	a.mustHold(t, 1)
}

// TestWhatWasForgottenOnAFullDiskEndsLater forgets an insertion that is halted silently.
func TestWhatWasForgottenOnAFullDiskEndsLater(t *testing.T) {
	a := anAgency(t)
	silent := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Since: time.Now(), Silent: true}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange {
		return watch.AccessChange{AgencyID: x.AgencyID, Halted: []store.Halt{silent}}
	})
	if err != nil {
		t.Fatal(err)
	}
	a.forget("a#1##")
	a.holdAtMost(t, 1)
	if err := a.endForgotten(); !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("it is not full: %v", err)
	}
	a.holdAtMost(t, 0)
	if err := a.endForgotten(); err != nil {
		t.Fatal(err)
	}
	err = a.p.store.View(func(tx *store.Tx) error {
		if list := tx.Halts(a.id); len(list)+len(a.access().Halts) > 0 {
			t.Errorf("stored: %v, in force: %v", list, a.access().Halts)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// holdAtMost bounds the store; 0 lifts that.
func (a *agency) holdAtMost(t *testing.T, bytes int64) {
	t.Helper()
	h := store.NewHousekeeping(store.HousekeepingOptions{Store: a.p.store, Retention: time.Hour, Max: bytes})
	if err := h.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// oweHalt is what a refusal leaves whose commit found no space.
func (a *agency) oweHalt(scope watch.Scope) {
	refusal := &listings.StatusError{
		Request: listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()},
		Status:  403, Body: listings.BodyNone,
	}
	c := a.access().Refuse(refusal, nil, time.Now())
	c.Halted[0].Scope, c.Halted[0].Reference = scope.Scope, scope.Reference
	a.apply(c)
	a.owed = []watch.AccessChange{c}
}

// mustHold wants that many halts in the store, and that the one that there was is told.
func (a *agency) mustHold(t *testing.T, halts int) {
	t.Helper()
	err := a.p.store.View(func(tx *store.Tx) error {
		list := tx.Halts(a.id)
		if len(list) != halts {
			t.Errorf("stored: %v", list)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	log, err := a.p.store.Events(0, 100, 1<<20)
	if err != nil || len(log) != 1 || log[0].Type != events.TypeAccessHalted {
		t.Errorf("told: %v, %v", log, err)
	}
}

// TestAStoppedDaemonTellsOfNoHaltThatIsNotAnnounced stops it before a walk has decided about a refused insertion.
func TestAStoppedDaemonTellsOfNoHaltThatIsNotAnnounced(t *testing.T) {
	a := anAgency(t)
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange {
		return watch.AccessChange{AgencyID: x.AgencyID, Halted: []store.Halt{{Scope: events.ScopeInsertion, Reference: "a#1##", Since: time.Now(), Silent: true}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Remembered(a.p.store)
	if err != nil || len(s.Agencies) != 1 || len(s.Agencies[0].Halts) > 0 {
		t.Errorf("%+v, %v", s.Agencies, err)
	}
}
