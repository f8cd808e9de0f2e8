package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/store"
)

var must = helptest.Must

const baseURL = "https://api.example.org"

func open(t testing.TB, dir string) *store.Store {
	t.Helper()
	return openWith(t, store.Options{Dir: dir, LockTimeout: 200 * time.Millisecond})
}

// openWith opens a store whose integrity is checked at the end of the test, whatever the test did.
func openWith(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	o.BaseURL = baseURL
	s, err := store.Open(o)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, s.Path())
	})
	return s
}

func check(t testing.TB, path string) {
	t.Helper()
	r, err := store.Verify(context.Background(), path)
	if err != nil {
		t.Error(err)
	}
	for _, finding := range r.Findings {
		t.Error(finding)
	}
}

func update(t testing.TB, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	must(t, s.Update(fn))
}

func event(t testing.TB, agency string) events.Event {
	t.Helper()
	e, err := events.New(&events.WatchGapDetected{
		Common:    events.Common{AgencyID: agency, ObservedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)},
		Operation: "insertions", Reason: "walk_incomplete", Reached: 3,
	})
	must(t, err)
	return e
}

func TestAnEventAndItsStateAreCommittedTogetherOrNotAtAll(t *testing.T) {
	s := open(t, t.TempDir())
	woken := 0
	s.OnAppend(func() { woken++ })
	boom := errors.New("boom")
	err := s.Update(func(tx *store.Tx) error {
		if err := tx.PutInsertion("A100", store.Insertion{Reference: "a#b##", Episode: 1}); err != nil {
			return err
		}
		if _, err := tx.Append(event(t, "A100")); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("Update returned %v, not the error of its function", err)
	}
	if last, err := s.LastPosition(); err != nil || last != 0 {
		t.Errorf("an event of a failed transaction is in the log: %d, %v", last, err)
	}
	err = s.View(func(tx *store.Tx) error {
		if _, exists := tx.Insertion("A100", "a#b##"); exists {
			t.Error("the insertion of a failed transaction is remembered")
		}
		return nil
	})
	must(t, err)
	if woken != 0 {
		t.Error("a failed transaction has woken")
	}
}

func TestACommitThatAppendsWakesOnce(t *testing.T) {
	s := open(t, t.TempDir())
	woken := 0
	s.OnAppend(func() {
		if got, err := s.Events(0, 1, 1); err != nil || len(got) == 0 { // it may read
			t.Errorf("%d events: %v", len(got), err)
		}
		woken++
	})
	update(t, s, func(tx *store.Tx) error {
		_, first := tx.Append(event(t, "A"))
		_, second := tx.Append(event(t, "B"))
		return errors.Join(first, second)
	})
	update(t, s, func(tx *store.Tx) error { return tx.PutAgency("A", store.Agency{}) })
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}

func TestEverythingSurvivesAReopen(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	must(t, err)
	now := time.Date(2026, 11, 20, 9, 0, 0, 123e6, time.UTC)
	agency := store.Agency{WatchStart: now, Held: &store.Held{Reason: "empty_list", Until: now}}
	insertion := store.Insertion{
		Reference: "a#b##", Digest: [32]byte{1, 2}, Rules: 7, Episode: 2, Revision: 3, FirstSeen: now, Missing: 1,
		LastSeen: now, GoneSince: now, Baseline: true, Start: now, Polled: true, LastPoll: now, Epoch: 9, OpenSince: now,
	}
	request := store.ContactRequest{
		ID: "7f0c", Fingerprint: store.Short{1}, Digest: store.Short{2}, Rules: 8, Epoch: 4, Revision: 5, CreatedAt: now, Redacted: true,
		Fields: []store.Field{{Name: "email", Empty: true}, {Name: "phone"}},
	}
	halt := store.Halt{Scope: events.ScopeInsertion, Reference: "a#b##", Operation: "contact_requests", Status: 403, Since: now}
	var newest events.Event
	update(t, s, func(tx *store.Tx) (err error) {
		newest, err = tx.Append(event(t, "A100"))
		return err
	})
	cursor := events.Cursor{Position: 1, ID: newest.ID, StreamSequence: 9, StreamCreated: now, Highest: 1}
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutAgency("A100", agency), tx.PutInsertion("A100", insertion), tx.PutRecord("A100", "a#b##", []byte(`{}`)),
			tx.PutContactRequests("A100", "a#b##", request), tx.PutHalt("A100", halt))
	})
	must(t, errors.Join(s.Acknowledge(cursor, nil), s.Close()))
	again := open(t, dir)
	if again.ID() != s.ID() || again.BaseURL() != baseURL {
		t.Errorf("store %s of %s came back as %s of %s", s.ID(), baseURL, again.ID(), again.BaseURL())
	}
	err = again.View(func(tx *store.Tx) error {
		a, _ := tx.Agency("A100")
		i, _ := tx.Insertion("A100", "a#b##")
		r, h := tx.ContactRequests("A100", "a#b##"), tx.Halts("A100")
		c, err := again.Cursor()
		for _, pair := range [][2]any{{a, agency}, {i, insertion}, {r, []store.ContactRequest{request}}, {h, []store.Halt{halt}}, {c, cursor}} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("came back as %+v\nwas          %+v", pair[0], pair[1])
			}
		}
		return err
	})
	must(t, err)
}

func TestAnEmptyFileIsFilledOnlyByACallerThatKnowsTheAPI(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "doorbell.db"), "")
	if _, err := store.Open(store.Options{Dir: dir}); err == nil {
		t.Error("a store without an API was created")
	}
	open(t, dir)
}

func TestAStoreIsTakenForAnAPIAtANewAddressOnlyOnRequest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := s.ID()
	s.Close()
	o := store.Options{Dir: dir, BaseURL: "https://new.example.org"}
	if _, err := store.Open(o); !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "run --moved") {
		t.Errorf("got %v, which should name run --moved", err)
	}
	for _, o.Moved = range []bool{true, false} { // the flag is for one start
		s, err := store.Open(o)
		if err != nil || s.ID() != id || s.BaseURL() != o.BaseURL {
			t.Fatalf("moved %t: %v", o.Moved, err)
		}
		s.Close()
	}
}

func TestTheStoreIsItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	for range 2 {
		s := open(t, dir)
		for path, want := range map[string]os.FileMode{dir: 0o700, s.Path(): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has mode %o, want %o: %v", path, info.Mode().Perm(), want, err)
			}
		}
		if err := errors.Join(s.Close(), os.Chmod(s.Path(), 0o644)); err != nil { // as a copy or a careless hand leaves it
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	all := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		must(t, err)
		all[f.Name()] = string(b)
	}
	return all
}

// beOfSchema makes a closed store declare another schema.
func beOfSchema(t *testing.T, path string, schema int) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: filepath.Dir(path), BaseURL: baseURL})
	must(t, err)
	must(t, errors.Join(store.SetSchema(s, schema), s.Close()))
}
