package relay

import (
	"log/slog"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// BenchmarkDrain measures how fast a log that has grown while NATS was away is published: read from bbolt, into JetStream with
// SyncAlways, cursor back into bbolt. The server syncs each event, so no more of them go through than the disk can sync.
//
//	TMPDIR=/var/tmp go test ./events/relay -run '^$' -bench Drain -benchtime 5000x
//
// Without TMPDIR the tests of this package keep their files in memory.
func BenchmarkDrain(b *testing.B) {
	s, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: "http://127.0.0.1:1"})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	err = s.Update(func(tx *store.Tx) error {
		if err := tx.PutAgency("A100", store.Agency{WatchStart: time.Now()}); err != nil {
			return err
		}
		for i := range b.N {
			if _, err := tx.Append(contactRequest(b, "A100", i, "Guten Tag, ist die Wohnung noch frei?")); err != nil {
				return err
			}
		}
		return nil
	})
	must(b, err)
	bell := newBell(b)
	bell.o.Log, bell.o.StoreID, bell.o.Logger = s, s.ID(), slog.New(slog.DiscardHandler)
	r := bell.relay()
	b.ResetTimer()
	must(b, r.Drain(b.Context()))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if n := r.Status().Published[events.TypeContactRequestCreated]; n != uint64(b.N) {
		b.Fatalf("%d of %d events were published", n, b.N)
	}
}
