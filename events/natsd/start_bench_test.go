package natsd

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkStart measures the start of a server whose stream holds that many events, each with an id
// within the duplicate window, of about the size of a lead. A start reads all blocks of the window,
// since the ids stand nowhere else. heap-MB is what the process holds afterwards beyond what it held
// before; most of it is the table of the ids.
//
//	go test ./events/natsd -run '^$' -bench Start -benchtime 1x -timeout 30m
func BenchmarkStart(b *testing.B) {
	for _, events := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			dir := b.TempDir()
			writeStream(b, dir, events)
			before := heap()
			var took time.Duration
			for range b.N {
				begin := time.Now()
				s, err := Start(b.Context(), Options{StoreDir: dir, Stream: "LISTINGS", Listen: "off"})
				if err != nil {
					b.Fatal(err)
				}
				took += time.Since(begin)
				held := heap() - before
				b.ReportMetric(float64(held)/1e6, "heap-MB")
				s.Shutdown()
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "start-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// writeStream writes a stream as doorbell makes it, without an fsync for each message.
func writeStream(b *testing.B, dir string, events int) {
	b.Helper()
	o := &server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true, JetStreamMaxStore: 16 << 30}
	if err := o.ProcessConfigString("accounts { " + account + " { jetstream: enabled, users: [{ user: a, password: a }] } }"); err != nil {
		b.Fatal(err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("a", "a"))
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1_000))
	if err != nil {
		b.Fatal(err)
	}
	const window = 30 * 24 * time.Hour
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxAge: window, Duplicates: window,
	}); err != nil {
		b.Fatal(err)
	}
	lead := make([]byte, 1_200)
	for n := range events {
		subject := fmt.Sprintf("listings.v1.A100.%d.contact_request.created", n%5_000)
		id := fmt.Sprintf("A100.%032x.contact_request.created", n)
		if _, err := js.PublishAsync(subject, lead, jetstream.WithMsgID(id), jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if m, err := js.Stream(b.Context(), "LISTINGS"); err != nil || m.CachedInfo().State.Msgs != uint64(events) {
		b.Fatal("the stream does not hold them", err)
	}
}
