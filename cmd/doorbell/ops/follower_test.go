package ops

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// inTime runs a test in virtual time, with a folder on disk.
func inTime(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, dir) })
}

// openLog opens a store with agencies.
func openLog(t *testing.T, dir string, agencies ...string) *store.Store {
	t.Helper()
	return openLogAt(t, dir, nil, agencies...)
}

// openLogAt opens it with a clock of its own.
func openLogAt(t *testing.T, dir string, now func() time.Time, agencies ...string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range agencies {
		if err := s.Update(func(tx *store.Tx) error { return tx.PutAgency(id, store.Agency{}) }); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// say appends events in one commit.
func say(t *testing.T, s *store.Store, payloads ...events.Payload) (said []events.Event) {
	t.Helper()
	err := s.Update(func(tx *store.Tx) error {
		for _, p := range payloads {
			e, err := events.New(p)
			if err != nil {
				return err
			}
			if e, err = tx.Append(e); err != nil {
				return err
			}
			said = append(said, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// publishSome is what the relay does once the stream has taken the first unsent events.
func publishSome(t *testing.T, s *store.Store, n int) {
	t.Helper()
	c, err := s.Cursor()
	if err == nil {
		c.Position += uint64(n)
		err = s.Acknowledge(c, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func lead(agency, id string, origin events.Origin) *events.ContactRequestCreated {
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: agency, Origin: origin, ObservedAt: start}, PropertyReferenceID: "r", ContactRequestID: id,
		Contact: events.Contact{LastName: "Beispiel-zq7"},
	}
}

func followNow(t *testing.T, f *Follower) {
	t.Helper()
	if err := f.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// following runs a follower until the function is called.
func following(t *testing.T, s *store.Store) (f *Follower, stop func()) {
	f = NewFollower(s)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(63 * time.Second) // virtual; between two looks
	return f, func() {
		cancel()
		run.Wait()
	}
}

// countedHours are leads and events of an agency by the hour, the one that runs being 0, those without any left out.
func countedHours(f *Follower, agency string) string {
	text := ""
	for _, a := range f.Hours() {
		if a.AgencyID != agency {
			continue
		}
		slices.Reverse(a.Hours)
		for n, h := range a.Hours {
			if h.Events > 0 {
				text += fmt.Sprintf("%d:%d/%d ", n, h.Leads, h.Events)
			}
		}
		return text
	}
	return "unknown"
}

func names(list []events.Event) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.AgencyID+"/"+e.Reference)
	}
	return ids
}

func wantCounted(t *testing.T, f *Follower, agency, want string) {
	t.Helper()
	if got := countedHours(f, agency); got != want {
		t.Errorf("%s is counted as %q, not %q", agency, got, want)
	}
}

func TestHoursOfTheLogAreCountedFromTheStartAndGoOn(t *testing.T) {
	inTime(t, func(t *testing.T, dir string) {
		s := openLog(t, dir, "A100", "B200", "C300")
		say(t, s, lead("A100", "long ago", ""))
		time.Sleep(26 * time.Hour)
		say(t, s, lead("A100", "1", ""), lead("A100", "2", events.OriginBaseline), appeared("A100", "r"))
		time.Sleep(2 * time.Hour)
		say(t, s, appeared("B200", "r"))
		time.Sleep(time.Hour)

		f, stop := following(t, s)
		defer stop()
		wantCounted(t, f, "A100", "3:1/3 ")
		wantCounted(t, f, "B200", "1:0/1 ")
		wantCounted(t, f, "C300", "")

		say(t, s, lead("A100", "3", ""), lead("C300", "4", ""))
		time.Sleep(followEvery)
		wantCounted(t, f, "A100", "0:1/1 3:1/3 ")
		wantCounted(t, f, "C300", "0:1/1 ")
		time.Sleep(21 * time.Hour)
		wantCounted(t, f, "A100", "21:1/1 ")
		if hours := f.Hours()[0].Hours; len(hours) != 24 || !hours[23].At.Equal(time.Now().Truncate(time.Hour)) {
			t.Errorf("%d hours, the last at %s", len(hours), hours[23].At)
		}
	})
}

func TestALogOfManyPagesIsCountedWhole(t *testing.T) {
	s := openLog(t, t.TempDir(), "A100", "B200")
	const size = 3*followPage + 1
	var list []events.Payload
	for n := range size {
		list = append(list, appeared("A100", fmt.Sprint(n)))
	}
	say(t, s, list...)
	f := NewFollower(s)
	followNow(t, f)
	count := func() (n int) {
		for _, h := range f.Hours()[0].Hours {
			n += h.Events
		}
		return n
	}
	if got := count(); got != size {
		t.Errorf("%d of %d are counted", got, size)
	}
	say(t, s, list...)
	followNow(t, f)
	if got := count(); got != 2*size {
		t.Errorf("%d of %d are counted", got, 2*size)
	}
}

func TestTheNewestOfAllAgenciesAreShownInOrder(t *testing.T) {
	inTime(t, func(t *testing.T, dir string) {
		s := openLog(t, dir, "A100", "B200")
		var want []string
		for n := range 2 * keptRecent {
			agency := []string{"A100", "B200"}[n%2]
			say(t, s, appeared(agency, fmt.Sprint(n)))
			want = append(want, fmt.Sprintf("%s/%d", agency, n))
			time.Sleep(time.Second)
		}
		f, stop := following(t, s)
		defer stop()
		if got := names(f.Recent()); !slices.Equal(got, want[keptRecent:]) {
			t.Errorf("recent are %v", got)
		}
		say(t, s, appeared("A100", "new"))
		time.Sleep(followEvery)
		if got := names(f.Recent()); !slices.Equal(got[len(got)-2:], []string{"B200/119", "A100/new"}) {
			t.Errorf("the last two are %v", got)
		}
	})
}

func TestALargeEventIsShownShortened(t *testing.T) {
	s := openLog(t, t.TempDir(), "A100")
	large := appeared("A100", "r")
	large.Record = []byte(`"` + string(slices.Repeat([]byte("x"), 1<<20)) + `"`)
	say(t, s, large)
	f := NewFollower(s)
	followNow(t, f)
	if list := f.Recent(); len(list) != 1 || len(list[0].Data) > mostShown {
		t.Errorf("%d events", len(list))
	}
}

func TestATrimmedLogIsFollowedOn(t *testing.T) {
	inTime(t, func(t *testing.T, dir string) {
		s := openLog(t, dir, "A100")
		for n := range 5 {
			say(t, s, appeared("A100", fmt.Sprint(n)))
			time.Sleep(time.Minute)
		}
		f, stop := following(t, s)
		defer stop()
		publishSome(t, s, 5)
		if n, err := s.Trim(time.Now(), 1000); n != 4 || err != nil {
			t.Fatalf("%d are trimmed, %v", n, err)
		}
		say(t, s, appeared("A100", "new"))
		time.Sleep(followEvery)
		wantCounted(t, f, "A100", "0:0/6 ") // they were recorded, trimmed or not
		if got := names(f.Recent()); !slices.Equal(got, []string{"A100/4", "A100/new"}) {
			t.Errorf("what was trimmed is shown: %v", got)
		}
	})
}

func TestNothingIsReadWhereNothingWasCommitted(t *testing.T) {
	s := openLog(t, t.TempDir(), "A100")
	f := NewFollower(s)
	followNow(t, f)
	if n := testing.AllocsPerRun(100, func() { followNow(t, f) }); n > 1 { // the sign of life
		t.Errorf("%v allocations", n)
	}
}

func TestTheLastLeadIsShownAlsoBehindMuchElse(t *testing.T) {
	inTime(t, func(t *testing.T, dir string) {
		s := openLog(t, dir, "A100")
		say(t, s, lead("A100", "1", ""), lead("A100", "2", ""), lead("A100", "old", events.OriginBaseline))
		for n := range 2 * keptRecent {
			say(t, s, appeared("A100", fmt.Sprint(n)))
		}
		f := NewFollower(s)
		followNow(t, f)
		list := f.Recent()
		if len(list) != keptRecent+1 || list[0].Sequence != 2 || list[1].Type != events.TypeInsertionAppeared {
			t.Errorf("%d are shown, from %d on", len(list), list[0].Sequence)
		}
		say(t, s, lead("A100", "3", ""))
		followNow(t, f)
		if list := f.Recent(); len(list) != keptRecent || list[keptRecent-1].Type != events.TypeContactRequestCreated {
			t.Errorf("%d are shown", len(list))
		}
	})
}

func TestWhatFollowsAPositionIsReadInOrderAndShortened(t *testing.T) {
	s := openLog(t, t.TempDir(), "A100")
	large := appeared("A100", "large")
	large.Record = []byte(`"` + string(slices.Repeat([]byte("x"), 1<<20)) + `"`)
	say(t, s, appeared("A100", "first"), large)
	f := NewFollower(s)
	list, next, err := f.After(1)
	if err != nil || len(list) != 1 || list[0].Reference != "large" || len(list[0].Data) > mostShown || next != 2 {
		t.Errorf("%d events up to %d, %v", len(list), next, err)
	}
	if list, next, err := f.After(2); len(list) != 0 || next != 2 || err != nil {
		t.Errorf("%d more up to %d, %v", len(list), next, err)
	}
}

// TestHoursBeforeTheStartInWhichNoDaemonWatchedAreSaid: a store knows when it heard from the API last.
func TestHoursBeforeTheStartInWhichNoDaemonWatchedAreSaid(t *testing.T) {
	inTime(t, func(t *testing.T, dir string) {
		s := openLog(t, dir, "A100")
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(90 * time.Minute)))
		err := s.Update(func(tx *store.Tx) error {
			return tx.PutAgency("A100", store.Agency{Operations: map[string]store.Operation{"insertions": {LastGood: time.Now()}}})
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		f, stop := following(t, s)
		defer stop()
		for n, h := range f.Hours()[0].Hours {
			if want := n == 21 || n == 22; h.Away != want {
				t.Errorf("%d hours ago: away %t", 23-n, h.Away)
			}
		}
	})
}
