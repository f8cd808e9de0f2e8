package cli

import (
	"slices"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

func TestStatusHasTheFiguresOfEverything(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	a := s.Open(t, "127.0.0.1:0", func(o *daemon.Options) { o.FollowEvery = 100 * time.Millisecond })
	doorbelltest.RunUntilTheEnd(t, a)
	sub := doorbelltest.SubscribeTo(t, doorbelltest.StatusOf(t, a).NATS.URL)
	sub.Baselined(t, "A100")
	sub.Request(t, s.Ring(t, "A100"))
	doorbelltest.Eventually(t, "the lead is counted", func() bool {
		status := doorbelltest.StatusOf(t, a)
		return slices.ContainsFunc(status.Events, func(c ops.EventCount) bool {
			return c.Type == string(events.TypeContactRequestCreated) && c.Published == 1
		}) && len(status.Hours) == 1 && slices.ContainsFunc(status.Hours[0].Hours, func(h ops.Hour) bool { return h.Leads > 0 }) && len(status.Relay) == 1 && status.Relay[0].Pending == 0
	})
	status := doorbelltest.StatusOf(t, a)
	var sum ops.Hour
	for _, h := range status.Hours[0].Hours {
		sum.Leads += h.Leads
		sum.Events += h.Events
	}
	if sum.Leads != 1 || sum.Events != 2 || status.Hours[0].AgencyID != "A100" || status.Watch.Agencies[0].State != "watching" {
		t.Errorf("%d leads, %d events of %s, which is %s", sum.Leads, sum.Events, status.Hours[0].AgencyID, status.Watch.Agencies[0].State)
	}
	if store := status.Store; store.InUse == 0 {
		t.Errorf("%+v", store)
	}
	if r := status.Relay; len(r) != 1 || r[0].Acknowledged == 0 || !r[0].OldestWaiting.IsZero() && r[0].Pending == 0 {
		t.Errorf("%+v", r)
	}
	if last := status.Watch.Agencies[0].LastSequence; last == 0 || last > status.Relay[0].Acknowledged {
		t.Errorf("the newest event is %d, of which %d is in the stream", last, status.Relay[0].Acknowledged)
	}
	if l := status.Watch.Latency; l.ContactRequests == 0 {
		t.Errorf("%+v", l)
	}
}
