package store_test

import (
	"errors"
	"maps"
	"testing"

	"doorbell/store"
)

func chunks(t *testing.T, s *store.Store, agency string) map[int]string {
	t.Helper()
	all := map[int]string{}
	if err := s.View(func(tx *store.Tx) error {
		last := -1
		tx.Schedule(agency, func(n int, chunk []byte) {
			if n <= last {
				t.Errorf("chunk %d after %d", n, last)
			}
			last, all[n] = n, string(chunk)
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestChunksOfAScheduleAreKeptPerAgencyAndTrimmed(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		t.Fatal(err)
	}
	if got := chunks(t, s, "A1"); len(got) != 0 {
		t.Errorf("a new store holds %v", got)
	}
	update(t, s, func(tx *store.Tx) error { return tx.TrimSchedule("A1", 0) })
	for _, agency := range []string{"A1", "A100"} {
		update(t, s, func(tx *store.Tx) (err error) {
			for n := range 300 { // beyond a byte
				err = errors.Join(err, tx.PutSchedule(agency, n, []byte{byte(n), byte(n >> 8)}))
			}
			return err
		})
	}
	update(t, s, func(tx *store.Tx) error { return tx.PutSchedule("A1", 0, nil) })
	update(t, s, func(tx *store.Tx) error { return tx.TrimSchedule("A1", 2) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if got, want := chunks(t, s, "A1"), (map[int]string{0: "", 1: "\x01\x00"}); !maps.Equal(got, want) {
		t.Errorf("A1 holds %v, want %v", got, want)
	}
	if got := chunks(t, s, "A100"); len(got) != 300 || got[299] != "\x2b\x01" {
		t.Errorf("A100 holds %d chunks", len(got))
	}
}
