package relay

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"doorbell/store"
)

// TestEveryAgencyOfALostStoreIsSyncedWhenTheLogHasWhatTheStreamHolds: also one that comes while the relay runs.
func TestEveryAgencyOfALostStoreIsSyncedWhenTheLogHasWhatTheStreamHolds(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("A%03d", i))
		b.log.ring(t, names[i], 10)
	}
	b.deliver()

	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	watch := func(names ...string) {
		err := s.Update(func(tx *store.Tx) error {
			for _, name := range names {
				if err := tx.PutAgency(name, store.Agency{WatchStart: time.Now(), AwaitsStream: true}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	synced := map[string]uint64{}
	b.o.Log, b.o.StoreID, b.o.Synced = s, s.ID(), func(agency string) {
		last, _ := s.Last(agency)
		mu.Lock()
		defer mu.Unlock()
		synced[agency] = last
	}
	all := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(synced) == n
		}
	}
	watch(names[1:]...)
	r := b.relay()
	stop := b.start(r)
	defer stop()
	eventually(t, "all but one are synced", all(29))
	watch(names[0])
	r.Begin()
	eventually(t, "the last one too", all(30))
	for name, last := range synced {
		if last < 10 {
			t.Errorf("%s ended with %d when it was said to be synced", name, last)
		}
	}
}
