package store_test

import (
	"slices"
	"testing"

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
