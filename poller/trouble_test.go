package poller

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// anAgency is one that is watched, of a poller that does not run.
func anAgency(t *testing.T) *agency {
	t.Helper()
	api := listings.Options{BaseURL: "http://127.0.0.1:1"}
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: api.BaseURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p, err := New(Options{Store: s, API: api, Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}}})
	if err != nil {
		t.Fatal(err)
	}
	return p.agency("A100")
}

func (a *agency) failThrice(reference string) {
	for range 3 {
		a.look(reference).retry.failed(reference, time.Now(), time.Now())
	}
	a.touch(troubleInsertion, reference)
}

func TestAnAlarmOfAnInsertionIsToldOnceAndEndedWhoeverKeepsTroublesMeanwhile(t *testing.T) {
	a := anAgency(t)
	long := time.Now().Add(time.Hour)
	for n := range 40 {
		reference := fmt.Sprintf("a#%d##", n)
		a.failThrice(reference)
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.keepTroubles(); err != nil {
				t.Error(err)
			}
		})
		for range 2 {
			if err := a.tellUnreadable(reference, long); err != nil {
				t.Fatal(err)
			}
			both.Wait()
		}
		a.look(reference).retry.succeeded(long)
		a.touch(troubleInsertion, reference)
		if err := a.keepTroubles(); err != nil { // of another poll
			t.Fatal(err)
		}
		if err := a.tellReadable(reference, long); err != nil {
			t.Fatal(err)
		}
	}
	all, err := a.p.store.Read(a.id, 0, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	told := map[events.Type]int{}
	for _, e := range all {
		told[e.Type]++
	}
	if told[events.TypeWatchGapDetected] != 40 || told[events.TypeWatchRecovered] != 40 {
		t.Errorf("of 40 alarms: %v", told)
	}
}
