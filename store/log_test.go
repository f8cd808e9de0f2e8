package store_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// appended appends one event.
func appended(t testing.TB, s *store.Store, e events.Event) (stamped events.Event) {
	t.Helper()
	update(t, s, func(tx *store.Tx) (err error) {
		stamped, err = tx.Append(e)
		return err
	})
	return stamped
}

func TestALogIsReadBothWaysAndOfOneAgencyAlone(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	for range 3 {
		ring(t, s, "A1", 1, &now)
		ring(t, s, "B", 1, &now)
	}
	all := whole(t, s, "")
	if len(all) != 6 || all[5].Sequence != 6 || all[4].AgencyID != "A1" {
		t.Fatalf("the log is %+v", all)
	}
	ours := []events.Event{all[0], all[2], all[4]}
	got, next, err := s.EventsAfter("A1", 1, 1, 1<<20)
	if err != nil || !reflect.DeepEqual(got, ours[1:2]) || next != 4 {
		t.Errorf("after 1: %v to %d, %v", got, next, err)
	}
	slices.Reverse(ours)
	first, from, err := s.EventsBefore("A1", 0, 2, 1<<20)
	rest, end, err2 := s.EventsBefore("A1", from, 3, 1<<20)
	if err != nil || err2 != nil || !reflect.DeepEqual(first, ours[:2]) || !reflect.DeepEqual(rest, ours[2:]) || end != 0 {
		t.Errorf("backwards: %v, %v to %d", first, rest, end)
	}
	after, next, err := s.EventsAfter("A", 0, 9, 1<<20)
	before, end, err2 := s.EventsBefore("A", 0, 9, 1<<20)
	if len(after)+len(before) > 0 || next != 6 || end != 0 || err != nil || err2 != nil {
		t.Errorf("%v to %d, %v to %d", after, next, before, end)
	}
	if one, err := s.Events(2, 9, 1); err != nil || !reflect.DeepEqual(one, all[2:3]) {
		t.Errorf("of too few bytes: %v, %v", one, err)
	}
	if _, next, err := s.EventsAfter("", 6, 9, 1<<20); next != 6 || err != nil {
		t.Errorf("behind the end: %d, %v", next, err)
	}
}

func TestAPositionIsNotUsedAgain(t *testing.T) {
	dir, now := t.TempDir(), era
	s := openAt(t, dir, &now)
	ring(t, s, "A100", 3, &now)
	publish(t, s, 3)
	trim(t, s, now.Add(time.Hour), 100, 2)
	for _, reserved := range []uint64{9, 4} {
		must(t, s.Reserve(reserved))
	}
	s.Close()
	s = openAt(t, dir, &now)
	if last, err := s.LastPosition(); last != 9 || err != nil {
		t.Errorf("the log ends with %d, %v", last, err)
	}
	if e := appended(t, s, event(t, "A100")); e.Sequence != 10 {
		t.Errorf("the next position is %d", e.Sequence)
	}
	publish(t, s, 10)
	trim(t, s, now.Add(time.Hour), 100, 1)
	if list, err := s.Events(0, 9, 1<<20); err != nil || len(list) != 1 || list[0].Sequence != 10 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestTheCursorMayGoBackAndTheHighestPositionStays(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "A100", 5, &now)
	for _, c := range []events.Cursor{{Position: 4, ID: "x", StreamSequence: 9, StreamCreated: era}, {StreamCreated: now}, {Position: 2, ID: "y", StreamSequence: 1}} {
		must(t, s.Acknowledge(c, nil))
		c.Highest = 4
		if got, err := s.Cursor(); err != nil || got != c {
			t.Errorf("%+v, %v, want %+v", got, err, c)
		}
	}
}

func TestProgressReportsWhatIsUnsentAndSinceWhen(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "B200", 1, &now)
	ring(t, s, "A100", 3, &now)
	err := errors.Join(s.Acknowledge(events.Cursor{Position: 2}, map[string]uint64{"B200": 1, "A100": 2}),
		s.Acknowledge(events.Cursor{Position: 2}, map[string]uint64{"A100": 1}))
	must(t, err)
	got, err := s.Progress()
	want := map[string]store.Progress{"B200": {Acknowledged: 1}, "A100": {Acknowledged: 2, Pending: 2, OldestWaiting: era.Add(3 * time.Minute)}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if last, err := s.Last("A100"); last != 2 || err != nil {
		t.Errorf("%d, %v", last, err)
	}
}
