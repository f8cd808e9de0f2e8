package store_test

import (
	"errors"
	"testing"
	"time"

	"doorbell/store"
)

// Times of events have milliseconds: what is remembered is compared with them.
func TestTimesAreRememberedInMilliseconds(t *testing.T) {
	s := open(t, t.TempDir())
	at := time.Date(2026, 11, 20, 10, 0, 0, 7_000_002, time.FixedZone("", 3600))
	want := time.Date(2026, 11, 20, 9, 0, 0, 7_000_000, time.UTC)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutInsertion("A100", store.Insertion{Reference: "a#1##", LastPoll: at}),
			tx.PutContactRequests("A100", "a#1##", store.ContactRequest{ID: "1", CreatedAt: at}))
	})
	if err := s.View(func(tx *store.Tx) error {
		if i, _ := tx.Insertion("A100", "a#1##"); i.LastPoll != want {
			t.Errorf("the insertion has %v", i.LastPoll)
		}
		if c := tx.ContactRequests("A100", "a#1##"); c[0].CreatedAt != want {
			t.Errorf("the contact request has %v", c[0].CreatedAt)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
