package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/store"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkLatency measures from the moment that an answer with a new contact request has left the API to the moment that
// a JetStream consumer outside holds its event. Beside it, in the same run and turn by turn, what cannot be had for less:
// one commit of a bbolt file and one publish to a JetStream with SyncAlways that its consumer holds.
//
//	go test ./cmd/doorbell -run '^$' -bench Latency -benchtime 200x
func BenchmarkLatency(b *testing.B) {
	answers := newGrowing()
	server := httptest.NewServer(answers)
	b.Cleanup(server.Close)
	dir := shortDir(b)
	p := start(b, append(runEnviron(dir, server.URL, testKey, "A100"), "DOORBELL_POLL_INTERVAL=5ms", "DOORBELL_WALK_INTERVAL=1h"), "run")
	b.Cleanup(func() { p.stop(b) })
	arrived := consume(b, subscribed(b, dir), "LISTINGS", "listings.v1.*.contact_request.created")
	limit := newFloor(b)
	<-answers.polled
	<-answers.polled // the first poll is done

	var ours, theirs []time.Duration
	for n := range b.N {
		answers.grow()
		sent := <-answers.sent
		ours = append(ours, (<-arrived).Sub(sent))
		theirs = append(theirs, limit.once(b, n))
	}
	percentiles(b, "ours", ours)
	percentiles(b, "limit", theirs)
	b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "times")
	b.ReportMetric(0, "ns/op")
}

func percentiles(b *testing.B, name string, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(float64(median(all).Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-µs")
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// growing is an API of one insertion that gets a contact request whenever it is told to.
type growing struct {
	began  time.Time
	count  atomic.Int64
	shown  atomic.Int64
	polled chan struct{}  // capacity 2: the first polls
	sent   chan time.Time // when an answer with a new one has left
}

func newGrowing() *growing {
	g := &growing{began: time.Now().Add(-time.Minute), polled: make(chan struct{}, 2), sent: make(chan time.Time, 1)}
	g.count.Store(3)
	g.shown.Store(3)
	return g
}

func (g *growing) grow() { g.count.Add(1) }

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/insertions") {
		_, _ = fmt.Fprintf(w, `{"items":[`+cheapInsertion+`],"total":1}`, 1)
		return
	}
	count := g.count.Load()
	rows := make([]string, 0, count)
	for n := count; n > max(count-20, 0); n-- {
		at := "2026-01-01T00:00:00Z"
		if n > 3 {
			at = g.began.Add(time.Duration(n) * time.Millisecond).UTC().Format(time.RFC3339Nano) // the same in every answer
		}
		rows = append(rows, fmt.Sprintf(`{"id":"c%d","createdAt":%q,"lastName":"Beispiel","email":"n%d@example.org","message":"Guten Tag %d"}`, n, at, n, n))
	}
	_, _ = fmt.Fprintf(w, `{"contactRequests":[%s],"total":%d}`, strings.Join(rows, ","), count)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	if g.shown.Swap(count) < count {
		g.sent <- time.Now()
	}
	select {
	case g.polled <- struct{}{}:
	default:
	}
}

func subscribed(b *testing.B, dir string) jetstream.JetStream {
	b.Helper()
	nc, err := nats.Connect(natsURL(b, dir))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return streams(b, nc)
}

func streams(b *testing.B, nc *nats.Conn) jetstream.JetStream {
	b.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	return js
}

// consume hands over when messages arrive at a consumer.
func consume(b *testing.B, js jetstream.JetStream, stream, filter string) <-chan time.Time {
	b.Helper()
	var consumer jetstream.Consumer
	eventually(b, "a consumer", func() (ok bool) {
		c, err := js.OrderedConsumer(b.Context(), stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
		consumer = c
		return err == nil
	})
	arrived := make(chan time.Time, 100)
	c, err := consumer.Consume(func(jetstream.Msg) { arrived <- time.Now() })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	return arrived
}

// floor is one commit and one delivery, with nothing else.
type floor struct {
	store   *store.Store
	js      jetstream.JetStream
	arrived <-chan time.Time
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	s, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	server, err := natsd.Start(b.Context(), natsd.Options{StoreDir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	nc, err := server.Connect("limit")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close(); server.Shutdown(); s.Close() })
	js := streams(b, nc)
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "LIMIT", Subjects: []string{"limit"}, Storage: jetstream.FileStorage}); err != nil {
		b.Fatal(err)
	}
	guest, err := nats.Connect(server.ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(guest.Close)
	return &floor{s, js, consume(b, streams(b, guest), "LIMIT", "limit")}
}

func (l *floor) once(b *testing.B, n int) time.Duration {
	b.Helper()
	data := []byte(strings.Repeat("x", 1000))
	began := time.Now()
	if err := l.store.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", fmt.Sprint(n), data) }); err != nil {
		b.Fatal(err)
	}
	if _, err := l.js.PublishMsgAsync(&nats.Msg{Subject: "limit", Data: data}); err != nil {
		b.Fatal(err)
	}
	return (<-l.arrived).Sub(began)
}
