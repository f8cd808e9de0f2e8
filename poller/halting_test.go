package poller

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// TestNothingIsSentAfterARefusalWhileACommitHangs lets the first 403 of the list be read while the disk takes its time.
func TestNothingIsSentAfterARefusalWhileACommitHangs(t *testing.T) {
	a := anAgency(t)
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()}
	poll := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: "a#1##", Key: list.Key}
	for _, busy := range []sync.Locker{&a.committing, &a.mu} {
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
	for end := time.Now().Add(2 * time.Minute); !a.isHalted(list.Operation, ""); runtime.Gosched() {
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

// TestAHaltThatCannotBeStoredIsInForceAndEndsThePoller refuses the list when the store has no space. The next start asks nothing before
// it could write.
func TestAHaltThatCannotBeStoredIsInForceAndEndsThePoller(t *testing.T) {
	a := anAgency(t)
	endSpace(t, a.p.store)
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id, Key: a.key().Fingerprint()}
	err := a.refused(&listings.StatusError{Request: list, Status: 403, Body: listings.BodyNone})
	if !errors.Is(err, store.ErrNoSpace) || watch.Classify(err) != watch.ClassFatal {
		t.Errorf("the refusal ends with %v", err)
	}
	for _, op := range operations {
		q := listings.Request{Operation: op, AgencyID: a.id, Reference: "a#1##", Key: list.Key}
		if err := a.p.admit(q, time.Now()); !errors.Is(err, watch.ErrHalted) {
			t.Errorf("%s are asked for: %v", op, err)
		}
	}
	if _, err := New(a.p.o); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("another poller begins: %v", err)
	}
}

// endSpace lets a commit of a store find no space.
func endSpace(t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", "a#1##", make([]byte, 80<<20)) })
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("there is space: %v", err)
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
	if err := a.p.admit(q, time.Now()); !errors.Is(err, watch.ErrHalted) {
		t.Errorf("%v", err)
	}
	q.Reference = "a#2##"
	if err := a.p.admit(q, time.Now()); err != nil {
		t.Errorf("another one: %v", err)
	}
}
