package store_test

import (
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

func TestHeadsAreReadBothWaysAndOfOneAgencyAlone(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	for _, agency := range []string{"A", "A1", "B"} {
		update(t, s, func(tx *store.Tx) error { return tx.PutAgency(agency, store.Agency{}) })
	}
	ring(t, s, "A1", 5, &now)
	ring(t, s, "B", 1, &now)
	whole, err := s.Read("A1", 0, 9, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var want []events.Head
	for _, e := range whole {
		want = append(want, events.Head{ID: e.ID, Type: e.Type, Origin: e.Origin, Sequence: e.Sequence, RecordedTime: e.RecordedTime})
	}
	if got, err := s.HeadsAfter("A1", 2, 2); err != nil || !slices.Equal(got, want[2:4]) {
		t.Errorf("after 2: %v, %v", got, err)
	}
	slices.Reverse(want)
	for before, expected := range map[uint64][]events.Head{6: want[:3], 1 << 63: want[:3], 3: want[3:], 1: nil} {
		if got, err := s.HeadsBefore("A1", before, 3); err != nil || !slices.Equal(got, expected) {
			t.Errorf("before %d: %v, %v, not %v", before, got, err, expected)
		}
	}
	for _, empty := range []string{"A", "C"} {
		after, err := s.HeadsAfter(empty, 0, 9)
		before, err2 := s.HeadsBefore(empty, 9, 9)
		if len(after)+len(before) > 0 || err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", empty, after, before)
		}
	}
	newest, err := s.NewestHeads()
	if err != nil || len(newest) != 3 || newest["A1"] != want[0] || newest["A"] != (events.Head{}) || newest["B"].Sequence != 1 {
		t.Errorf("the newest are %v, %v", newest, err)
	}
}

func TestPositionsSayWhatWaitsAndSinceWhen(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "A100", 3, &now)
	ring(t, s, "B200", 1, &now)
	publish(t, s, "A100", 1)
	publish(t, s, "B200", 1)
	list, err := s.Positions([]string{"B200", "C300", "A100"})
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if b, c := list[0], list[1]; b.Last != 1 || b.Cursor.Sequence != 1 || !b.Waiting.IsZero() || c != (store.Position{}) {
		t.Errorf("%+v, %+v", b, c)
	}
	if a := list[2]; a.Last != 3 || a.Cursor.Sequence != 1 || !a.Waiting.Equal(era.Add(2*time.Minute)) {
		t.Errorf("%+v", a)
	}
}
