package store_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// said makes an event as another store has published it.
func said(t testing.TB, e events.Event, sequence uint64) events.Event {
	t.Helper()
	return e.Stamp(sequence, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Add(time.Duration(sequence)*time.Second), "theother").WithSequence(sequence)
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

// ids is the whole log once all that is unsent is sent, and fails if it has gaps or holds an id twice.
func ids(t testing.TB, s *store.Store) (ids []string) {
	t.Helper()
	for sent := true; sent; {
		last, err := s.Last("A100")
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Unsent("A100", 250, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if sent = len(list) > 0; sent {
			publish(t, s, "A100", last+uint64(len(list)))
		}
	}
	seen := map[string]bool{}
	for i, e := range whole(t, s, "A100") {
		if seen[e.ID] {
			t.Fatalf("%s is there twice", e.ID)
		}
		seen[e.ID] = true
		if ids = append(ids, e.ID); i > 0 && e.Sequence == 0 {
			t.Fatalf("position %d is unsent", e.Position)
		}
	}
	return ids
}

func TestImportedEventsStandBeforeWhatIsUnsentAndCountAsPublished(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 3, 3)
	list := []events.Event{said(t, lead(t, 1), 41), said(t, lead(t, 2), 42)}
	imports(t, s, list...)
	if c, _ := s.Cursor("A100"); c != cursorAt(list[1]) {
		t.Fatalf("cursor %+v", c)
	}
	all := whole(t, s, "A100")
	if len(all) != 3 || all[0].StoreID != "theother" || all[0].Sequence != 41 || all[0].Position != 0 || string(all[0].Data) != string(list[0].Data) {
		t.Fatalf("%d events: %+v", len(all), all[0])
	}
	if e := all[2]; e.Sequence != 0 || e.Position != 1 || e.StoreID != s.ID() {
		t.Fatalf("behind them %+v", e)
	}
}

func TestWhatIsFoundAgainIsDropped(t *testing.T) {
	s := open(t, t.TempDir())
	imports(t, s, said(t, lead(t, 1), 7), said(t, lead(t, 2), 8))
	leads(t, s, 1, 3)
	if got := ids(t, s); len(got) != 3 || got[2] != lead(t, 3).ID {
		t.Fatalf("the log %v", got)
	}
	if e := whole(t, s, "A100")[2]; e.Sequence != 9 {
		t.Fatalf("what is new has sequence %d", e.Sequence)
	}
}

func TestWhatIsUnsentStaysInItsOrderLessWhatTheStreamHolds(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 600)
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
}

func TestASecondStoreThatCountedOnItsOwnLosesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 5)
	publish(t, s, "A100", 5)
	// Sequence 3 is taken and published: the id alone is remembered.
	c, _ := s.Cursor("A100")
	if err := s.Import("A100", []events.Event{said(t, lead(t, 9), 3)}, c); err != nil {
		t.Fatal(err)
	}
	leads(t, s, 9, 9)
	if got := ids(t, s); len(got) != 5 || got[2] != lead(t, 3).ID {
		t.Fatalf("the log %v", got)
	}
	c.Position++ // of what was dropped
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
	for name, c := range map[string]struct {
		stream []events.Event
		ours   []events.Event
		want   int  // of ours that are sent
		anew   bool // under ids of their own
	}{
		"found again, under this revision or another":                 {[]events.Event{b}, []events.Event{b, change(t, 9, `{"rent":"B"}`, newer)}, 0, false},
		"B and A again were told, and now it is B, and A, once more":  {[]events.Event{b, a}, []events.Event{b, a}, 2, true},
		"the same revision with other content":                        {[]events.Event{b}, []events.Event{change(t, 4, `{"rent":"C"}`, newer)}, 1, false},
		"observed before the last word: a second doorbell saw it too": {[]events.Event{b, a}, []events.Event{change(t, 4, `{"rent":"B"}`, era)}, 0, false},
		"what came after what is found again is news":                 {[]events.Event{a, b}, []events.Event{b, change(t, 6, `{"rent":"D"}`, newer), change(t, 7, `{"rent":"B"}`, newer)}, 2, false},
	} {
		for _, first := range []bool{true, false} { // ours is found before the stream is read, as with NATS away, or after
			s := open(t, t.TempDir())
			find := func() {
				for _, e := range c.ours {
					appended(t, s, e)
				}
			}
			if first {
				find()
			}
			var list []events.Event
			for i, e := range c.stream {
				list = append(list, said(t, e, uint64(i+1)))
			}
			imports(t, s, list...)
			if !first {
				find()
			}
			sent := ids(t, s)[len(list):]
			if len(sent) != c.want {
				t.Errorf("%s: %d are sent, not %d", name, len(sent), c.want)
			}
			for i, id := range sent {
				if known := id == c.ours[len(c.ours)-c.want+i].ID; known == c.anew {
					t.Errorf("%s: event %d has the id of before: %t", name, i, known)
				}
			}
			if all := whole(t, s, "A100"); len(sent) > 0 && all[len(all)-1].ID != sent[len(sent)-1] {
				t.Errorf("%s: the log has another id than what was sent", name)
			}
		}
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
	appended(t, s, gone)
	if len(ids(t, s)) != 1 {
		t.Fatal("a disappearance that the stream holds is told again")
	}
	s = open(t, t.TempDir())
	imports(t, s, said(t, gone, 1), said(t, back, 2))
	appended(t, s, gone)
	if got := ids(t, s); len(got) != 3 || got[2] == gone.ID {
		t.Fatal("it came back in the stream, and its second disappearance is not told")
	}
}

