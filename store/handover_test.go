package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

func TestACopyHoldsTheSnapshotAndTheEventsBeyondTheCursor(t *testing.T) {
	s := open(t, t.TempDir())
	halt := store.Halt{Scope: events.ScopeAgency, Status: 403, Since: time.Now().UTC(), Tried: time.Now().UTC()}
	update(t, s, func(tx *store.Tx) error {
		for range 3 {
			if _, err := tx.Append(event(t, "A100")); err != nil {
				return err
			}
		}
		if err := tx.PutHalt("A100", halt); err != nil {
			return err
		}
		return tx.PutAgency("A100", store.Agency{Baselined: true})
	})
	must(t, s.Acknowledge(events.Cursor{Position: 2, ID: "second"}, nil))
	dir := t.TempDir()
	path := filepath.Join(dir, "doorbell.db")
	for range 2 { // a file that a killed process left is replaced
		must(t, s.CopyUnpublished(path))
	}
	must(t, store.Adopt(path))
	copied := open(t, dir)
	must(t, s.Acknowledge(events.Cursor{Position: 3, ID: "third"}, nil))
	other := t.TempDir()
	must(t, s.CopyUnpublished(filepath.Join(other, "doorbell.db")))
	if last, err := open(t, other).LastPosition(); err != nil || last != 3 {
		t.Errorf("positions of a copy without events continue after %d, %v", last, err)
	}
	if copied.ID() == s.ID() {
		t.Error("the copy has the identity of the store")
	}
	list, err := copied.Events(0, 10, 1<<20)
	if err != nil || len(list) != 1 || list[0].Sequence != 3 || list[0].StoreID != s.ID() {
		t.Errorf("events of the copy: %v, %v", list, err)
	}
	update(t, copied, func(tx *store.Tx) error {
		if a, _ := tx.Agency("A100"); !a.AwaitsStream || !a.Baselined {
			t.Errorf("the agency is remembered as %+v", a)
		}
		halts := tx.Halts("A100")
		if len(halts) != 1 || !halts[0].Tried.IsZero() || !halts[0].Since.Equal(halt.Since) {
			t.Errorf("its halts are remembered as %+v", halts)
		}
		e, err := tx.Append(event(t, "A100"))
		if err != nil || e.Sequence != 4 {
			t.Errorf("the next event is at %d: %v", e.Sequence, err)
		}
		return err
	})
}

// TestChangesThatATakeoverCannotRecoverAreUrgent covers what a doorbell that takes over does not
// see again at the API.
func TestChangesThatATakeoverCannotRecoverAreUrgent(t *testing.T) {
	s := open(t, t.TempDir())
	urgent := 0
	s.OnUrgent(func() { urgent++ })
	halt := store.Halt{Scope: events.ScopeAgency, Status: 403}
	held := &store.Held{Missing: 7}
	approved := *held
	approved.Approved = true
	agency := func(a store.Agency) func(*store.Tx) error {
		return func(tx *store.Tx) error { return tx.PutAgency("A100", a) }
	}
	steps := []struct {
		name   string
		do     func(*store.Tx) error
		urgent bool
	}{
		{"an event", func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err }, false},
		{"a held change", agency(store.Agency{Held: held}), false},
		{"its approval", agency(store.Agency{Held: &approved}), true},
		{"a walk", agency(store.Agency{Held: &approved, CompleteWalks: 1}), false},
		{"the end of the baseline", agency(store.Agency{Held: &approved, Baselined: true}), true},
		{"a wait", agency(store.Agency{Held: &approved, Baselined: true, KeyUntil: time.Now(), KeyOf: "key"}), true},
		{"a halt", func(tx *store.Tx) error { return tx.PutHalt("A100", halt) }, true},
		{"its end", func(tx *store.Tx) error { return tx.DeleteHalt("A100", halt) }, true},
	}
	for _, step := range steps {
		urgent = 0
		update(t, s, step.do)
		if (urgent == 1) != step.urgent || urgent > 1 {
			t.Errorf("%s: called %d times", step.name, urgent)
		}
	}
	urgent = 0
	if _, err := s.Erase("A100", []store.Request{{Reference: "a#1##", ID: "1"}}); err != nil || urgent == 0 {
		t.Errorf("an erasure: called %d times, %v", urgent, err)
	}
}
