package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"doorbell/events/natsd/natsdtest"
	"doorbell/store"
)

// BenchmarkTakeover lets two doorbells take an agency of 10,000 insertions with 2 kB from each other, on three servers in this process:
// `go test ./events/relay -run '^$' -bench Takeover -benchtime 10x`.
func BenchmarkTakeover(b *testing.B) {
	const insertions = 10000
	c := natsdtest.Start(b)
	members := []*member{join(b, c, "one"), join(b, c, "two")}
	for _, m := range members {
		m.relay.o.BatchEvents = serverBatch
	}
	members[0].claim("A100")
	before := heap()
	err := members[0].store.Update(func(tx *store.Tx) (err error) {
		record := bytes.Repeat([]byte("x"), 2<<10)
		for n := range insertions {
			reference := fmt.Sprint("A100#", n)
			err = errors.Join(err, tx.PutInsertion("A100", store.Insertion{Reference: reference}), tx.PutRecord("A100", reference, record))
		}
		return errors.Join(err, tx.PutAgency("A100", store.Agency{CompleteWalks: 1}))
	})
	if err != nil {
		b.Fatal(err)
	}
	members[0].drained("A100")
	held := heap() - before
	info, err := members[0].js.Stream(context.Background(), "LISTINGS")
	if err != nil {
		b.Fatal(err)
	}
	for n := 1; b.Loop(); n++ {
		members[n%2].claim("A100")
	}
	b.ReportMetric(float64(info.CachedInfo().State.Bytes), "bytes-in-stream")
	b.ReportMetric(float64(info.CachedInfo().State.Msgs), "messages-in-stream")
	b.ReportMetric(held/3, "bytes-of-heap/server") // and what the doorbells hold
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
