package store_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"doorbell/store"
)

// Contact requests of an insertion share their fields, where they have the same.
func TestContactRequestsOfAllKindsComeBackAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fields := []store.Field{{Name: "email"}, {Name: "phone", Empty: true}}
	want := []store.ContactRequest{{ID: "1", Fields: fields}, {ID: "2", Fields: fields[1:]}, {ID: "3"}, {ID: "4", Fields: fields, CreatedAt: era}}
	for _, n := range []int{2, 0, 3, 1} { // each in a commit of its own
		update(t, s, func(tx *store.Tx) error {
			return errors.Join(tx.PutContactRequests("A100", "a#1##", want[n]), tx.PutContactRequests("A100", "a#1##2", want[0]))
		})
	}
	want[3].Revision, want[3].Fields = 1, nil
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequests("A100", "a#1##", want[3]) })
	s.Close()
	must(t, open(t, dir).View(func(tx *store.Tx) error {
		if got := tx.ContactRequests("A100", "a#1##"); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := tx.ContactRequests("A100", "a#1##2"); len(got) != 1 {
			t.Errorf("the other insertion has %d", len(got))
		}
		return nil
	}))
}

// Times of events have milliseconds: what is remembered is compared with them.
func TestTimesAreRememberedInMilliseconds(t *testing.T) {
	s := open(t, t.TempDir())
	at := time.Date(2026, 11, 20, 10, 0, 0, 7_000_002, time.FixedZone("", 3600))
	want := time.Date(2026, 11, 20, 9, 0, 0, 7_000_000, time.UTC)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutInsertion("A100", store.Insertion{Reference: "a#1##", LastPoll: at}),
			tx.PutContactRequests("A100", "a#1##", store.ContactRequest{ID: "1", CreatedAt: at}))
	})
	must(t, s.View(func(tx *store.Tx) error {
		if i, _ := tx.Insertion("A100", "a#1##"); i.LastPoll != want {
			t.Errorf("the insertion has %v", i.LastPoll)
		}
		if c := tx.ContactRequests("A100", "a#1##"); c[0].CreatedAt != want {
			t.Errorf("the contact request has %v", c[0].CreatedAt)
		}
		return nil
	}))
}
