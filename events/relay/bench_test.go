package relay

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"

	"github.com/nats-io/nats.go"
)

// inFileBell is a bell whose log is a real store on disk.
func inFileBell(b *testing.B) (*bell, *store.Store) {
	b.Helper()
	s, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	bell := newBell(b)
	bell.o.Log, bell.o.StoreID, bell.o.Logger = s, s.ID(), slog.New(slog.DiscardHandler)
	return bell, s
}

// fill appends n contact requests of an agency as polls would: a few in each commit; here more, for it is not measured.
func fill(b *testing.B, s *store.Store, agency string, n int) {
	b.Helper()
	for from := 0; from < n; from += 1000 {
		err := s.Update(func(tx *store.Tx) error {
			if _, known := tx.Agency(agency); !known {
				if err := tx.PutAgency(agency, store.Agency{WatchStart: time.Now()}); err != nil {
					return err
				}
			}
			for i := from; i < min(from+1000, n); i++ {
				if _, err := tx.Append(lead(b, agency, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// lead is a contact request of the size that the contract shows.
func lead(t testing.TB, agency string, number int) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: agency, ObservedAt: time.Now(), ObservedAfter: time.Now().Add(-time.Minute)},
		PropertyReferenceID: fmt.Sprintf("seefeld#%d#H2#0305", number%2000),
		ContactRequestID:    fmt.Sprintf("7f0c2b1e-6d1f-4a53-9a57-%012x", number), Identity: events.IdentityID,
		CreatedAt: time.Now().Add(-time.Minute),
		Contact: events.Contact{
			Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel", Email: "nora.beispiel@example.org", Language: "de",
			Message: "Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.",
		},
		Insertion: events.InsertionSummary{Title: "Helle 3.5-Zimmerwohnung im Seefeld", Street: "Beispielstrasse 12", PostalCode: "8008"},
		Record: []byte(fmt.Sprintf(`{"id":"7f0c2b1e-6d1f-4a53-9a57-%012x","createdAt":"2026-11-20T10:41:07+0100","score":72.5,`+
			`"salutation":"Frau","firstName":"Nora","lastName":"Beispiel","email":"nora.beispiel@example.org","phone":"079 000 01 23",`+
			`"language":"de","message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.","status":"NEW"}`, number)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// BenchmarkDrain measures how fast a log that has grown while NATS was away is published: read from bbolt, into JetStream
// with SyncAlways, cursor back into bbolt. Beside it, in the same run: the same messages published one at a time, each
// waiting for its fsync.
//
//	go test ./events/relay -run '^$' -bench Drain -benchtime 3x
func BenchmarkDrain(b *testing.B) {
	for _, agencies := range []int{1, 4} {
		b.Run(fmt.Sprintf("agencies=%d", agencies), func(b *testing.B) { benchmarkDrain(b, agencies) })
	}
}

func benchmarkDrain(b *testing.B, agencies int) {
	const waiting = 40_000
	var draining, singly time.Duration
	for range b.N {
		b.StopTimer()
		bell, s := inFileBell(b)
		for n := range agencies {
			fill(b, s, fmt.Sprintf("A%d", n), waiting/agencies)
		}
		r := bell.relay()
		b.StartTimer()
		began := time.Now()
		if err := r.Drain(b.Context()); err != nil {
			b.Fatal(err)
		}
		draining += time.Since(began)
		b.StopTimer()
		singly += oneByOne(b, bell, s)
	}
	each := float64(b.N) * waiting
	fast, slow := each/draining.Seconds(), float64(b.N)*published/singly.Seconds()
	b.ReportMetric(fast, "events/s")
	b.ReportMetric(slow, "one-by-one/s")
	b.ReportMetric(fast/slow, "times")
	b.ReportMetric(0, "ns/op")
}

const published = 1000

// oneByOne publishes as a script would that wants to be sure: each message waits for its acknowledgement.
func oneByOne(b *testing.B, bell *bell, s *store.Store) time.Duration {
	b.Helper()
	found, err := s.Read("A0", 0, published, 1<<30)
	if err != nil || len(found) != published {
		b.Fatal(len(found), err)
	}
	began := time.Now()
	for _, e := range found {
		m := &nats.Msg{Subject: "listings.v1.single.contact_request.created", Header: nats.Header{nats.MsgIdHdr: {"single-" + e.ID}}, Data: e.Data}
		if _, err := bell.js.PublishMsg(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

// BenchmarkImport takes over 20,000 events of the contract's size into a store that was lost.
func BenchmarkImport(b *testing.B) {
	const n = 20_000
	bell, s := inFileBell(b)
	fill(b, s, "A100", n)
	if err := bell.relay().Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		lost, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: "http://127.0.0.1:1"})
		if err != nil {
			b.Fatal(err)
		}
		bell.o.Log, bell.o.StoreID = lost, lost.ID()
		fill(b, lost, "A100", 1)
		if err := bell.relay().RunOnce(b.Context()); err != nil {
			b.Fatal(err)
		}
		if last, _ := lost.Last("A100"); last < n {
			b.Fatalf("%d events", last)
		}
		lost.Close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
