package store_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"doorbell/events"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

const baseURL = "https://api.example.org"

// open opens a store whose integrity is checked at the end of the test, whatever the test did.
func open(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, LockTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.HasSuffix(finding, "learns it anew") {
			t.Error(finding)
		}
	}
}

func update(t testing.TB, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func event(t testing.TB, agency string) events.Event {
	t.Helper()
	e, err := events.New(&events.WatchGapDetected{
		Common:    events.Common{AgencyID: agency, ObservedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)},
		Operation: "insertions", Reason: "walk_incomplete", Reached: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnEventAndItsStateAreCommittedTogetherOrNotAtAll(t *testing.T) {
	s := open(t, t.TempDir())
	var woken []string
	s.OnAppend(func(agency string) { woken = append(woken, agency) })
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
	if last, err := s.Last("A100"); err != nil || last != 0 {
		t.Errorf("an event of a failed transaction is in the log: sequence %d, %v", last, err)
	}
	err = s.View(func(tx *store.Tx) error {
		if _, exists := tx.Insertion("A100", "a#b##"); exists {
			t.Error("the insertion of a failed transaction is remembered")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(woken) != 0 {
		t.Errorf("a failed transaction has woken %s", woken)
	}
}

func TestACommitWakesWhoPublishesItsAgenciesAndNobodyElse(t *testing.T) {
	s := open(t, t.TempDir())
	var woken []string
	s.OnAppend(func(agency string) {
		if got, err := s.Unsent(agency, 1, 1); err != nil || len(got) == 0 { // it may read
			t.Errorf("of %s %d are unsent: %v", agency, len(got), err)
		}
		woken = append(woken, agency)
	})
	update(t, s, func(tx *store.Tx) error {
		_, first := tx.Append(event(t, "A"))
		_, second := tx.Append(event(t, "A"))
		_, third := tx.Append(event(t, "B"))
		return errors.Join(first, second, third)
	})
	slices.Sort(woken)
	if !slices.Equal(woken, []string{"A", "B"}) {
		t.Errorf("woken: %s", woken)
	}
	update(t, s, func(tx *store.Tx) error { return tx.PutAgency("A", store.Agency{}) })
	if len(woken) != 2 {
		t.Errorf("woken for nothing: %s", woken)
	}
}

func TestPositionsCountPerAgencyWithoutGapsAndThereIsNoSequenceYet(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	agencies := []string{"A", "A1", "A100", "B"} // one a prefix of the other
	want := map[string]uint64{}
	for range 200 {
		agency := agencies[rand.N(len(agencies))]
		update(t, s, func(tx *store.Tx) error {
			e, err := tx.Append(event(t, agency))
			want[agency]++
			if e.Position != want[agency] || e.Sequence != 0 || e.StoreID != s.ID() || e.RecordedTime.IsZero() {
				t.Errorf("%s: position %d of store %s, want %d", agency, e.Position, e.StoreID, want[agency])
			}
			schematest.Validate(t, string(e.Type), e.Data)
			return err
		})
	}
	for agency, n := range want {
		read := whole(t, s, agency)
		if uint64(len(read)) != n {
			t.Fatalf("%s: %d events, want %d", agency, len(read), n)
		}
		ids := map[string]bool{}
		for i, e := range read {
			if e.Position != uint64(i+1) || e.Sequence != 0 || e.AgencyID != agency || ids[e.ID] {
				t.Errorf("%s: event %d has position %d, agency %s, id %s", agency, i, e.Position, e.AgencyID, e.ID)
			}
			ids[e.ID] = true
		}
	}
}

func TestReadIsBoundedButAlwaysMovesOn(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 8)
	publish(t, s, "A100", 5)
	for name, c := range map[string]struct {
		after         uint64
		events, bytes int
		want          []uint64
	}{
		"all":            {0, 10, 1 << 20, []uint64{1, 2, 3, 4, 5}},
		"a number":       {1, 2, 1 << 20, []uint64{2, 3}},
		"too few bytes":  {2, 10, 1, []uint64{3}},
		"nothing beyond": {5, 10, 1 << 20, nil},
	} {
		read, err := s.Read("A100", c.after, c.events, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, e := range read {
			got = append(got, e.Sequence)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, c := range []struct{ events, bytes, want int }{{10, 1 << 20, 3}, {2, 1 << 20, 2}, {10, 1, 1}} {
		if got, err := s.Unsent("A100", c.events, c.bytes); err != nil || len(got) != c.want || got[0].Position != 6 || got[0].Sequence != 0 {
			t.Errorf("%+v: %d are unsent, %v", c, len(got), err)
		}
	}
}

func TestAnEventIsReadAsItWasAppended(t *testing.T) {
	s := open(t, t.TempDir())
	at := time.Date(2026, 11, 20, 9, 0, 0, 1e6, time.UTC)
	for n, p := range []events.Payload{
		&events.InsertionAppeared{
			Common: events.Common{AgencyID: "A100", ObservedAt: at}, PropertyReferenceID: "a#ä b##", Episode: 1,
			Record: []byte(`{"n":9007199254740993, "t":"<b> & "}`),
		},
		&events.ContactRequestCreated{
			Common:              events.Common{AgencyID: "A100", ObservedAt: at.In(time.FixedZone("", 3600)).Add(999)},
			PropertyReferenceID: "bad \xff\xfe \u2028\x00", ContactRequestID: "7f0c", CreatedAt: at, Score: []byte(" null "), Record: []byte("{\"a\":\"\xff\"}"),
		},
		&events.WatchGapDetected{Common: events.Common{AgencyID: "A100", ObservedAt: at}, PropertyReferenceID: "a#b##"},
		&events.WatchStale{Common: events.Common{AgencyID: "A100"}},
	} {
		e, err := events.New(p)
		if err != nil {
			t.Fatal(err)
		}
		var stamped events.Event
		update(t, s, func(tx *store.Tx) error { stamped, err = tx.Append(e); return err })
		unsent, err := s.Unsent("A100", 1, 1)
		if err != nil || len(unsent) != 1 || !reflect.DeepEqual(unsent[0], stamped) {
			t.Errorf("unsent    %+v, %v\nappended %+v", unsent, err, stamped)
		}
		publish(t, s, "A100", uint64(n+1))
		stamped.Sequence = uint64(n + 1)
		read, err := s.Read("A100", uint64(n), 1, 1)
		if err != nil || len(read) != 1 || !reflect.DeepEqual(read[0], stamped) {
			t.Errorf("published %+v, %v\nappended %+v", read, err, stamped)
		}
		if n == 0 {
			schematest.Validate(t, string(e.Type), stamped.Data)
		}
	}
}

func TestEverythingSurvivesAReopen(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 123e6, time.UTC)
	agency := store.Agency{WatchStart: now, Held: &store.Held{Reason: "empty_list", Until: now}}
	insertion := store.Insertion{
		Reference: "a#b##", Digest: [32]byte{1, 2}, Rules: 7, Episode: 2, Revision: 3, FirstSeen: now, Missing: 1, Moved: true,
		LastSeen: now, GoneSince: now, Baseline: true, Start: now, Polled: true, LastPoll: now, LastWide: now, Epoch: 9, OpenSince: now,
	}
	request := store.ContactRequest{
		ID: "7f0c", Fingerprint: store.Short{1}, Digest: store.Short{2}, Rules: 8, Epoch: 4, Revision: 5, CreatedAt: now, Redacted: true,
		Fields: []store.Field{{Name: "email", Digest: store.FieldDigest{1, 2, 0x30}}, {Name: "phone"}},
	}
	halt := store.Halt{Scope: events.ScopeInsertion, Reference: "a#b##", Operation: "contact_requests", Status: 403, Since: now}
	var newest events.Event
	update(t, s, func(tx *store.Tx) (err error) {
		newest, err = tx.Append(event(t, "A100"))
		return err
	})
	cursor := events.Cursor{Sequence: 1, ID: newest.ID, Position: 1, StreamSequence: 9, StreamCreated: now}
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutAgency("A100", agency), tx.PutInsertion("A100", insertion), tx.PutRecord("A100", "a#b##", []byte(`{}`)),
			tx.PutContactRequests("A100", "a#b##", request), tx.PutHalt("A100", halt))
	})
	if err := errors.Join(s.Publish("A100", []events.Event{newest.WithSequence(1)}, cursor), s.Close()); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if again.ID() != s.ID() || again.BaseURL() != baseURL {
		t.Errorf("store %s of %s came back as %s of %s", s.ID(), baseURL, again.ID(), again.BaseURL())
	}
	err = again.View(func(tx *store.Tx) error {
		a, _ := tx.Agency("A100")
		i, _ := tx.Insertion("A100", "a#b##")
		r, h := tx.ContactRequests("A100", "a#b##"), tx.Halts("A100")
		c, err := again.Cursor("A100")
		for _, pair := range [][2]any{{a, agency}, {i, insertion}, {r, []store.ContactRequest{request}}, {h, []store.Halt{halt}}, {c, cursor}} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("came back as %+v\nwas          %+v", pair[0], pair[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASecondProcessIsRefusedInTime(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, LockTimeout: 50 * time.Millisecond})
	var locked *store.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("got %v, want a LockedError that names process %d", err, os.Getpid())
	}
}

func TestAForeignStoreIsRefusedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  error
	}{
		"another API": {func(t *testing.T, dir string) {}, store.ErrForeign},
		"another store's id": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "store-id"), "somebodyelse\n")
		}, store.ErrForeign},
		"truncated to nothing": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "doorbell.db"), "")
		}, store.ErrForeign},
		"deleted": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "doorbell.db")); err != nil {
				t.Fatal(err)
			}
		}, store.ErrForeign},
		"no store at all": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "doorbell.db"), strings.Repeat("not a database ", 5000))
		}, store.ErrDamaged},
		"of a newer version": {func(t *testing.T, dir string) {
			beOfSchema(t, filepath.Join(dir, "doorbell.db"), 99)
		}, store.ErrNewer},
		"of a version from before the first release": {func(t *testing.T, dir string) {
			spoil(t, filepath.Join(dir, "doorbell.db"), "meta", func(b *bolt.Bucket) error {
				return b.Put([]byte("store"), []byte(`{"schema":5,"storeId":"x","baseUrl":"https://other.example.org","stated":true}`))
			})
		}, store.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := store.Open(store.Options{Dir: dir, BaseURL: "https://other.example.org"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			before := contents(t, dir)
			wanted := baseURL
			if c.want != store.ErrForeign || name != "another API" {
				wanted = "https://other.example.org"
			}
			_, err = store.Open(store.Options{Dir: dir, BaseURL: wanted})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if after := contents(t, dir); !maps.Equal(before, after) {
				t.Error("a refused store was changed")
			}
		})
	}
}

