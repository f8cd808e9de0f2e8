package poller

import (
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

func TestAHaltThatIsResumedWhileItIsRenewedEnds(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: "http://127.0.0.1:1"},
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("made-up")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := p.byID["A100"]
	for range 100 {
		h := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Operation: "contact_requests", Status: 403, Since: time.Now()}
		halted := a.access().With(h)
		a.allowed.Store(&halted)
		if err := s.Update(func(tx *store.Tx) error { return tx.PutHalt(a.id, h) }); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.refusedContacts(h.Reference); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if n, err := p.Resume("A100", ""); n != 1 || err != nil {
				t.Errorf("%d halts ended, %v", n, err)
			}
		})
		both.Wait()
		var kept []store.Halt
		if err := s.View(func(tx *store.Tx) error { kept = tx.Halts(a.id); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(kept)+len(a.access().Halts) > 0 {
			t.Fatalf("halted for another day, without a word: in the store %d, in memory %d", len(kept), len(a.access().Halts))
		}
	}
}
