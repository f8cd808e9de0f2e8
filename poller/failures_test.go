package poller

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
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
		a.retry(reference).failed(reference, time.Now(), time.Now())
	}
	a.markDirty(failureInsertion, reference)
}

func TestAnAlarmOfAnInsertionIsToldOnceAndEndedWhoeverKeepsFailuresMeanwhile(t *testing.T) {
	a := anAgency(t)
	long := time.Now().Add(time.Hour)
	for n := range 40 {
		reference := fmt.Sprintf("a#%d##", n)
		a.failThrice(reference)
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.keepFailures(); err != nil {
				t.Error(err)
			}
		})
		for range 2 {
			if err := a.raiseUnreadable(reference, long); err != nil {
				t.Fatal(err)
			}
			both.Wait()
		}
		a.retry(reference).succeeded(long)
		a.markDirty(failureInsertion, reference)
		if err := a.keepFailures(); err != nil { // of another poll
			t.Fatal(err)
		}
		if err := a.clearUnreadable(reference, long); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := a.p.store.EventsAfter(a.id, store.Place{}, 1<<20, 1<<30)
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

func TestAGapOfAWindowStandsInTheStatusUntilItEnds(t *testing.T) {
	a := anAgency(t)
	told := store.Failure{Scope: watch.FailureWindow, Name: "a#1##", Since: time.Unix(1, 0).UTC(), Told: true}
	if err := a.p.store.Update(func(tx *store.Tx) error { return tx.PutFailure(a.id, told) }); err != nil {
		t.Fatal(err)
	}
	a.saved[failureName{watch.FailureWindow, "a#1##"}] = told
	if all := a.alarms(store.Agency{}); len(all) != 1 {
		t.Errorf("%v", all)
	}
	a.forget("a#1##")
	if err := a.keepFailures(); err != nil {
		t.Fatal(err)
	}
	left := 0
	err := a.p.store.View(func(tx *store.Tx) error {
		all, err := tx.Failures(a.id)
		left = len(all)
		return err
	})
	if err != nil || left != 0 || len(a.alarms(store.Agency{})) != 0 {
		t.Errorf("left %d: %v", left, err)
	}
}
