package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/store"

	bolt "go.etcd.io/bbolt"
)

// asBefore is a contact request as schema 2 wrote it, under a key of its own: agency, reference and id.
func asBefore(c store.ContactRequest, numbers map[string]uint64) []byte {
	b := []byte{1, 0}
	if c.Redacted {
		b[1] = 1
	}
	for _, hash := range []store.Short{c.Fingerprint, c.Digest} { // 16 bytes each
		b = append(append(b, hash[:]...), "whatever"...)
	}
	b = binary.AppendUvarint(b, uint64(c.Rules))
	b = binary.AppendUvarint(b, uint64(c.Epoch))
	b = binary.AppendUvarint(b, uint64(c.Revision))
	if c.CreatedAt.IsZero() {
		b = binary.AppendVarint(b, 0)
	} else {
		b = binary.AppendVarint(b, c.CreatedAt.UnixMilli())
	}
	for _, f := range c.Fields {
		b = binary.AppendUvarint(b, numbers[f.Name])
		b = append(b, f.Digest[:]...)
		if !f.Empty() {
			b[len(b)-1] |= 7 // a longer digest than is kept
		}
	}
	return b
}

// variety is contact requests of many kinds, sorted by id.
func variety() (all []store.ContactRequest) {
	for n := range 20 {
		c := store.ContactRequest{
			ID: fmt.Sprintf("7f0c2b1e-6d1f-4a53-9a57-%012x", n), Fingerprint: store.Short{byte(n), 1}, Digest: store.Short{2, byte(n)},
			Rules: 7, CreatedAt: time.Unix(1_770_000_000+int64(n), 0).UTC(),
			Fields: []store.Field{{Name: "email", Digest: store.FieldDigest{1, 2, byte(n) << 4}}, {Name: "phone"}, {Name: "status", Digest: store.FieldDigest{9, 9, 0x90}}},
		}
		switch n % 4 {
		case 1:
			c.ID, c.Epoch, c.Revision, c.Redacted = fmt.Sprintf("7%031x", n), 300, n, true
			c.CreatedAt = c.CreatedAt.Add(7 * time.Millisecond)
		case 2:
			c.ID, c.CreatedAt, c.Fields = fmt.Sprintf("8%d", 1000+n), time.Time{}, c.Fields[1:]
		case 3:
			c.ID, c.Rules, c.Fields = fmt.Sprintf("9F0C2B1E-6D1F-4A53-9A57-%012X", n), uint32(n), nil
		}
		all = append(all, c)
	}
	return all
}

func byID(all []store.ContactRequest) map[string]store.ContactRequest {
	m := map[string]store.ContactRequest{}
	for _, c := range all {
		m[c.ID] = c
	}
	return m
}

func contactRequests(t *testing.T, s *store.Store, agency, reference string) (all []store.ContactRequest) {
	t.Helper()
	err := s.View(func(tx *store.Tx) (err error) {
		all, err = tx.ContactRequests(agency, reference)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestContactRequestsOfAllKindsComeBackAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := variety()
	for _, c := range want { // each in a commit of its own
		update(t, s, func(tx *store.Tx) error {
			return errors.Join(tx.PutContactRequest("A100", "a#1##", c), tx.PutContactRequest("A100", "a#1##2", want[0]))
		})
	}
	want[9].Revision++
	want[9].Fields = want[8].Fields
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequest("A100", "a#1##", want[9]) })
	s.Close()
	s = open(t, dir)
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := contactRequests(t, s, "A100", "a#1##2"); len(got) != 1 {
		t.Errorf("the other insertion has %d", len(got))
	}
}

