package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"doorbell/events"
	"doorbell/store"
)

// somebody is a person that no finding may tell of.
const somebody = "Muster-zq7"

// furnished is a closed store with something of everything in it.
func furnished(t testing.TB) (path string) {
	t.Helper()
	furnish.Do(func() { furniture = contents(t, filepath.Dir(furnishedAnew(t))) })
	dir := t.TempDir()
	for name, text := range furniture {
		write(t, filepath.Join(dir, name), text)
	}
	return filepath.Join(dir, "doorbell.db")
}

var (
	furnish   sync.Once
	furniture map[string]string // what every furnished store begins as
)

func furnishedAnew(t testing.TB) (path string) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: baseURL})
	if err != nil {
		t.Fatal(err)
	}
	for _, agency := range []string{"A100", "B200"} {
		var last events.Event
		update(t, s, func(tx *store.Tx) (err error) {
			for n := range 40 {
				reference := fmt.Sprintf("a#%d##", n)
				err = errors.Join(err, tx.PutInsertion(agency, store.Insertion{Reference: reference, Episode: 1, FirstSeen: era}),
					tx.PutRecord(agency, reference, []byte(`{"text":"`+strings.Repeat("Guten Tag ", 80)+`"}`)))
				for c := range 20 {
					err = errors.Join(err, tx.PutContactRequest(agency, reference, store.ContactRequest{
						ID: fmt.Sprintf("c%d-%d", n, c), Fields: []store.Field{{Name: "email", Digest: store.FieldDigest{1}}, {Name: somebody}},
					}))
				}
			}
			for range 30 {
				e, failed := tx.Append(event(t, agency))
				last, err = e, errors.Join(err, failed)
			}
			return errors.Join(err, tx.PutAgency(agency, store.Agency{WatchStart: era}), tx.PutSchedule(agency, 0, []byte("chunk")),
				tx.PutHalt(agency, store.Halt{Scope: events.ScopeAgency, Since: era}), tx.PutTrouble(agency, store.Trouble{Scope: "x"}))
		})
		if err := s.SetCursor(agency, events.Cursor{Sequence: last.Sequence, ID: last.ID, StreamSequence: 7, StreamCreated: era}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Path()
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
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket([]byte(bucket))) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func logKey(agency string, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(agency+"\x00"), sequence)
}

func TestEveryValueThatIsWrongIsFound(t *testing.T) {
	put := func(key, value string) func(*bolt.Bucket) error {
		return func(b *bolt.Bucket) error { return b.Put([]byte(key), []byte(value)) }
	}
	remove := func(key []byte) func(*bolt.Bucket) error {
		return func(b *bolt.Bucket) error { return b.Delete(key) }
	}
	for _, c := range []struct {
		bucket string
		change func(*bolt.Bucket) error
		want   string
	}{
		{"agencies", put("A100", "{"), `what is remembered of agency "A100" cannot be read`},
		{"insertions", put("A100\x00a#1##", "\x01\x02"+somebody), `insertion "a#1##" of agency "A100" cannot be read`},
		{"insertions", put("A100", "\x01"), `insertion "A100" of agency "A100" cannot be read`},
		{"records", put("A100\x00a#1##", `{"name":"`+somebody), `the record of insertion "a#1##" of agency "A100" is no JSON`},
		{"contacts", put("A100\x00a#1##\x00\x00\x01", "\x01"+somebody), `contact requests of insertion "a#1##" of agency "A100" cannot be read`},
		{"contacts", remove([]byte("A100\x00a#1##\x00\x00\x01")), `contact requests of insertion "a#1##" of agency "A100" are missing`},
		{"contacts", put("A100\x00a#1##", "\x01"), `an entry of contact requests of agency "A100" has an unreadable key`},
		{"contact_requests", put("A100\x00a#1##\x00c1", "\x01"), `a contact request of agency "A100" cannot be read`},
		{"contact_forms", remove([]byte("A100")), `contact requests of insertion "a#0##" of agency "A100" cannot be read`},
		{"contact_forms", put("A100", "\x01\x00\x01\x63"), `the forms of contact requests of agency "A100" cannot be read, or name fields that are not there`},
		{"field_names", put("A100", "["), `the names of the fields of agency "A100" cannot be read`},
		{"log", put(string(logKey("A100", 7)), `{"name":"`+somebody), `event 7 of agency "A100" cannot be read`},
		{"log", remove(logKey("A100", 7)), `the log of agency "A100" has a gap: 6 is followed by 8`},
		{"imports", put("A100", "{"), `the import of agency "A100" cannot be read`},
		{"imported", put("A100\x00id", "short"), `an id that the stream has told of agency "A100" cannot be read`},
		{"imported", put("A100\x00", "12345678"), `an id that the stream has told of agency "A100" cannot be read`},
		{"imported", put("A100\x00id", "\xff2345678"), `an id that the stream has told of agency "A100" cannot be read`},
		{"imported_word", put("A100\x00entity", somebody), `what the stream has told last of something of agency "A100" cannot be read`},
		{"imported_word", put("A100\x00entity", "id\x00state\x00soon"), `what the stream has told last of something of agency "A100" cannot be read`},
		{"log", put("x", "{}"), `an event has an unreadable key`},
		{"log", func(b *bolt.Bucket) error { return b.Put(logKey("A100", 31), b.Get(logKey("B200", 30))) }, `event 31 of agency "A100" cannot be read`},
		{"log", remove(logKey("A100", 30)), `the cursor of agency "A100" is at 30, and its log goes from 1 to 29`},
		{"cursors", put("A100", `{"sequence":3,"id":"other"}`), `the cursor of agency "A100" names another event than its log has at 3`},
		{"cursors", put("A100", `{`), `the cursor of agency "A100" cannot be read`},
		{"halts", put("A100\x00agency\x00", `{`), `a halt of agency "A100" cannot be read`},
		{"troubles", put("A100\x00x\x00", `{`), `a trouble of agency "A100" cannot be read`},
		{"schedule", put("A100\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00chunk"), `what the schedule of agency "A100" has learned cannot be read; it learns it anew`},
	} {
		path := furnished(t)
		spoil(t, path, c.bucket, c.change)
		r, err := store.Verify(t.Context(), path)
		all := strings.Join(r.Findings, "\n")
		if err != nil || !strings.Contains(all+"\n", c.want+"\n") {
			t.Errorf("%s: %v, %q, want %q", c.bucket, err, r.Findings, c.want)
		}
		if strings.Contains(all, somebody) {
			t.Errorf("%s: a finding tells of somebody: %q", c.bucket, r.Findings)
		}
	}
}

