package store_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

func TestALogIsReadBothWaysAndOfOneAgencyAlone(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	for _, agency := range []string{"A", "A1", "B"} {
		update(t, s, func(tx *store.Tx) error { return tx.PutAgency(agency, store.Agency{}) })
	}
	ring(t, s, "A1", 5, &now)
	ring(t, s, "B", 1, &now)
	publish(t, s, "A1", 3)
	want := whole(t, s, "A1")
	if len(want) != 5 || want[2].Sequence != 3 || want[3].Sequence != 0 || want[4].Position != 5 {
		t.Fatalf("the log is %+v", want)
	}
	got, next, err := s.EventsAfter("A1", store.Place{Sequence: 2, Position: 2}, 2, 1<<20)
	if err != nil || !reflect.DeepEqual(got, want[2:4]) || next != (store.Place{Sequence: 3, Position: 4}) {
		t.Errorf("after 2: %v to %v, %v", got, next, err)
	}
	slices.Reverse(want)
	first, from, err := s.EventsBefore("A1", 0, 3, 1<<20)
	rest, end, err2 := s.EventsBefore("A1", from, 3, 1<<20)
	if err != nil || err2 != nil || !reflect.DeepEqual(first, want[:3]) || !reflect.DeepEqual(rest, want[3:]) || end != 1 {
		t.Errorf("backwards: %v, %v", first, rest)
	}
	for _, empty := range []string{"A", "C"} {
		after, next, err := s.EventsAfter(empty, store.Place{}, 9, 1<<20)
		before, _, err2 := s.EventsBefore(empty, 0, 9, 1<<20)
		if len(after)+len(before) > 0 || next != (store.Place{}) || err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", empty, after, before)
		}
	}
	places, err := s.Places()
	if err != nil || len(places) != 3 || places["A1"] != (store.Place{Sequence: 3, Position: 5}) || places["B"] != (store.Place{Position: 1}) {
		t.Errorf("the logs reach to %v, %v", places, err)
	}
}

// TestWhoFollowsALogMeetsEachEventOnce: whatever is published, imported and trimmed between two pages, and however small they are.
func TestWhoFollowsALogMeetsEachEventOnce(t *testing.T) {
	now := era
	for _, page := range []int{1, 2, 3, 100} {
		s := openAt(t, t.TempDir(), &now)
		var at store.Place
		met := map[string]int{}
		read := func(pages int) {
			for range pages {
				list, next, err := s.EventsAfter("A100", at, page, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range list {
					met[h.ID]++
				}
				at = next
			}
		}
		ids := map[string]bool{}
		for round := range 12 {
			for range 3 {
				now = now.Add(time.Minute)
				ids[appended(t, s, event(t, "A100")).ID] = true
			}
			read(round % 3)
			last, _ := s.Last("A100")
			publish(t, s, "A100", last+uint64(round%4))
			read(1)
			if round%3 == 0 {
				last, _ := s.Last("A100")
				other := said(t, lead(t, round), last+1)
				ids[other.ID] = true
				imports(t, s, other)
			}
		}
		read(1000)
		for id := range ids {
			if met[id] != 1 {
				t.Errorf("pages of %d: %s is met %d times", page, id, met[id])
			}
		}
		if len(met) != len(ids) {
			t.Errorf("%d are met, not %d", len(met), len(ids))
		}
	}
}

func TestAnEventIsLookedUpWhereverItStandsByNow(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "A100", 5, &now)
	unsent := whole(t, s, "A100")
	publish(t, s, "A100", 2)
	last := said(t, lead(t, 1), 3)
	imports(t, s, last)
	publish(t, s, "A100", 5)
	for _, list := range [][]events.Event{unsent, whole(t, s, "A100")} {
		for _, h := range list {
			if e, found, err := s.Lookup(h); !found || err != nil || e.ID != h.ID {
				t.Errorf("%+v: %t, %v", h, found, err)
			}
		}
	}
	if _, found, err := s.Lookup(events.Event{AgencyID: "A100", Position: 6}); found || err != nil {
		t.Errorf("what is not there is found: %v", err)
	}
}

func TestOnlyTheNextEventsCanBePublishedAndOnlyBehindTheLast(t *testing.T) {
	s := open(t, t.TempDir())
	leads(t, s, 1, 3)
	list := whole(t, s, "A100")
	for name, wrong := range map[string][]events.Event{
		"the second alone":      {list[1].WithSequence(1)},
		"not all between":       {list[0].WithSequence(1), list[2].WithSequence(2)},
		"one that is not there": {list[0].WithSequence(1), lead(t, 9).WithSequence(2)},
		"under no sequence":     {list[0]},
	} {
		if err := s.Publish("A100", wrong, events.Cursor{}); err == nil {
			t.Errorf("%s is published", name)
		}
	}
	if got := whole(t, s, "A100"); len(got) != 3 || got[0].Sequence != 0 {
		t.Errorf("the log is %v", got)
	}
	publish(t, s, "A100", 2)
	if err := s.Publish("A100", []events.Event{list[2].WithSequence(2)}, events.Cursor{}); err == nil {
		t.Error("a sequence is used twice")
	}
}

func TestAPositionIsNotUsedAgain(t *testing.T) {
	dir, now := t.TempDir(), era
	s := openAt(t, dir, &now)
	ring(t, s, "A100", 3, &now)
	publish(t, s, "A100", 3)
	trim(t, s, now.Add(time.Hour), 100, 2)
	other := said(t, lead(t, 1), 4)
	leads(t, s, 1, 1) // position 4, which the stream has told
	imports(t, s, other)
	if list, err := s.Unsent("A100", 9, 1<<20); err != nil || len(list) != 0 {
		t.Fatalf("%d are unsent, %v", len(list), err)
	}
	s.Close()
	s = openAt(t, dir, &now)
	if e := appended(t, s, lead(t, 2)); e.Position != 5 {
		t.Errorf("the next position is %d", e.Position)
	}
}

func TestProgressSaysWhatIsUnsentAndSinceWhen(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "A100", 3, &now)
	ring(t, s, "B200", 1, &now)
	publish(t, s, "A100", 1)
	publish(t, s, "B200", 1)
	list, err := s.Progress("B200", "C300", "A100")
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if b, c := list[0], list[1]; b.Unsent != 0 || b.Cursor.Sequence != 1 || !b.Oldest.IsZero() || c != (store.Progress{}) {
		t.Errorf("%+v, %+v", b, c)
	}
	if a := list[2]; a.Unsent != 2 || a.Cursor.Sequence != 1 || !a.Oldest.Equal(era.Add(2*time.Minute)) {
		t.Errorf("%+v", a)
	}
}
