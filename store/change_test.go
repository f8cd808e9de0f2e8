package store_test

import (
	"bytes"
	"errors"
	"testing"

	"doorbell/store"
)

func TestAChangeLooksOnceWhereNoCommitCameBetween(t *testing.T) {
	s := open(t, t.TempDir())
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequests("A", "r", store.ContactRequest{ID: "1"}) })
	looks := 0
	err := s.Change(func(tx *store.Tx) (bool, error) {
		looks++
		known := tx.ContactRequests("A", "r")
		return len(known) == 1, nil
	}, func(tx *store.Tx) error { return tx.PutContactRequests("A", "r", store.ContactRequest{ID: "2"}) })
	if err != nil || looks != 1 {
		t.Errorf("%d looks, %v", looks, err)
	}
	if got := rememberedOf(t, s); got != 2 {
		t.Errorf("%d contact requests are remembered, want 2", got)
	}
}

func TestAChangeLooksAgainWhereAnotherCommitCameBetween(t *testing.T) {
	for _, still := range []bool{true, false} {
		s := open(t, t.TempDir())
		// A file that has to be mapped anew waits for who reads it: this one has room.
		update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A", "large", bytes.Repeat([]byte("1"), 200_000)) })
		looks, written := 0, false
		err := s.Change(func(tx *store.Tx) (bool, error) {
			if looks++; looks == 1 {
				done := make(chan error)
				go func() {
					done <- s.Update(func(tx *store.Tx) error { return tx.PutContactRequests("A", "r", store.ContactRequest{ID: "1"}) })
				}()
				return true, <-done
			}
			known := tx.ContactRequests("A", "r")
			if len(known) != 1 {
				t.Errorf("the second look sees %d contact requests, want 1", len(known))
			}
			return still, nil
		}, func(tx *store.Tx) error {
			written = true
			return tx.PutContactRequests("A", "r", store.ContactRequest{ID: "2"})
		})
		if err != nil || looks != 2 || written != still {
			t.Errorf("%d looks, written %t, %v", looks, written, err)
		}
		if got, want := rememberedOf(t, s), map[bool]int{true: 2, false: 1}[still]; got != want {
			t.Errorf("%d contact requests are remembered, want %d", got, want)
		}
	}
}

func TestAChangeThatIsNotWantedCommitsNothing(t *testing.T) {
	s := open(t, t.TempDir())
	wrong := errors.New("wrong")
	for _, want := range []error{nil, wrong} {
		before := s.Commits()
		err := s.Change(func(*store.Tx) (bool, error) { return false, want }, func(*store.Tx) error {
			t.Error("it writes")
			return nil
		})
		if !errors.Is(err, want) || s.Commits() != before {
			t.Errorf("%v after %d commits, want %v after none", err, s.Commits()-before, want)
		}
	}
}

func rememberedOf(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	err := s.View(func(tx *store.Tx) error {
		known := tx.ContactRequests("A", "r")
		n = len(known)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
