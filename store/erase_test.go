package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

// nora is who is erased; her name is in every field.
const nora = "Nora-Beispiel"

func request(n int) store.Request { return store.Request{Reference: "a#b##", ID: fmt.Sprint("c", n)} }

// asked is a person's contact request, changed as many times as its revision.
func asked(t testing.TB, r store.Request, revision int, at time.Time) events.Event {
	t.Helper()
	common := events.Common{AgencyID: "A100", ObservedAt: at}
	record := fmt.Appendf(nil, `{"lastName":%q,"revision":%d}`, nora, revision)
	var p events.Payload = &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: r.Reference, ContactRequestID: r.ID, Identity: events.IdentityID,
		CreatedAt: era.Add(-time.Hour), Contact: events.Contact{LastName: nora, Email: nora}, Record: record,
	}
	if revision > 0 {
		p = &events.ContactRequestChanged{
			Common: common, PropertyReferenceID: r.Reference, ContactRequestID: r.ID, Identity: events.IdentityID,
			Contact: events.Contact{LastName: nora, Message: nora}, Record: record, Revision: revision,
		}
	}
	e, err := events.New(p)
	must(t, err)
	return e
}

func erases(t testing.TB, s *store.Store, requests ...store.Request) (erased int) {
	t.Helper()
	erased, err := s.Erase("A100", requests)
	must(t, err)
	return erased
}

// holding are the contact requests of which an event of the log holds a person, or her name.
func holding(t testing.TB, s *store.Store) (ids []string) {
	t.Helper()
	for _, e := range whole(t, s, "A100") {
		if e.HoldsPerson() != bytes.Contains(e.Data, []byte(nora)) {
			t.Errorf("%s: the event reports that it holds a person: %v", e.Type, e.HoldsPerson())
		}
		if e.HoldsPerson() {
			ids = append(ids, idOf(t, e))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func idOf(t testing.TB, e events.Event) string {
	t.Helper()
	var p struct{ ContactRequestID string }
	must(t, json.Unmarshal(e.Data, &p))
	return p.ContactRequestID
}

// redactions counts the contact_request.redacted of each contact request.
func redactions(t testing.TB, s *store.Store) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, e := range whole(t, s, "A100") {
		if e.Type == events.TypeContactRequestRedacted {
			schematest.Validate(t, string(e.Type), e.Data)
			n[idOf(t, e)]++
		}
	}
	return n
}

func knows(t testing.TB, s *store.Store) {
	t.Helper()
	update(t, s, func(tx *store.Tx) error { return tx.PutAgency("A100", store.Agency{}) })
}

func row(t testing.TB, s *store.Store, r store.Request) (row store.ContactRequest) {
	t.Helper()
	must(t, s.View(func(tx *store.Tx) error {
		for _, c := range tx.ContactRequests("A100", r.Reference) {
			if c.ID == r.ID {
				row = c
			}
		}
		return nil
	}))
	return row
}

func TestAnErasedPersonIsInNoEventAndEverythingElseStays(t *testing.T) {
	s := open(t, t.TempDir())
	knows(t, s)
	known := store.ContactRequest{
		ID: "c1", Fingerprint: store.Short{1}, Digest: store.Short{2}, Rules: 3, Epoch: 1, Revision: 1, CreatedAt: era,
		Fields: []store.Field{{Name: "lastName"}},
	}
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequests("A100", "a#b##", known) })
	for _, e := range []events.Event{
		asked(t, request(1), 0, era), asked(t, request(2), 0, era), event(t, "A100"), asked(t, request(1), 1, era),
		asked(t, store.Request{Reference: "other", ID: "c1"}, 0, era), asked(t, request(1), 2, era),
	} {
		appended(t, s, e)
	}
	publish(t, s, 4)
	before := whole(t, s, "A100")
	done := erases(t, s, request(1), request(3))
	if done != 3 {
		t.Errorf("%d events were erased", done)
	}
	after := whole(t, s, "A100")
	for n, was := range before {
		want := was
		if n == 0 || n == 3 || n == 5 {
			want = was.Erase()
		}
		if !reflect.DeepEqual(after[n], want) {
			t.Errorf("event %d is not as it should be", n)
		}
	}
	known.Redacted, known.Fields, known.Revision = true, nil, 2
	if got := row(t, s, request(1)); !reflect.DeepEqual(got, known) {
		t.Errorf("remembered as %+v", got)
	}
	if got := row(t, s, request(3)); !got.Redacted || got.Fields != nil || got.ID != "c3" {
		t.Errorf("unknown before, remembered as %+v", got)
	}
	if got := redactions(t, s); !reflect.DeepEqual(got, map[string]int{"c1": 1, "c3": 1}) {
		t.Errorf("announced: %v", got)
	}
	for _, e := range after[6:] {
		if text := string(e.Data); idOf(t, e) == "c1" && (!strings.Contains(text, `"redactedFields":["email","lastName","message"]`) ||
			!strings.Contains(text, `"createdAt":"2026-11-20T08:00:00Z"`)) {
			t.Errorf("announced: %s", text)
		}
	}
	commits := s.Commits()
	if again := erases(t, s, request(1), request(3)); again != 0 || s.Commits() != commits {
		t.Errorf("the second time: %d events, %d commits", again, s.Commits()-commits)
	}
}

