package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// keep runs a housekeeping until the returned function is called.
func keep(t *testing.T, o store.HousekeepingOptions) (h *store.Housekeeping, stop func()) {
	t.Helper()
	h = store.NewHousekeeping(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	return h, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// large appends an event of about n bytes.
func large(t *testing.T, s *store.Store, size int) error {
	t.Helper()
	record := slices.Concat([]byte(`"`), bytes.Repeat([]byte("a"), size), []byte(`"`))
	e, err := events.New(&events.InsertionAppeared{
		Common: events.Common{AgencyID: "A100", ObservedAt: era}, PropertyReferenceID: "a#b##", Episode: 1, Record: record,
	})
	must(t, err)
	return s.Update(func(tx *store.Tx) error { _, err := tx.Append(e); return err })
}

func TestOldEventsGoAtTheStartAndEveryHour(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		for range 10 {
			update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err })
			time.Sleep(time.Hour)
		}
		publish(t, s, 10)
		_, stop := keep(t, store.HousekeepingOptions{Store: s, Retention: 5*time.Hour + time.Minute})
		pass(time.Second)
		if got := kept(t, s); !slices.Equal(got, between(6, 10)) {
			t.Errorf("after the start the log holds %v", got)
		}
		pass(2 * time.Hour)
		if got := kept(t, s); !slices.Equal(got, between(8, 10)) {
			t.Errorf("two hours later the log holds %v", got)
		}
		stop()
	})
}

func TestANearlyFullStoreIsReported(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		var told []store.Space
		h, stop := keep(t, store.HousekeepingOptions{
			Store: s, Retention: time.Hour, Max: 4 << 20, Changed: func(is store.Space) { told = append(told, is) },
		})
		for n := 0; n < 33; n++ { // 33 × 104 kB
			must(t, large(t, s, 100<<10))
			pass(time.Minute)
		}
		if len(told) != 1 || !told[0].Alarm || told[0].Full || !h.Space().Alarm || h.Space().InUse < 32*(4<<20)/40 {
			t.Fatalf("told %+v, is %+v", told, h.Space())
		}
		publish(t, s, 33)
		pass(2 * time.Hour)
		if len(told) != 2 || told[1].Alarm || h.Space().Alarm {
			t.Errorf("told %+v", told)
		}
		stop()
	})
}

func TestAFullStoreSaysSoUntilThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		h, stop := keep(t, store.HousekeepingOptions{Store: s, Retention: 1000 * time.Hour, Max: 4 << 20})
		written := uint64(0)
		for ; !s.Full() && written < 100; written++ {
			must(t, large(t, s, 100<<10))
			pass(time.Minute)
		}
		if !h.Space().Full || written < 30 || written == 100 {
			t.Fatalf("after %d events: %+v", written, h.Space())
		}
		if got := kept(t, s); !slices.Equal(got, between(1, written)) {
			t.Errorf("the log holds %v", got)
		}
		again := store.NewHousekeeping(store.HousekeepingOptions{Store: s, Retention: 1000 * time.Hour, Max: 1 << 30})
		for _, look := range []struct {
			h    *store.Housekeeping
			full bool
		}{{again, false}, {h, true}} {
			if err := look.h.Look(); err != nil || s.Full() != look.full {
				t.Errorf("%v, at a look %v", err, s.Full())
			}
		}
		publish(t, s, 20)
		pass(time.Minute)
		if s.Full() || h.Space().Full {
			t.Errorf("there is room: %+v", h.Space())
		}
		if got := kept(t, s); got[0] < 2 || got[0] > 10 || got[len(got)-1] != written {
			t.Errorf("the log holds %v", got)
		}
		stop()
	})
}

// TestAFileHasALimitBeyondWhatItMayHold writes until a commit fails. What is under way when polling stops finds room, and a cursor.
func TestAFileHasALimitBeyondWhatItMayHold(t *testing.T) {
	dir := t.TempDir()
	bounded := func() *store.Store {
		s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, Max: 4 << 20})
		must(t, err)
		return s
	}
	s := bounded()
	var err error
	written := 0
	for ; err == nil && written < 100; written++ {
		err = large(t, s, 1<<20)
	}
	if !errors.Is(err, store.ErrNoSpace) || written < 50 || written > 70 {
		t.Fatalf("after %d MiB: %v", written, err)
	}
	select {
	case <-s.Failed():
	default:
		t.Error("the process continues")
	}
	nothing := func(*store.Tx) error { return nil }
	for _, err := range []error{s.Failure(), s.View(nothing), s.Update(nothing), s.RequireSpace(), s.Close()} {
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			t.Error(err)
		}
	}
	s = bounded() // it is larger than it may be, and shrinks
	publish(t, s, uint64(written-1))
	if n, err := s.Trim(time.Now(), 1000); err != nil || n < 50 {
		t.Errorf("%d are trimmed: %v", n, err)
	}
	if err := errors.Join(s.RequireSpace(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestHousekeepingGivesSignsOfLife(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, stop := keep(t, store.HousekeepingOptions{Store: open(t, dir), Retention: time.Hour})
		for range 10 {
			pass(10 * time.Minute)
			if since := time.Since(h.Turned()); since > 10*time.Second {
				t.Errorf("none since %s", since)
			}
		}
		stop()
		pass(time.Hour)
		if since := time.Since(h.Turned()); since < time.Hour {
			t.Errorf("one after its end: %s ago", since)
		}
	})
}
