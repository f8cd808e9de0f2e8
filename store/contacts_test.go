package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"doorbell/store"
)

// variety is contact requests of many kinds, sorted by id.
func variety() (all []store.ContactRequest) {
	for n := range 20 {
		c := store.ContactRequest{
			ID: fmt.Sprintf("7f0c2b1e-6d1f-4a53-9a57-%012x", n), Fingerprint: store.Short{byte(n), 1}, Digest: store.Short{2, byte(n)},
			Rules: 7, CreatedAt: time.Unix(1_770_000_000+int64(n), 0).UTC(),
			Fields: []store.Field{{Name: "email"}, {Name: "phone"}, {Name: "status"}},
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
	err := s.View(func(tx *store.Tx) error {
		all = tx.ContactRequests(agency, reference)
		return nil
	})
	must(t, err)
	return all
}

func TestContactRequestsOfAllKindsComeBackAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := variety()
	for _, c := range want { // each in a commit of its own
		update(t, s, func(tx *store.Tx) error {
			return errors.Join(tx.PutContactRequests("A100", "a#1##", c), tx.PutContactRequests("A100", "a#1##2", want[0]))
		})
	}
	want[9].Revision++
	want[9].Fields = want[8].Fields
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequests("A100", "a#1##", want[9]) })
	s.Close()
	s = open(t, dir)
	if got := contactRequests(t, s, "A100", "a#1##"); !reflect.DeepEqual(byID(got), byID(want)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := contactRequests(t, s, "A100", "a#1##2"); len(got) != 1 {
		t.Errorf("the other insertion has %d", len(got))
	}
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
