package poller

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// anAgency is one that is watched, of a poller that does not run.
func anAgency(t *testing.T) *agency {
	t.Helper()
	api := listings.Options{BaseURL: "http://127.0.0.1:1"}
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: api.BaseURL, Max: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p, err := New(Options{Store: s, API: api, Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}}})
	if err != nil {
		t.Fatal(err)
	}
	return p.byID["A100"]
}

func (a *agency) failThrice(reference string) {
	for range 3 {
		a.retry(reference).failed(reference, time.Now(), time.Now())
	}
}

func TestAnAlarmOfAnInsertionIsToldOnceAndEndedWhoeverKeepsFailuresMeanwhile(t *testing.T) {
	a := anAgency(t)
	long := time.Now().Add(time.Hour)
	for n := range 40 {
		reference := fmt.Sprintf("a#%d##", n)
		a.prioritize(reference)
		a.failThrice(reference)
		a.health[listings.OperationContactRequests].Good = long // others are answered
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.endForgotten(); err != nil {
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
		if err := a.endForgotten(); err != nil { // of another poll
			t.Fatal(err)
		}
		if err := a.clear(long, watch.AlarmOf(watch.Unreadable, "contact_requests", reference)); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := a.p.store.EventsAfter(a.id, 0, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	told := map[events.Type]int{}
	for _, e := range all {
		told[e.Type]++
	}
	if told[events.TypeWatchGapDetected] != 40 || len(a.published().alarms) != 0 {
		t.Errorf("of 40 alarms: %v, left %v", told, a.published().alarms)
	}
}

func TestTheStatusWaitsForNoCommit(t *testing.T) {
	a := anAgency(t)
	a.committing.Lock()
	defer a.committing.Unlock()
	err := a.p.store.Update(func(*store.Tx) error {
		done := make(chan Status, 1)
		go func() { done <- a.p.Status() }()
		select {
		case <-done:
			return nil
		case <-time.After(2 * time.Minute): // only ends a hang
			return errors.New("it waits")
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatAPollTellsOfAnInsertionThatAWalkEndedMeanwhileEnds(t *testing.T) {
	var a *agency
	const reference = "a#1##"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.forget(reference) // as the end of a walk does
		if err := a.endForgotten(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `"nothing"`)
	}))
	t.Cleanup(server.Close)
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: server.URL},
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a = p.byID["A100"]
	a.prioritize(reference)
	go p.dispatcher.run(t.Context(), func(schedule.Turn) {})
	if _, _, err := a.pollScheduled(t.Context(), reference); err != nil {
		t.Fatal(err)
	}
	if err := a.noteSuccess(listings.OperationContactRequests, "a#2##", time.Now()); err != nil {
		t.Fatal(err)
	}
	if all := a.published().alarms; len(all) != 0 {
		t.Errorf("left %v", all)
	}
	told, _, err := s.EventsAfter(a.id, 0, 10, 1<<20)
	if err != nil || len(told) != 1 || told[0].Type != events.TypeWatchSchemaDrifted {
		t.Errorf("%v: %v", told, err)
	}
}
