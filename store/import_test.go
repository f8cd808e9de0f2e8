package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// said makes an event as another store has published it.
func said(t testing.TB, e events.Event, sequence uint64) events.Event {
	t.Helper()
	return e.Stamp(sequence, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Add(time.Duration(sequence)*time.Second), "theother")
}

func lead(t testing.TB, number int) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: "A100", ObservedAt: time.Now()},
		PropertyReferenceID: "a#b##", ContactRequestID: fmt.Sprint("c", number), Identity: events.IdentityID, Record: []byte(`{"id":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// change is the insertion's change to a record, as the revision of a snapshot.
func change(t testing.TB, revision int, record string, at time.Time) events.Event {
	t.Helper()
	digest := [32]byte{}
	copy(digest[:], record)
	e, err := events.New(&events.InsertionChanged{
		Common:              events.Common{AgencyID: "A100", ObservedAt: at},
		PropertyReferenceID: "a#b##", Episode: 1, Revision: revision, Digest: digest, Record: []byte(record),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newer is after all that was said.
var newer = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

func cursorAt(e events.Event) events.Cursor {
	return events.Cursor{Sequence: e.Sequence, ID: e.ID, StreamSequence: e.Sequence, StreamCreated: time.Unix(1, 0).UTC()}
}

// imports takes over the list and ends the import.
func imports(t testing.TB, s *store.Store, list ...events.Event) {
	t.Helper()
	if err := s.Import("A100", list, cursorAt(list[len(list)-1])); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseUp("A100"); err != nil {
		t.Fatal(err)
	}
}

func appended(t testing.TB, s *store.Store, e events.Event) (done events.Event) {
	t.Helper()
	update(t, s, func(tx *store.Tx) (err error) {
		done, err = tx.Append(e)
		return err
	})
	return done
}

// leads appends many, in one commit.
func leads(t testing.TB, s *store.Store, from, to int) {
	t.Helper()
	update(t, s, func(tx *store.Tx) error {
		for n := from; n <= to; n++ {
			if _, err := tx.Append(lead(t, n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ids is the whole log, and fails if it has gaps.
func ids(t testing.TB, s *store.Store) (ids []string) {
	t.Helper()
	all, err := s.Read("A100", 0, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range all {
		if i > 0 && e.Sequence != all[i-1].Sequence+1 {
			t.Fatalf("event %d follows %d", e.Sequence, all[i-1].Sequence)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func TestImportedEventsContinueTheLogAndCountAsAcknowledged(t *testing.T) {
	s := open(t, t.TempDir())
	list := []events.Event{said(t, lead(t, 1), 41), said(t, lead(t, 2), 42)}
	imports(t, s, list...)
	if c, _ := s.Cursor("A100"); c != cursorAt(list[1]) {
		t.Fatalf("cursor %+v", c)
	}
	if e := appended(t, s, lead(t, 3)); e.Sequence != 43 || e.StoreID != s.ID() {
		t.Fatalf("the next event is %d of %s", e.Sequence, e.StoreID)
	}
	all, err := s.Read("A100", 0, 10, 1<<20)
	if err != nil || len(all) != 3 || all[0].StoreID != "theother" || all[0].Sequence != 41 || string(all[0].Data) != string(list[0].Data) {
		t.Fatalf("%d events, %v", len(all), err)
	}
}

func TestWhatIsFoundAgainAddsNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first := said(t, lead(t, 1), 7)
	imports(t, s, first, said(t, lead(t, 2), 8))
	if e := appended(t, s, lead(t, 1)); e.ID != first.ID || e.Sequence != 7 || e.StoreID != "theother" {
		t.Fatalf("Append returned %d of %s", e.Sequence, e.StoreID)
	}
	if n := len(ids(t, s)); n != 2 {
		t.Fatalf("%d events in the log", n)
	}
}

func TestWhatWaitsMovesBehindTheImportedLessWhatTheStreamHolds(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 600) // several transactions' worth
	imports(t, s, said(t, lead(t, 900), 1), said(t, lead(t, 3), 2), said(t, lead(t, 901), 3), said(t, lead(t, 600), 4))
	want := []string{lead(t, 900).ID, lead(t, 3).ID, lead(t, 901).ID, lead(t, 600).ID}
	for n := 1; n < 600; n++ {
		if n != 3 {
			want = append(want, lead(t, n).ID)
		}
	}
	if got := ids(t, s); !slices.Equal(got, want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	if e := appended(t, s, lead(t, 902)); e.Sequence != 603 {
		t.Fatalf("the next event is %d", e.Sequence)
	}
}

func TestAMoveThatIsInterruptedAnywhereGoesOn(t *testing.T) {
	for steps := range 12 {
		dir := t.TempDir()
		s := open(t, dir)
		leads(t, s, 0, 699)
		list := []events.Event{said(t, lead(t, 1000), 1), said(t, lead(t, 350), 2), said(t, lead(t, 1001), 3)}
		if err := store.InSteps(s, "A100", 10, steps); err != nil {
			t.Fatal(err)
		}
		appended(t, s, lead(t, 1002)) // the poller goes on
		imports(t, s, list...)        // and the relay begins anew
		want := []string{list[0].ID, list[1].ID, list[2].ID}
		for n := range 700 {
			if n != 350 {
				want = append(want, lead(t, n).ID)
			}
		}
		if got := ids(t, s); !slices.Equal(got, append(want, lead(t, 1002).ID)) {
			t.Fatalf("after %d steps: %d events", steps, len(got))
		}
	}
}

func TestASecondStoreThatCountedOnItsOwnLosesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	for n := 1; n <= 5; n++ {
		e := appended(t, s, lead(t, n))
		if err := s.SetCursor("A100", cursorAt(e)); err != nil {
			t.Fatal(err)
		}
	}
	// Sequence 3 is taken and published: the id alone is remembered.
	c, _ := s.Cursor("A100")
	if err := s.Import("A100", []events.Event{said(t, lead(t, 9), 3)}, c); err != nil {
		t.Fatal(err)
	}
	appended(t, s, lead(t, 9))
	if got := ids(t, s); len(got) != 5 || got[2] != lead(t, 3).ID {
		t.Fatalf("the log %v", got)
	}
	if now, _ := s.Cursor("A100"); now != c {
		t.Fatalf("cursor %+v", now)
	}
}

func TestOfTwoImportedEventsUnderOneSequenceTheFirstStandsAndBothAreKnown(t *testing.T) {
	s := open(t, t.TempDir())
	imports(t, s, said(t, lead(t, 1), 1), said(t, lead(t, 2), 2), said(t, lead(t, 3), 1), said(t, lead(t, 4), 2), said(t, lead(t, 5), 3))
	for n := 1; n <= 5; n++ {
		appended(t, s, lead(t, n))
	}
	if got := ids(t, s); len(got) != 3 || got[0] != lead(t, 1).ID || got[1] != lead(t, 2).ID || got[2] != lead(t, 5).ID {
		t.Errorf("the log %v", got)
	}
}

func TestAChangeThatIsFoundAgainIsToldFromOneThatHappensAgain(t *testing.T) {
	b, a := change(t, 4, `{"rent":"B"}`, newer), change(t, 5, `{"rent":"A"}`, newer)
	fresh := func(list ...events.Event) *store.Store {
		s := open(t, t.TempDir())
		for i := range list {
			list[i] = said(t, list[i], uint64(i+1))
		}
		imports(t, s, list...)
		return s
	}
	// The stream's last word is B: a restored snapshot finds the same again, under this revision or another.
	s := fresh(b)
	appended(t, s, b)
	appended(t, s, change(t, 9, `{"rent":"B"}`, newer))
	if n := len(ids(t, s)); n != 1 {
		t.Errorf("found again: %d events", n)
	}
	// The stream has heard of B and of A again. Now it is B once more: it is told, although its id is taken.
	s = fresh(b, a)
	e := appended(t, s, b)
	if got := ids(t, s); len(got) != 3 || e.ID == b.ID || got[2] != e.ID {
		t.Errorf("A, B, A, B: %v", got)
	}
	if e = appended(t, s, a); e.ID == a.ID || e.Sequence != 4 {
		t.Errorf("and A: %d", e.Sequence)
	}
	// The same revision with other content is another event.
	s = fresh(b)
	if e = appended(t, s, change(t, 4, `{"rent":"C"}`, newer)); e.ID == b.ID || e.Sequence != 2 {
		t.Errorf("another content: %d", e.Sequence)
	}
	// What was observed before the stream's last word is old: a second doorbell has seen it too.
	s = fresh(b, a)
	appended(t, s, change(t, 4, `{"rent":"B"}`, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)))
	if n := len(ids(t, s)); n != 2 {
		t.Errorf("seen by both: %d events", n)
	}
}

func TestAnInsertionThatDisappearsAgainAfterARestoreIsTold(t *testing.T) {
	common := events.Common{AgencyID: "A100", ObservedAt: newer}
	gone, err := events.New(&events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 1, LastSeenAt: newer})
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.New(&events.InsertionReappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 2, DisappearedAt: newer, Record: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, t.TempDir())
	imports(t, s, said(t, gone, 1))
	if e := appended(t, s, gone); e.Sequence != 1 {
		t.Fatal("a disappearance that the stream holds is told again")
	}
	s = open(t, t.TempDir())
	imports(t, s, said(t, gone, 1), said(t, back, 2))
	if e := appended(t, s, gone); e.Sequence != 3 || e.ID == gone.ID {
		t.Fatal("it came back in the stream, and its second disappearance is not told")
	}
}

func TestTheWatchOfALostStoreGoesOnWhereTheStreamHeardOfItLast(t *testing.T) {
	s := open(t, t.TempDir())
	since := func() (at time.Time) {
		update(t, s, func(tx *store.Tx) (err error) {
			at, err = tx.WatchedBefore("A100")
			return err
		})
		return at
	}
	if at := since(); !at.IsZero() {
		t.Fatalf("nothing imported: %s", at)
	}
	first, last := said(t, lead(t, 1), 1), said(t, lead(t, 2), 2)
	imports(t, s, first)
	if at := since(); !at.Equal(first.RecordedTime) {
		t.Fatalf("one event: %s", at)
	}
	last.RecordedTime = first.RecordedTime.Add(30 * 24 * time.Hour)
	imports(t, s, last)
	if at := since(); !at.Equal(last.RecordedTime.Add(-48 * time.Hour)) {
		t.Fatalf("since %s", at)
	}
}

// TestRandomImportsAgreeWithAModel: an import in pages, among appends of what is new and of what is known.
func TestRandomImportsAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 15 {
		s := open(t, t.TempDir())
		var stream []string // ids
		var waiting []string
		in := map[string]bool{}
		for range 30 {
			switch n := random.IntN(40); random.IntN(3) {
			case 0: // another doorbell publishes
				var list []events.Event
				for range 1 + random.IntN(5) {
					e := said(t, lead(t, random.IntN(40)), uint64(len(stream)+1))
					if in[e.ID] {
						continue
					}
					in[e.ID] = true
					stream, list = append(stream, e.ID), append(list, e)
				}
				if len(list) > 0 {
					imports(t, s, list...)
					waiting = slices.DeleteFunc(waiting, func(id string) bool { return in[id] })
				}
			case 1: // ours
				id := lead(t, n).ID
				if !in[id] && !slices.Contains(waiting, id) {
					appended(t, s, lead(t, n))
					waiting = append(waiting, id)
				} else if in[id] && random.IntN(2) == 0 && !own(t, s, id) {
					appended(t, s, lead(t, n))
				}
			case 2: // ours is published
				if len(waiting) > 0 {
					c, _ := s.Cursor("A100")
					next, err := s.Read("A100", c.Sequence, 1, 1)
					if err != nil || len(next) != 1 || next[0].ID != waiting[0] {
						t.Fatalf("seed %d round %d: next is %v", seed, round, next)
					}
					if err := s.SetCursor("A100", cursorAt(next[0])); err != nil {
						t.Fatal(err)
					}
					in[waiting[0]] = true
					stream, waiting = append(stream, waiting[0]), waiting[1:]
				}
			}
		}
		if got := ids(t, s); !slices.Equal(got, append(slices.Clone(stream), waiting...)) {
			t.Fatalf("seed %d round %d:\n%v\n%v\n%v", seed, round, got, stream, waiting)
		}
	}
}

// own says whether an event of the log is of this store.
func own(t testing.TB, s *store.Store, id string) bool {
	t.Helper()
	all, err := s.Read("A100", 0, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(e events.Event) bool { return e.ID == id && e.StoreID == s.ID() })
}

func TestAnEventThatIsAppendedInTheMiddleOfAnImportIsNotOverwritten(t *testing.T) {
	s := open(t, t.TempDir())
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
				if err := s.Append(lead(t, 10_000+n)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for n := range uint64(60) {
		e := said(t, lead(t, int(n)), n+1)
		if err := s.Import("A100", []events.Event{e}, cursorAt(e)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	appended := <-done
	if err := s.CloseUp("A100"); err != nil {
		t.Fatal(err)
	}
	got := ids(t, s)
	if len(got) != 60+appended {
		t.Fatalf("%d events of %d", len(got), 60+appended)
	}
	for n, id := range got {
		want := lead(t, n).ID
		if n >= 60 {
			want = lead(t, 10_000+n-60).ID
		}
		if id != want {
			t.Fatalf("another event at %d", n)
		}
	}
}

// TestARedactionThatIsFoundAgainIsNotToldAgain: a restored backup counts other revisions than the stream.
func TestARedactionThatIsFoundAgainIsNotToldAgain(t *testing.T) {
	s := open(t, t.TempDir())
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	redaction := func(revision int, fields ...string) events.Event {
		e, err := events.New(&events.ContactRequestRedacted{
			Common: events.Common{AgencyID: "A100", ObservedAt: at}, PropertyReferenceID: "a", ContactRequestID: "c1",
			Identity: events.IdentityID, RedactedFields: fields, Revision: revision,
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	imports(t, s, said(t, redaction(3, "/email", "/phone"), 1))
	appended(t, s, redaction(1, "/email", "/phone"))
	if n := len(ids(t, s)); n != 1 {
		t.Errorf("%d events, want the imported one alone", n)
	}
	appended(t, s, redaction(2, "/lastName"))
	if n := len(ids(t, s)); n != 2 {
		t.Errorf("%d events: another redaction is news", n)
	}
}

// TestAHoleThatTheStreamHadIsNoDamage: what was erased or has expired there cannot be taken over. The store is verified when
// the test ends.
func TestAHoleThatTheStreamHadIsNoDamage(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 3)
	imports(t, s, said(t, lead(t, 21), 21), said(t, lead(t, 23), 23))
	leads(t, s, 31, 32)
	if last, err := s.Last("A100"); last != 28 || err != nil {
		t.Errorf("the log ends with %d, %v", last, err)
	}
}