func TestAnEmptyFileIsFilledOnlyByWhoKnowsTheAPI(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "doorbell.db"), "")
	if _, err := store.Open(store.Options{Dir: dir}); err == nil {
		t.Error("a store without an API was made")
	}
	open(t, dir)
}

func TestAStoreThatOthersMayReadIsClosedToThem(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.Chmod(s.Path(), 0o644)); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if info, err := os.Stat(s.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAFirstStartThatWasCutShortBeforeItWroteTheStoreIDGoesOn(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Unstate(s), s.Close(), os.Remove(filepath.Join(dir, "store-id"))); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if id := contents(t, dir)["store-id"]; strings.TrimSpace(id) != s.ID() {
		t.Errorf("store-id holds %q, want %q", id, s.ID())
	}
}

func TestTheStoreIsItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	s := open(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, s.Path(): 0o600, filepath.Join(dir, "store-id"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(b)
	}
	return all
}

// beOfSchema makes a closed store one that says that it has another schema.
func beOfSchema(t *testing.T, path string, schema int) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: filepath.Dir(path), BaseURL: "https://other.example.org", Moved: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.SetSchema(s, schema), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestTheNamesOfFieldsAreKeptPerAgency(t *testing.T) {
	s := open(t, t.TempDir())
	one := store.ContactRequest{ID: "c1", Fields: []store.Field{{Name: "email"}, {Name: "source"}}}
	update(t, s, func(tx *store.Tx) error { return tx.PutContactRequests("A100", "a#b##", one) })
	err := s.View(func(tx *store.Tx) error {
		for agency, want := range map[string][]string{"A100": {"email", "source"}, "B200": nil} {
			if got := tx.FieldNames(agency); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", agency, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
