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

// publish gives unsent events of an agency their sequences, up to this one.
func publish(t testing.TB, s *store.Store, agency string, upTo uint64) {
	t.Helper()
	for {
		last, err := s.Last(agency)
		if err != nil || last >= upTo {
			if err != nil || last > upTo {
				t.Fatalf("the stream has taken %d: %v", last, err)
			}
			return
		}
		list, err := s.Unsent(agency, int(min(upTo-last, 1000)), 1<<30)
		if err != nil || len(list) == 0 {
			t.Fatalf("nothing is left behind %d: %v", last, err)
		}
		for i := range list {
			last++
			list[i].Sequence = last
		}
		if err := s.Publish(agency, list, cursorAt(list[len(list)-1])); err != nil {
			t.Fatal(err)
		}
	}
}

// whole is an agency's log: what is published, then what is unsent.
func whole(t testing.TB, s *store.Store, agency string) []events.Event {
	t.Helper()
	all, _, err := s.EventsAfter(agency, store.Place{}, 1<<30, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// kept are the positions of an agency's log, which here are the sequences too once it is published.
func kept(t testing.TB, s *store.Store, agency string) (positions []uint64) {
	t.Helper()
	for _, e := range whole(t, s, agency) {
		if positions = append(positions, e.Position); e.Sequence != 0 && e.Sequence != e.Position {
			t.Errorf("%s: event %d is at position %d", agency, e.Sequence, e.Position)
		}
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
	for _, agency := range []string{"A", "A1", "B"} { // one a prefix of the other
		now = era
		ring(t, s, agency, 10, &now) // at era + 1 … 10 minutes
	}
	publish(t, s, "A", 8)
	publish(t, s, "A1", 10) // nothing of B
	trim(t, s, era.Add(4*time.Minute), 100, 6)
	for agency, first := range map[string]uint64{"A": 4, "A1": 4, "B": 1} {
		if got := kept(t, s, agency); !slices.Equal(got, between(first, 10)) {
			t.Errorf("%s keeps %v", agency, got)
		}
	}
	trim(t, s, era.Add(time.Hour), 100, 10)
	for agency, first := range map[string]uint64{"A": 8, "A1": 10, "B": 1} { // the cursor's, the newest
		if got := kept(t, s, agency); !slices.Equal(got, between(first, 10)) {
			t.Errorf("%s keeps %v", agency, got)
		}
	}
	trim(t, s, era.Add(time.Hour), 100, 0)
}

func TestASequenceIsNotUsedAgainAfterATrim(t *testing.T) {
	dir, now := t.TempDir(), era
	s := openAt(t, dir, &now)
	ring(t, s, "A100", 5, &now)
	publish(t, s, "A100", 5)
	trim(t, s, now.Add(time.Hour), 100, 4)
	s.Close()
	s = openAt(t, dir, &now)
	if last, err := s.Last("A100"); last != 5 || err != nil {
		t.Errorf("the log ends with %d, %v", last, err)
	}
	ring(t, s, "A100", 1, &now)
	publish(t, s, "A100", 6)
	if got := kept(t, s, "A100"); !slices.Equal(got, []uint64{5, 6}) {
		t.Errorf("the log holds %v", got)
	}
}

func TestTrimmingGoesOnWhereItWas(t *testing.T) {
	now := era
	s := openAt(t, t.TempDir(), &now)
	for _, agency := range []string{"A", "B"} {
		ring(t, s, agency, 8, &now)
		publish(t, s, agency, 8)
	}
	for _, want := range []struct {
		trimmed int
		a, b    uint64
	}{{5, 6, 1}, {5, 8, 4}, {4, 8, 8}, {0, 8, 8}} {
		trim(t, s, now.Add(time.Hour), 5, want.trimmed)
		if a, b := kept(t, s, "A"), kept(t, s, "B"); a[0] != want.a || b[0] != want.b {
			t.Errorf("A begins with %d, B with %d, want %+v", a[0], b[0], want)
		}
	}
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
	publish(t, s, "A100", 50)
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
		publish(b, s, "A100", size)
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