func TestTheWatchOfALostStoreGoesOnWhereTheStreamHeardOfItLast(t *testing.T) {
	s := open(t, t.TempDir())
	since := func() (at time.Time) {
		update(t, s, func(tx *store.Tx) error {
			at = tx.WatchedBefore("A100")
			return nil
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
				next, err := s.Unsent("A100", 1, 1)
				if err != nil || len(next) != min(1, len(waiting)) || len(next) > 0 && next[0].ID != waiting[0] {
					t.Fatalf("seed %d round %d: next is %v", seed, round, next)
				}
				if len(waiting) > 0 {
					publish(t, s, "A100", uint64(len(stream)+1))
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
	if got := ids(t, s); len(got) != 7 {
		t.Errorf("the log is %v", got)
	}
	if last, err := s.Last("A100"); last != 28 || err != nil {
		t.Errorf("the log ends with %d, %v", last, err)
	}
}

// TestAnEventThatComesInOnceMoreMovesToItsNewSequence: the stream has lost it, and another doorbell has found it again. The store
// is verified when the test ends: the log holds the event that the cursor names.
func TestAnEventThatComesInOnceMoreMovesToItsNewSequence(t *testing.T) {
	s := open(t, t.TempDir())
	imports(t, s, said(t, lead(t, 1), 1), said(t, lead(t, 2), 2), said(t, lead(t, 3), 3))
	imports(t, s, said(t, lead(t, 4), 4), said(t, lead(t, 2), 5))
	want := []string{lead(t, 1).ID, lead(t, 3).ID, lead(t, 4).ID, lead(t, 2).ID}
	if got := ids(t, s); !slices.Equal(got, want) {
		t.Errorf("the log %v, want %v", got, want)
	}
	if last, err := s.Last("A100"); last != 5 || err != nil {
		t.Errorf("the log ends with %d, %v", last, err)
	}
	appended(t, s, lead(t, 2))
	if got := ids(t, s); len(got) != 4 {
		t.Errorf("it is told once more: %v", got)
	}
}

// TestAnImportThatComesLateIsNoLastWord: the stream took it late, and what we said meanwhile is newer.
func TestAnImportThatComesLateIsNoLastWord(t *testing.T) {
	for name, c := range map[string]struct {
		at       int // how many of ours are published before another import; 0: there is none
		recorded time.Duration
	}{
		"the first import":         {},
		"after another import":     {1, 0},
		"an older one than before": {2, 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := open(t, t.TempDir()), uint64(0)
			for i, record := range []string{`{"rent":"A"}`, `{"rent":"B"}`} {
				n++
				appended(t, s, change(t, i+1, record, newer))
				publish(t, s, "A100", n)
				if c.at == i+1 {
					n++
					e := said(t, lead(t, 1), n)
					e.RecordedTime = e.RecordedTime.Add(c.recorded)
					imports(t, s, e)
				}
			}
			imports(t, s, said(t, change(t, 8, `{"rent":"A"}`, era), 30)) // recorded long before B
			again := appended(t, s, change(t, 3, `{"rent":"A"}`, newer))
			if got := ids(t, s); got[len(got)-1] != again.ID {
				t.Errorf("that it is A again is not told: %v", got)
			}
		})
	}
}

// TestWhatHappensAgainIsToldThoughTheClockWasSetBackToo: as a snapshot of a machine does. The stream has B and A again of the same
// store, recorded at what is now later.
func TestWhatHappensAgainIsToldThoughTheClockWasSetBackToo(t *testing.T) {
	s := open(t, t.TempDir())
	own := func(e events.Event, sequence uint64) events.Event {
		e = said(t, e, sequence)
		e.StoreID, e.RecordedTime = s.ID(), newer.Add(time.Duration(sequence)*time.Second)
		return e
	}
	b, a := change(t, 4, `{"rent":"B"}`, era), change(t, 5, `{"rent":"A"}`, era)
	imports(t, s, own(b, 1), own(a, 2))
	appended(t, s, b)
	if got := ids(t, s); len(got) != 3 || got[2] == b.ID {
		t.Errorf("that it is B again is not told: %v", got)
	}
}

// TestWhatIsIgnoredMakesNoOtherState: a restored snapshot counts other revisions, and a member that changes at every answer has
// changed since the stream was told.
func TestWhatIsIgnoredMakesNoOtherState(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: baseURL, Digest: func(kind events.Type, record json.RawMessage) string {
		rent, _, _ := strings.Cut(string(record), ",")
		return string(kind) + rent
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	imports(t, s, said(t, change(t, 7, `{"rent":"B","views":1}`, newer), 1))
	appended(t, s, change(t, 1, `{"rent":"B","views":2}`, newer))
	if got := ids(t, s); len(got) != 1 {
		t.Errorf("the same change is told twice: %v", got)
	}
	appended(t, s, change(t, 2, `{"rent":"C","views":2}`, newer))
	if got := ids(t, s); len(got) != 2 {
		t.Errorf("another one is not: %v", got)
	}
}

// A stream that was made anew and filled by another store counts from 1: the log has others under these sequences.
func TestAChangeThatCameInWithoutAPlaceIsToldApartByItsState(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 5)
	publish(t, s, "A100", 5)
	late := said(t, change(t, 1, `{"rent":"B"}`, newer), 2)
	late.RecordedTime = time.Now().Add(time.Hour)
	c, _ := s.Cursor("A100")
	if err := s.Import("A100", []events.Event{late}, c); err != nil {
		t.Fatal(err)
	}
	appended(t, s, change(t, 7, `{"rent":"B"}`, newer)) // found here too, where revisions are counted otherwise
	if got := ids(t, s); len(got) != 5 {
		t.Errorf("a state that the stream has told is told again under another id: %v", got)
	}
}

func TestAStateThatCameInIsRememberedWhenItsEventIsTrimmed(t *testing.T) {
	s := open(t, t.TempDir())
	imports(t, s, said(t, change(t, 7, `{"rent":"B"}`, newer), 1), said(t, lead(t, 1), 2), said(t, lead(t, 2), 3))
	if _, err := s.Trim(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), 100); err != nil {
		t.Fatal(err)
	}
	appended(t, s, change(t, 1, `{"rent":"B"}`, newer))
	if list, err := s.Unsent("A100", 10, 1<<20); err != nil || len(list) != 0 {
		t.Errorf("told again: %d %v", len(list), err)
	}
}

// TestTheSnapshotTakesWhatTheStreamWasTold: the API went from A to B, of which another store told, and back. What is read next is
// compared with B.
func TestTheSnapshotTakesWhatTheStreamWasTold(t *testing.T) {
	const a, b, c = `{"rent":1}`, `{"rent":2}`, `{"rent":3}`
	now := func(s *store.Store) (i store.Insertion, record string) {
		if err := s.View(func(tx *store.Tx) error {
			i, _ = tx.Insertion("A100", "a#b##")
			record = string(tx.Record("A100", "a#b##"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return i, record
	}
	remembered := func(record string, gone time.Time) *store.Store {
		s := open(t, t.TempDir())
		update(t, s, func(tx *store.Tx) error {
			i := store.Insertion{Reference: "a#b##", Digest: sha256.Sum256([]byte(record)), Episode: 1, Revision: 1, GoneSince: gone}
			return errors.Join(tx.PutInsertion("A100", i), tx.PutRecord("A100", "a#b##", []byte(record)))
		})
		return s
	}
	s := remembered(a, time.Time{})
	told := said(t, change(t, 2, b, time.Unix(1, 0)), 5)
	imports(t, s, told)
	if i, record := now(s); record != b || i.Revision != 2 || i.Digest != sha256.Sum256([]byte(b)) || s.Imports() != 1 {
		t.Errorf("%s, %+v after %d imports", record, i, s.Imports())
	}
	back := change(t, 3, a, newer)
	appended(t, s, back)
	if got := ids(t, s); !slices.Equal(got, []string{told.ID, back.ID}) {
		t.Errorf("the log %v", got)
	}

	// What was found before the import and is found again after it is told once.
	s = remembered(c, time.Time{})
	found := appended(t, s, change(t, 1, c, newer))
	imports(t, s, told)
	appended(t, s, change(t, 3, c, newer))
	if got := ids(t, s); !slices.Equal(got, []string{told.ID, found.ID}) {
		t.Errorf("the log %v", got)
	}

	s = remembered(c, time.Unix(9, 0)) // what is gone comes back as something else
	imports(t, s, told)
	if i, record := now(s); record != c || i.GoneSince.IsZero() {
		t.Errorf("%s, %+v", record, i)
	}
}

// TestTheSnapshotTakesWhatTheStreamWasToldOfEndAndReturn: another store told that it is gone, and perhaps that it is back.
func TestTheSnapshotTakesWhatTheStreamWasToldOfEndAndReturn(t *testing.T) {
	const record = `{"rent":1}`
	episode := func(p events.Payload, sequence uint64) events.Event {
		e, err := events.New(p)
		if err != nil {
			t.Fatal(err)
		}
		return said(t, e, sequence)
	}
	common := events.Common{AgencyID: "A100", ObservedAt: time.Unix(1, 0)}
	gone := episode(&events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 1, Record: []byte(record)}, 5)
	back := episode(&events.InsertionReappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 2, Record: []byte(record)}, 6)
	goneAgain := episode(&events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 2, Record: []byte(record)}, 7)
	before := store.Insertion{Reference: "a#b##", Digest: sha256.Sum256([]byte(record)), Episode: 1, Revision: 3, Missing: 1, LastSeen: time.Unix(2, 0).UTC()}
	published := before
	published.Episode, published.Revision, published.Missing, published.LastSeen = 2, 0, 0, time.Time{}
	outside := before
	outside.Outside, outside.GoneSince = true, time.Unix(3, 0).UTC()
	with := func(i store.Insertion, episode int, gone time.Time) store.Insertion {
		i.Episode, i.GoneSince = episode, gone
		return i
	}
	for name, c := range map[string]struct {
		before store.Insertion
		list   []events.Event
		want   store.Insertion
	}{
		"gone":                      {before, []events.Event{gone}, with(before, 1, gone.RecordedTime)},
		"gone and back":             {before, []events.Event{gone, back}, published},
		"back":                      {before, []events.Event{back}, published},
		"gone, back and gone again": {before, []events.Event{gone, back, goneAgain}, with(published, 2, goneAgain.RecordedTime)},
		"gone, as we know":          {with(before, 1, time.Unix(4, 0).UTC()), []events.Event{gone}, with(before, 1, time.Unix(4, 0).UTC())},
		"gone before it came back":  {with(before, 2, time.Time{}), []events.Event{gone}, with(before, 2, time.Time{})},
		"outside of the filter":     {outside, []events.Event{gone, back}, outside},
	} {
		s := open(t, t.TempDir())
		update(t, s, func(tx *store.Tx) error {
			return errors.Join(tx.PutInsertion("A100", c.before), tx.PutRecord("A100", "a#b##", []byte(record)))
		})
		imports(t, s, c.list...)
		if err := s.View(func(tx *store.Tx) error {
			got, _ := tx.Insertion("A100", "a#b##")
			if got != c.want {
				t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnsentEventsThatTwoReadersDropAtOnce: what the relay publishes next must be what the log has first.
func TestUnsentEventsThatTwoReadersDropAtOnce(t *testing.T) {
	s := open(t, t.TempDir())
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // as a comparison does
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := s.Unsent("A100", 1000, 1<<20); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for n := 1; n <= 40 && !t.Failed(); n++ {
		leads(t, s, 3*n, 3*n+2)
		for i := range 2 {
			e := said(t, lead(t, 3*n+i), uint64(3*n+i))
			imports(t, s, e)
		}
		list, err := s.Unsent("A100", 1000, 1<<20)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d unsent, %v", len(list), err)
		}
		e := list[0].WithSequence(uint64(3*n + 2))
		if err := s.Publish("A100", []events.Event{e}, cursorAt(e)); err != nil {
			t.Errorf("round %d: %v", n, err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
