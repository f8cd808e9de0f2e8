package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, Now: func() time.Time { return *now }})
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
		err = s.Acknowledge(events.Cursor{Position: upTo, ID: e.ID, StreamSequence: upTo, StreamCreated: era}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// whole is the log, of an agency or of all if it is empty.
func whole(t testing.TB, s *store.Store, agency string) (all []events.Event) {
	t.Helper()
	for at := uint64(0); ; {
		list, next, err := s.EventsAfter(agency, at, 1<<30, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
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

func TestWhatWasSeenOutlivesItsEvents(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	insertion := store.Insertion{Reference: "a#1##", Episode: 2, FirstSeen: era}
	request := store.ContactRequest{ID: "c1", Fingerprint: store.Short{1}, CreatedAt: era}
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutInsertion("A100", insertion), tx.PutContactRequests("A100", "a#1##", request), tx.PutRecord("A100", "a#1##", []byte("{}")))
	})
	ring(t, s, "A100", 50, &now)
	publish(t, s, 50)
	trim(t, s, now.Add(time.Hour), 100, 49)
	err := s.View(func(tx *store.Tx) error {
		i, _ := tx.Insertion("A100", "a#1##")
		r := tx.ContactRequests("A100", "a#1##")
		if !reflect.DeepEqual(i, insertion) || !reflect.DeepEqual(r, []store.ContactRequest{request}) || string(tx.Record("A100", "a#1##")) != "{}" {
			t.Errorf("%+v, %+v is remembered", i, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkTrim measures how fast events of 2 kB are trimmed and the longest that a commit beside it had to wait for.
//
//	go test ./store -run '^$' -bench Trim -benchtime 1x
func BenchmarkTrim(b *testing.B) {
	const size = 100_000
	for range b.N {
		b.StopTimer()
		s := open(b, b.TempDir())
		payload := []byte(fmt.Sprintf(`{"text":%q}`, strings.Repeat("Guten Tag ", 120)))
		for from := 0; from < size; from += 1000 {
			update(b, s, func(tx *store.Tx) error {
				for range 1000 {
					e, err := events.New(&events.InsertionAppeared{
						Common: events.Common{AgencyID: "A100", ObservedAt: era}, PropertyReferenceID: "a#b##", Episode: 1, Record: payload,
					})
					if err != nil {
						return err
					}
					if _, err := tx.Append(e); err != nil {
						return err
					}
				}
				return nil
			})
		}
		publish(b, s, size)
		b.StartTimer()
		stop, ended := make(chan struct{}), make(chan time.Duration)
		go func() {
			var longest time.Duration
			for {
				began := time.Now()
				err := s.Update(func(tx *store.Tx) error { return tx.PutRecord("B", "a#b##", payload) })
				if longest = max(longest, time.Since(began)); err != nil {
					b.Error(err)
				}
				select {
				case <-stop:
					ended <- longest
					return
				default:
				}
			}
		}()
		var longest time.Duration
		began, trimmed := time.Now(), 0
		for n := 1; n > 0; {
			began, err := time.Now(), error(nil)
			if n, err = s.Trim(time.Now().Add(time.Hour), 1000); err != nil {
				b.Fatal(err)
			}
			trimmed, longest = trimmed+n, max(longest, time.Since(began))
		}
		if trimmed != size-1 {
			b.Errorf("%d events were trimmed", trimmed)
		}
		b.ReportMetric(float64(trimmed)/time.Since(began).Seconds(), "events/s")
		b.ReportMetric(float64(longest.Milliseconds()), "longest-thousand-ms")
		close(stop)
		b.ReportMetric(float64((<-ended).Milliseconds()), "longest-commit-ms")
		b.ReportMetric(0, "ns/op")
	}
}