func TestAnErasureOfAnUnknownAgencyIsNotAnnounced(t *testing.T) {
	s := open(t, t.TempDir())
	update(t, s, func(tx *store.Tx) error {
		return tx.PutInsertion("A100", store.Insertion{Reference: "a#b##", Episode: 1, Epoch: 5})
	})
	appended(t, s, asked(t, request(1), 0, era))
	if done := erases(t, s, request(1)); done != 1 || len(redactions(t, s)) != 0 {
		t.Errorf("%d events, announced: %v", done, redactions(t, s))
	}
	if got := row(t, s, request(1)); !got.Redacted || got.Epoch != 5 || !got.CreatedAt.Equal(era.Add(-time.Hour)) { // it closes no window
		t.Errorf("remembered as %+v", got)
	}
}

func TestAKilledErasureContinuesWhereItWas(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	knows(t, s)
	var requests []store.Request
	update(t, s, func(tx *store.Tx) (err error) {
		for n := range 350 {
			_, failed := tx.Append(asked(t, request(n%110), n/110, era))
			err = errors.Join(err, failed)
		}
		return err
	})
	for n := range 110 {
		requests = append(requests, request(n))
	}
	publish(t, s, 170)
	var copies []string
	commits := s.Commits()
	s.OnAppend(func() { // it runs after a commit, and before the next one
		copies = append(copies, copied(t, s))
	})
	erases(t, s, requests...)
	if n := s.Commits() - commits; len(copies) != 2 || n != 4 {
		t.Errorf("%d commits, %d of which append", n, len(copies))
	}
	for _, dir := range append(copies, copied(t, s)) {
		killed := open(t, dir)
		erases(t, killed, requests[:40]...) // and again in the middle
		erases(t, killed, requests...)
		if left := holding(t, killed); len(left) > 0 {
			t.Errorf("%d contact requests are not erased", len(left))
		}
		announced := redactions(t, killed)
		for _, r := range requests {
			if announced[r.ID] != 1 {
				t.Errorf("%s was announced %d times", r.ID, announced[r.ID])
			}
		}
		for _, e := range whole(t, killed, "A100") {
			if e.Type == events.TypeContactRequestRedacted && !strings.Contains(string(e.Data), `"lastName"`) {
				t.Errorf("%s no longer lists what was erased", idOf(t, e))
			}
		}
	}
}

// copied is a directory with the store as it is on disk.
func copied(t testing.TB, s *store.Store) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "doorbell.db"), contents(t, filepath.Dir(s.Path()))["doorbell.db"])
	return dir
}

// TestRequestsThatCannotBeRememberedAreErasedInTheEvents has requests that the snapshot has no room
// for.
func TestRequestsThatCannotBeRememberedAreErasedInTheEvents(t *testing.T) {
	s := open(t, t.TempDir())
	knows(t, s)
	requests := []store.Request{{Reference: "a", ID: ""}, {Reference: "a", ID: "c\x00"}, {Reference: strings.Repeat("a", 5000), ID: "c"}, request(1)}
	for _, r := range requests {
		appended(t, s, asked(t, r, 0, era))
	}
	if done := erases(t, s, requests...); done != 4 || len(redactions(t, s)) != 1 || len(holding(t, s)) > 0 {
		t.Errorf("%d events were erased, announced: %v", done, redactions(t, s))
	}
	if all, err := s.HasErased("A100", requests); err != nil || !all {
		t.Errorf("all are erased: %t, %v", all, err)
	}
	commits := s.Commits()
	if erases(t, s, requests...); s.Commits() != commits {
		t.Error("the second time something was written")
	}
}

func TestAStoreFromBeforeAnErasureIsRecognised(t *testing.T) {
	s := open(t, t.TempDir())
	requests := []store.Request{{"house#1", "id-1"}, {"house#2", "id-2"}}
	for n, erased := range [][]store.Request{nil, requests[:1], requests} {
		erases(t, s, erased...)
		if all, err := s.HasErased("A100", requests); err != nil || all != (n == 2) {
			t.Errorf("with %d erased: %t, %v", n, all, err)
		}
	}
}

// TestEveryPersonWithAnIdIsErased has two people, of whom the second got the id of the first.
func TestEveryPersonWithAnIdIsErased(t *testing.T) {
	s := open(t, t.TempDir())
	again := store.ContactRequest{ID: store.AgainID("7", store.Short{1}), Fingerprint: store.Short{1}, Fields: []store.Field{{Name: "email"}}}
	update(t, s, func(tx *store.Tx) error {
		return tx.PutContactRequests("A100", "a#1##", store.ContactRequest{ID: "7", Fields: again.Fields}, again)
	})
	erases(t, s, store.Request{Reference: "a#1##", ID: "7"})
	must(t, s.View(func(tx *store.Tx) error {
		for _, c := range tx.ContactRequests("A100", "a#1##") {
			if !c.Redacted || len(c.Fields) > 0 || c.Given() != "7" {
				t.Errorf("%+v", c)
			}
		}
		return nil
	}))
}
