package store_test

import (
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// era is when the clocks of these tests begin.
var era = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// openAt opens a store whose clock is *now.
func openAt(t testing.TB, dir string, now *time.Time) *store.Store {
	t.Helper()
	return openWith(t, store.Options{Dir: dir, Now: func() time.Time { return *now }})
}

// ring appends events of an agency, one a minute.
func ring(t testing.TB, s *store.Store, agency string, n int, now *time.Time) {
	t.Helper()
	for range n {
		*now = now.Add(time.Minute)
		update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, agency)); return err })
	}
}

// publish acknowledges the log up to a position.
func publish(t testing.TB, s *store.Store, upTo uint64) {
	t.Helper()
	e, _, err := s.Lookup(upTo)
	if err == nil {
		err = s.Acknowledge(events.Cursor{Position: upTo, ID: e.ID, StreamSequence: upTo, StreamCreated: era}, map[string]uint64{e.AgencyID: upTo})
	}
	must(t, err)
}

// whole is the log, of an agency or of all if it is empty.
func whole(t testing.TB, s *store.Store, agency string) (all []events.Event) {
	t.Helper()
	for at := uint64(0); ; {
		list, next, err := s.EventsAfter(agency, at, 1<<30, 1<<40)
		must(t, err)
		all = append(all, list...)
		if next == at {
			return all
		}
		at = next
	}
}

// kept are the positions of the log.
func kept(t testing.TB, s *store.Store) (positions []uint64) {
	t.Helper()
	for _, e := range whole(t, s, "") {
		positions = append(positions, e.Sequence)
	}
	return positions
}

func between(first, last uint64) (all []uint64) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func trim(t testing.TB, s *store.Store, before time.Time, most, want int) {
	t.Helper()
	if n, err := s.Trim(before, most); n != want || err != nil {
		t.Errorf("%d events were trimmed (%v), want %d", n, err, want)
	}
}

func TestOnlyWhatIsOldAndAcknowledgedIsTrimmed(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	ring(t, s, "A", 10, &now) // at era + 1 … 10 minutes
	trim(t, s, era.Add(time.Hour), 100, 0)
	publish(t, s, 8)
	trim(t, s, era.Add(4*time.Minute), 100, 3)
	if got := kept(t, s); !slices.Equal(got, between(4, 10)) {
		t.Errorf("it keeps %v", got)
	}
	trim(t, s, era.Add(time.Hour), 3, 3)
	trim(t, s, era.Add(time.Hour), 100, 1)
	if got := kept(t, s); !slices.Equal(got, between(8, 10)) { // that of the cursor stays
		t.Errorf("it keeps %v", got)
	}
	trim(t, s, era.Add(time.Hour), 100, 0)
}
