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
