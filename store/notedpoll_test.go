package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/store"

	bolt "go.etcd.io/bbolt"
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

// Until schema 4 an entry did not tell when a poll had written it.
func TestEntriesThatTellNoPollAreReadAsTheyAre(t *testing.T) {
	dir, all := t.TempDir(), variety()
	s := open(t, dir)
	err := s.Update(func(tx *store.Tx) (err error) {
		for _, c := range all {
			err = errors.Join(err, tx.PutContactRequest("A100", "a#1##", c))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	path := s.Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, meta := tx.Bucket([]byte("contacts")), tx.Bucket([]byte("meta"))
		then := map[string][]byte{}
		err := b.ForEach(func(k, v []byte) error {
			then[string(k)] = append([]byte{1}, v[2:]...) // its version, and no time
			return nil
		})
		for k, v := range then {
			err = errors.Join(err, b.Put([]byte(k), v))
		}
		old := strings.Replace(string(meta.Get([]byte("store"))), `"schema":5`, `"schema":4`, 1)
		return errors.Join(err, meta.Put([]byte("store"), []byte(old)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
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