func TestFilesThatAreNoStoreAreRefusedAndLeftAlone(t *testing.T) {
	whole, err := os.ReadFile(furnished(t))
	if err != nil {
		t.Fatal(err)
	}
	newer := furnished(t)
	spoil(t, newer, "meta", func(b *bolt.Bucket) error {
		return b.Put([]byte("store"), bytes.Replace(b.Get([]byte("store")), []byte(`"schema":5`), []byte(`"schema":99`), 1))
	})
	other := filepath.Join(t.TempDir(), "other")
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("somebody else's")); return err })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	zeroed := bytes.Clone(whole)
	clear(zeroed[:8192])
	for name, c := range map[string]struct {
		text []byte
		want error
		says string
	}{
		"empty":                    {nil, store.ErrDamaged, "it is empty"},
		"a few bytes":              {whole[:100], store.ErrDamaged, "it is cut off"},
		"cut in the first page":    {whole[:5000], store.ErrDamaged, "it is cut off"},
		"cut in the middle":        {whole[:used(t, whole)/2], store.ErrDamaged, "it is cut off"},
		"without its last page":    {whole[:used(t, whole)-4096], store.ErrDamaged, "it is cut off"},
		"not a database":           {[]byte(strings.Repeat("not a database ", 5000)), store.ErrDamaged, "it does not begin as a store does"},
		"without heads":            {zeroed, store.ErrDamaged, "it does not begin as a store does"},
		"of a newer program":       {read(newer), store.ErrNewer, "schema 99"},
		"a database of others":     {read(other), store.ErrDamaged, "no doorbell store"},
		"pages that are not there": {astray(t, whole, 1<<30), store.ErrDamaged, "a page leads out of the file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "doorbell.db")
			write(t, path, string(c.text))
			if _, err := store.Verify(t.Context(), path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Verify: %v, want %v: %s", err, c.want, c.says)
			}
			if name != "empty" && c.says != "a page leads out of the file" {
				if _, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL}); !errors.Is(err, c.want) {
					t.Errorf("Open: %v, want %v", err, c.want)
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
		t.Error("a folder is sound")
	}
}

// used is how many bytes of a file its newer head counts.
func used(t *testing.T, file []byte) int {
	t.Helper()
	a, b := binary.NativeEndian.Uint64(file[16+48:]), binary.NativeEndian.Uint64(file[4096+16+48:])
	at := 0
	if b > a {
		at = 4096
	}
	return int(binary.NativeEndian.Uint64(file[at+16+40:])) * 4096
}

// lead lets every branch page of a file lead to a page that is not there.
func astray(t *testing.T, whole []byte, to uint64) []byte {
	t.Helper()
	file, found := bytes.Clone(whole), false
	for at := 8192; at+4096 <= len(file); at += 4096 {
		if binary.NativeEndian.Uint16(file[at+8:]) == 1 {
			binary.NativeEndian.PutUint64(file[at+16+8:], to)
			found = true
		}
	}
	if !found {
		t.Fatal("the store is too small for branches")
	}
	return file
}

func TestAStoreThatIsOpenIsNotVerified(t *testing.T) {
	s := open(t, t.TempDir())
	var locked *store.LockedError
	if _, err := store.Verify(t.Context(), s.Path()); !errors.As(err, &locked) {
		t.Errorf("got %v", err)
	}
}

// TestNoFlippedBitEndsTheProcess flips bits anywhere in a file, and mostly in the heads of its pages. What no number of the
// format tells is a value that reads as another one: bbolt keeps no checksums.
func TestNoFlippedBitEndsTheProcess(t *testing.T) {
	path := furnished(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := used(t, whole)
	whole = whole[:size]
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	found := 0
	for n := range 300 {
		file := bytes.Clone(whole)
		at := random.IntN(size)
		if n%3 > 0 {
			at = at/4096*4096 + random.IntN(64)
		}
		file[at] ^= 1 << random.IntN(8)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := store.Verify(t.Context(), path)
		if err != nil || len(r.Findings) > 0 {
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d of 300 flipped bits were noticed", found)
	}
	t.Logf("%d of 300 flipped bits were noticed", found)
}
