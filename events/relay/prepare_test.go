package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// verdicts collects what is decided of agencies.
type verdicts struct {
	mu  sync.Mutex
	all map[string]error
}

func (v *verdicts) decided(agency string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = map[string]error{}
	}
	v.all[agency] = err
}

// wantFailed fails the test unless all of so many were decided, and only these with an error.
func (v *verdicts) wantFailed(t *testing.T, of int, want ...string) {
	t.Helper()
	if len(v.all) != of {
		t.Errorf("%d are decided, want %d", len(v.all), of)
	}
	failed := 0
	for agency, err := range v.all {
		if err != nil {
			failed++
			t.Logf("%s: %v", agency, err)
		}
	}
	if failed != len(want) {
		t.Errorf("%d failed, want %q", failed, want)
	}
	for _, w := range want {
		if v.all[w] == nil {
			t.Errorf("%s is said to be done", w)
		}
	}
}

func agencyNames(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("A%03d", i))
	}
	return all
}

// haunted is a log that does something else when it is asked for one agency's cursor.
type haunted struct {
	Log
	agency string
	does   func() error
}

func (h haunted) Cursor(agency string) (events.Cursor, error) {
	if agency == h.agency {
		if err := h.does(); err != nil {
			return events.Cursor{}, err
		}
	}
	return h.Log.Cursor(agency)
}

// everyCursor is a log that says of whom the cursor is asked for.
type everyCursor struct {
	Log
	asked func(agency string)
}

func (l everyCursor) Cursor(agency string) (events.Cursor, error) {
	l.asked(agency)
	return l.Log.Cursor(agency)
}

func TestEveryAgencyOfALostStoreIsTakenOverForItselfThoughOneCannotBe(t *testing.T) {
	b := newBell(t)
	names := agencyNames(200)
	for _, name := range names {
		b.log.ring(t, name, 30)
	}
	b.deliver()

	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	broken := errors.New("broken")
	b.o.Log, b.o.StoreID = haunted{s, "A007", func() error { return broken }}, s.ID()
	var v verdicts
	if err := b.relay().Prepare(t.Context(), names, v.decided); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	v.wantFailed(t, 200, "A007")
	for _, name := range names {
		want := uint64(30) // the report is unsent
		if name == "A007" {
			want = 0
		}
		if last, _ := s.Last(name); last != want {
			t.Errorf("%s ends with %d, want %d", name, last, want)
		}
	}
}

func TestAServerThatGoesSilentIsNotWaitedForAgencyByAgency(t *testing.T) {
	b := newBell(t)
	names := agencyNames(200)
	for _, name := range names {
		b.log.ring(t, name, 1)
	}
	b.deliver()
	b.o.AckWait = time.Second
	var v verdicts
	var away []string // begun when the server was gone
	gone := false
	b.o.Log = everyCursor{haunted{b.log, "A050", func() error {
		b.server.Shutdown()
		v.mu.Lock()
		defer v.mu.Unlock()
		gone = true
		return nil
	}}, func(agency string) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if gone {
			away = append(away, agency)
		}
	}}
	begun := time.Now()
	if err := b.relay().Prepare(t.Context(), names, v.decided); err == nil {
		t.Error("prepared without a server")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	failed := 0
	for _, name := range names[:50] {
		if v.all[name] != nil {
			failed++
		}
	}
	if failed >= inFlight { // one of the places is A050's
		t.Errorf("%d of those before it are not done", failed)
	}
	for _, name := range append(away, "A050") {
		if v.all[name] == nil {
			t.Errorf("%s is said to be done without a server", name)
		}
	}
	if !errors.Is(v.all["A199"], ErrNoAnswer) {
		t.Errorf("the last one: %v", v.all["A199"])
	}
}

func TestPrepareEndsForAllWhenItsTimeIsOver(t *testing.T) {
	b := newBell(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.o.Log = haunted{b.log, "A001", func() error { cancel(); return nil }}
	var v verdicts
	if err := b.relay().Prepare(ctx, agencyNames(50), v.decided); err == nil {
		t.Error("prepared beyond its time")
	}
	if len(v.all) != 50 || v.all["A049"] == nil {
		t.Errorf("%d decided, the last with %v", len(v.all), v.all["A049"])
	}
}
