package store_test

import (
	"fmt"
	"testing"
	"time"

	"doorbell/store"
)

func TestAPollIsNotedWithWhatItPuts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	early, late := time.UnixMilli(1_770_000_000_123).UTC(), time.UnixMilli(1_770_000_900_456).UTC()
	note := func(at time.Time, put ...store.ContactRequest) {
		t.Helper()
		err := s.Update(func(tx *store.Tx) error {
			for _, c := range put {
				if err := tx.PutContactRequest("A100", "a#1##", c); err != nil {
					return err
				}
			}
			return tx.NotePoll("A100", "a#1##", at)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(want time.Time) {
		t.Helper()
		err := s.View(func(tx *store.Tx) error {
			got, err := tx.LastPoll("A100", "a#1##")
			if !got.Equal(want) {
				t.Errorf("noted %s, want %s", got, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	is(time.Time{})
	all := variety()
	note(early, all...)
	is(early)
	note(late) // it put none
	is(early)
	note(late, all[0]) // the first of three entries
	is(late)
	note(early, all[len(all)-1]) // another entry, after the clock was set back
	is(early)
	note(late, all[0])
	is(late)
	note(early) // it puts none, and the clock was set back
	is(early)
	note(late, all[0])
	is(late)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	is(late)
	areThere(t, s, all)
}

// areThere says whether contact requests of an insertion are remembered, and no others.
func areThere(t *testing.T, s *store.Store, want []store.ContactRequest) {
	t.Helper()
	got := byID(contactRequests(t, s, "A100", "a#1##"))
	for id, c := range byID(want) {
		if fmt.Sprint(got[id]) != fmt.Sprint(c) {
			t.Errorf("%s: %+v, want %+v", id, got[id], c)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d are remembered of %d", len(got), len(want))
	}
}
