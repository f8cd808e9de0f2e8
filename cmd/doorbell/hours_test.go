package main

import (
	"testing"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

func TestStatusCountsTheLeadsOfEachHour(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "off")
	runUntilTheEnd(t, a)
	live, leave := a.follower.Subscribe()
	defer leave()
	until := func(kind events.Type) {
		t.Helper()
		for limit := time.After(patience); ; {
			select {
			case e, open := <-live:
				if !open {
					t.Fatal("cut off")
				}
				if e.Type == kind {
					return
				}
			case <-limit:
				t.Fatalf("no %s", kind)
			}
		}
	}
	until(events.TypeWatchBaselined)
	began := time.Now()
	s.ring(t, "A100")
	until(events.TypeContactRequestCreated)
	t.Logf("a lead is shown after %s", time.Since(began).Round(time.Millisecond))
	status, err := a.status()
	if err != nil || len(status.Hours) != 1 || status.Hours[0].AgencyID != "A100" {
		t.Fatalf("%+v, %v", status.Hours, err)
	}
	var sum ops.Hour
	for _, h := range status.Hours[0].Hours {
		sum.Leads += h.Leads
		sum.Events += h.Events
	}
	if sum.Leads != 1 || sum.Events != 2 {
		t.Errorf("%d leads, %d events", sum.Leads, sum.Events)
	}
}

func TestStatusHasTheFiguresOfEverything(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "off")
	runUntilTheEnd(t, a)
	eventually(t, "a lead is published and counted", func() bool {
		status, err := a.status()
		if err != nil {
			t.Fatal(err)
		}
		if status.Watch.Agencies[0].State != "watching" {
			return false
		}
		for _, c := range status.Events {
			if c.Type == string(events.TypeContactRequestCreated) {
				return c.Appended > 0 && c.Published > 0
			}
		}
		s.ring(t, "A100")
		return false
	})
	status, err := a.status()
	if err != nil {
		t.Fatal(err)
	}
	if status.NATS.Server == nil || status.NATS.StreamMax != 1<<30 {
		t.Errorf("%+v", status.NATS)
	}
	if store := status.Store; store.File < store.InUse || store.InUse == 0 || store.Commits == 0 {
		t.Errorf("%+v", store)
	}
	if r := status.Relay; len(r) != 1 || r[0].Acknowledged == 0 || !r[0].OldestWaiting.IsZero() && r[0].Pending == 0 {
		t.Errorf("%+v", r)
	}
	if w := status.Watch; len(w.RequestCounts) == 0 || w.Agencies[0].Latencies.Count == 0 {
		t.Errorf("%+v", w)
	}
}
