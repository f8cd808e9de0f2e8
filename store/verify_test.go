package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"doorbell/events"
	"doorbell/store"
)

// somebody is a person whom no finding may name.
const somebody = "Muster-zq7"

// furnished is a closed store with something of everything in it.
func furnished(t testing.TB) (path string) {
	t.Helper()
	furnish.Do(func() {
		s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: baseURL})
		must(t, err)
		furnishInto(t, s)
		must(t, s.Close())
		file := contents(t, filepath.Dir(s.Path()))["doorbell.db"]
		furniture = file[:pagesOf([]byte(file[:8192]))*4096] // what is behind is nothing, eight times as much
	})
	path = filepath.Join(t.TempDir(), "doorbell.db")
	write(t, path, furniture)
	return path
}

var (
	furnish   sync.Once
	furniture string // what every furnished store begins as
)

func furnishInto(t testing.TB, s *store.Store) {
	t.Helper()
	for _, agency := range []string{"A100", "B200"} {
		made, err := events.New(&events.WatchRecovered{Common: events.Common{AgencyID: agency, ObservedAt: era}, Ends: "stale", Since: era})
		must(t, err)
		update(t, s, func(tx *store.Tx) (err error) {
			for n := range 40 {
				reference := fmt.Sprintf("a#%d##", n)
				err = errors.Join(err, tx.PutInsertion(agency, store.Insertion{Reference: reference, Episode: 1, FirstSeen: era}),
					tx.PutRecord(agency, reference, []byte(`{"text":"`+strings.Repeat("Guten Tag ", 80)+`"}`)))
				for c := range 20 {
					err = errors.Join(err, tx.PutContactRequests(agency, reference, store.ContactRequest{
						ID: fmt.Sprintf("c%d-%d", n, c), Fields: []store.Field{{Name: "email"}, {Name: somebody}},
					}))
				}
			}
			for range 30 {
				_, failed := tx.Append(made)
				err = errors.Join(err, failed)
			}
			return errors.Join(err, tx.PutAgency(agency, store.Agency{WatchStart: era}),
				tx.PutHalt(agency, store.Halt{Scope: events.ScopeAgency, Since: era}), tx.PutAlarm(agency, store.Alarm{AlarmID: store.AlarmID{Kind: "stale"}, Since: era}))
		})
		last, err := s.LastPosition()
		must(t, err)
		publish(t, s, last)
	}
}

func TestASoundStoreIsVerifiedAndCounted(t *testing.T) {
	path := furnished(t)
	before := contents(t, filepath.Dir(path))
	r, err := store.Verify(t.Context(), path)
	if err != nil || len(r.Findings) > 0 {
		t.Fatalf("%v, %q", err, r.Findings)
	}
	if r.Agencies != 2 || r.Insertions != 80 || r.ContactRequests != 1600 || r.Events != 60 || r.BaseURL != baseURL || r.StoreID == "" || r.Bytes == 0 {
		t.Errorf("%+v", r)
	}
	after := contents(t, filepath.Dir(path))
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was touched", name)
		}
	}
}

// spoil changes a closed store behind its back.
func spoil(t *testing.T, path, bucket string, change func(*bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	err = db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket([]byte(bucket))) })
	must(t, errors.Join(err, db.Close()))
}

// TestEveryEntryThatIsNotAsItWasWrittenIsFound changes an entry of each bucket, and moves one under another key.
func TestEveryEntryThatIsNotAsItWasWrittenIsFound(t *testing.T) {
	for _, bucket := range []string{"meta", "agencies", "insertions", "records", "contacts", "log", "cursors", "halts", "alarms"} {
		var agency string
		if bucket != "meta" && bucket != "log" {
			agency = "A100"
		}
		for name, change := range map[string]func(b *bolt.Bucket, k, v []byte) error{
			"another byte":  func(b *bolt.Bucket, k, v []byte) error { v[len(v)-1] ^= 1; return b.Put(k, v) },
			"cut to less":   func(b *bolt.Bucket, k, v []byte) error { return b.Put(k, v[:3]) },
			"of a person":   func(b *bolt.Bucket, k, v []byte) error { return b.Put(k, []byte(somebody)) },
			"under another": func(b *bolt.Bucket, k, v []byte) error { return b.Put(append(k, 1), v) },
		} {
			path := furnished(t)
			spoil(t, path, bucket, func(b *bolt.Bucket) error {
				k, v := b.Cursor().Seek([]byte(agency))
				return change(b, bytes.Clone(k), bytes.Clone(v))
			})
			r, err := store.Verify(t.Context(), path)
			if err == nil && len(r.Findings) == 0 {
				t.Errorf("%s: %s: nothing was found", bucket, name)
			}
			if all := fmt.Sprint(err, r.Findings); strings.Contains(all, somebody) || !errors.Is(err, store.ErrDamaged) && !strings.Contains(all, bucket) {
				t.Errorf("%s: %s: %s", bucket, name, all)
			}
		}
	}
}

func TestACursorThatIsNotInItsLogIsFound(t *testing.T) {
	for _, c := range []struct {
		cursor events.Cursor
		want   string
	}{
		{events.Cursor{Position: 61}, `the cursor is at 61, and the log ends with 60`},
		{events.Cursor{Highest: 62}, `the cursor is at 62, and the log ends with 60`},
	} {
		path := furnished(t)
		s, err := store.Open(store.Options{Dir: filepath.Dir(path), BaseURL: baseURL})
		must(t, err)
		must(t, errors.Join(s.Acknowledge(c.cursor, nil), s.Close()))
		if r, err := store.Verify(t.Context(), path); err != nil || !slices.Equal(r.Findings, []string{c.want}) {
			t.Errorf("%v, %q, want %q", err, r.Findings, c.want)
		}
	}
}

func TestFilesThatAreNotAStoreAreRefusedAndLeftAlone(t *testing.T) {
	whole, err := os.ReadFile(furnished(t))
	must(t, err)
	newer, older := furnished(t), furnished(t)
	beOfSchema(t, newer, 99)
	beOfSchema(t, older, 6)
	other := filepath.Join(t.TempDir(), "other")
	db, err := bolt.Open(other, 0o600, nil)
	must(t, err)
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("somebody else's")); return err })
	must(t, errors.Join(err, db.Close()))
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	for name, c := range map[string]struct {
		text []byte
		want error
		says string
	}{
		"empty":                         {nil, store.ErrDamaged, "it is empty"},
		"cut in the first page":         {whole[:5000], store.ErrDamaged, "file size too small"},
		"without its last page":         {whole[:int(pagesOf(whole))*4096-4096], store.ErrDamaged, "it is truncated"},
		"not a database":                {[]byte(strings.Repeat("not a database ", 5000)), store.ErrDamaged, "invalid database"},
		"of a newer program":            {read(newer), store.ErrNewer, "schema 99"},
		"of an older program":           {read(older), store.ErrForeign, "schema 6, from before the first release"},
		"a database of another program": {read(other), store.ErrDamaged, "it is not a doorbell store"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "doorbell.db")
			write(t, path, string(c.text))
			if _, err := store.Verify(t.Context(), path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Verify: %v, want %v: %s", err, c.want, c.says)
			}
			if name != "empty" {
				for range 2 { // the second time the lock is free
					if _, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL}); !errors.Is(err, c.want) {
						t.Errorf("Open: %v, want %v", err, c.want)
					}
				}
			}
			if got := contents(t, dir); len(got) != 1 || got["doorbell.db"] != string(c.text) {
				t.Error("it was touched")
			}
		})
	}
	if _, err := store.Verify(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if _, err := store.Verify(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder counts as sound")
	}
}
