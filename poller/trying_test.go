package poller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// TestTheTryOfAHaltOfAllContactRequestsEndsIt lets time go by between the question and its turn, as it does outside a bubble.
func TestTheTryOfAHaltOfAllContactRequestsEndsIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`[]`)) }))
	defer server.Close()
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: server.URL},
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go p.dispatcher.run(ctx, func(schedule.Turn) {}) //nolint:errcheck // it ends with ctx
	a, dayAgo := p.byID["A100"], time.Now().Add(-25*time.Hour)
	a.apply(watch.Effects{Halted: []store.Halt{{Scope: events.ScopeContactRequests, Since: dayAgo, Tried: dayAgo}}})
	try := &poll{a: a, reference: "a#1##", state: a.pollState("a#1##")}
	if _, err := try.ask(ctx, watch.Ask("createdAt", "desc", watch.FirstSize)); err != nil {
		t.Fatal(err)
	}
	if list := a.access().List(); len(list) > 0 {
		t.Errorf("a good response has not ended %v", list)
	}
}

// TestATryThatCannotBeSentIsLeftForLater admits it while the key waits.
func TestATryThatCannotBeSentIsLeftForLater(t *testing.T) {
	a, dayAgo := anAgency(t), time.Now().Add(-25*time.Hour)
	a.apply(watch.Effects{Halted: []store.Halt{{Scope: events.ScopeContactRequests, Since: dayAgo, Tried: dayAgo}}})
	q := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: "a#1##", Key: a.key().Fingerprint()}
	now := time.Now()
	a.p.keyBackoff(q.Key).change(func(b watch.Backoff) watch.Backoff { return b.Throttled(now, now, time.Minute) })
	if err := a.p.admit(q, now); err == nil {
		t.Fatal("it is sent though the key waits")
	}
	if err := a.p.admit(q, now.Add(2*time.Minute)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