func TestAFormBeyondTheBoundIsRememberedToo(t *testing.T) {
	s := open(t, t.TempDir())
	var want []store.ContactRequest
	update(t, s, func(tx *store.Tx) error {
		for n := range 1500 {
			c := store.ContactRequest{ID: fmt.Sprint("c", n), Rules: uint32(n), Fields: []store.Field{{Name: "email", Digest: store.FieldDigest{1}}}}
			want = append(want, c)
			if err := tx.PutContactRequest("A100", "a#1##", c); err != nil {
				return err
			}
		}
		return nil
	})
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("%d came back of %d, or other ones", len(got), len(want))
	}
}

func TestAStoreOfTheSecondFormKeepsItsContactRequests(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Close()
	want := variety()
	makeSecondForm(t, s.Path(), want)

	readOnly, err := store.OpenReadOnly(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := contactRequests(t, readOnly, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("opened to be read: got  %+v\nwant %+v", got, want)
	}
	readOnly.Close()

	s = open(t, dir)
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	want[3].Revision = 8
	more := store.ContactRequest{ID: "new", Fields: []store.Field{{Name: "email", Digest: store.FieldDigest{5}}}}
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutContactRequest("A100", "a#1##", want[3]), tx.PutContactRequest("A100", "a#1##", more))
	})
	want = append(want, more)
	s.Close()
	s = open(t, dir)
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) || len(got) != len(want) {
		t.Errorf("after a change: got  %+v\nwant %+v", got, want)
	}
	s.Close()
	if left := entries(t, s.Path(), "contact_requests"); left != 1 { // that of the insertion that did not change
		t.Errorf("%d entries are in the old form", left)
	}
}

// What reads the state of before goes on to see it, whoever has seen since that nothing is left of the old form.
func TestAViewOfBeforeSeesContactRequestsOfTheOldForm(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Close()
	makeSecondForm(t, s.Path(), variety())
	s = open(t, dir)
	err := s.View(func(before *store.Tx) error {
		for _, reference := range []string{"a#1##", "a#1##2"} {
			update(t, s, func(tx *store.Tx) error {
				return tx.PutContactRequest("A100", reference, store.ContactRequest{ID: "new"})
			})
		}
		contactRequests(t, s, "A100", "a#1##2")
		got, err := before.ContactRequests("A100", "a#1##2")
		if len(got) != 1 {
			t.Errorf("before there were %+v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompactGivesOldContactRequestsTheNewForm(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Close()
	want := variety()
	makeSecondForm(t, s.Path(), want)
	anywhere := func(int64) error { return nil }
	if _, err := store.Compact(t.Context(), store.Options{Dir: dir}, anywhere); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, s.Path(), "contact_requests"); left != 0 {
		t.Errorf("%d entries are in the old form", left)
	}
	s = open(t, dir)
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := contactRequests(t, s, "A100", "a#1##2"); len(got) != 1 {
		t.Errorf("of the other insertion: %+v", got)
	}
}

// makeSecondForm makes a store one of schema 2 that remembers contact requests of one insertion, and one of another.
func makeSecondForm(t *testing.T, path string, all []store.ContactRequest) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta, requests := tx.Bucket([]byte("meta")), tx.Bucket([]byte("contact_requests"))
		then := strings.Replace(string(meta.Get([]byte("store"))), `"schema":5`, `"schema":2`, 1)
		numbers := map[string]uint64{"email": 0, "phone": 1, "status": 2}
		for _, c := range all {
			if err := requests.Put([]byte("A100\x00a#1##\x00"+c.ID), asBefore(c, numbers)); err != nil {
				return err
			}
		}
		return errors.Join(
			tx.DeleteBucket([]byte("contacts")), tx.DeleteBucket([]byte("contact_forms")), meta.Put([]byte("store"), []byte(then)),
			tx.Bucket([]byte("field_names")).Put([]byte("A100"), []byte(`["email","phone","status"]`)),
			requests.Put([]byte("A100\x00a#1##2\x00c1"), asBefore(all[0], numbers)),
		)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, path, bucket string) (n int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		n = tx.Bucket([]byte(bucket)).Stats().KeyN
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}
