package torture

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/poller/listings/listingstest"
	"doorbell/store"
)

// BenchmarkLatency measures what doorbell takes from the answer with a new contact request to its
// event at a subscriber. Beside it, in the same run and turn by turn, what cannot be had for less:
// one commit and one delivery.
//
// ours begins when the last byte of the answer has been written to the connection, which on
// loopback is when it can be read: the moment of "response received" as it can be known from
// outside. So it holds that doorbell wakes up, net/http reads the answer, doorbell decodes and
// compares it, one commit of the store, the relay, one publish with the stream's fsync, and the way
// through TCP to an ordered consumer in another process. history is how many contact requests an
// insertion had before: 5 are 2 KB and become 10 in 250 turns; of 20 and more an answer shows 20.
//
// limit begins in this process just before a commit of one message into a store of the same size,
// opened as doorbell opens it, and goes on with a publish of the very same message to a server that
// is started as doorbell starts it, on a stream of the same configuration. It ends as ours does, at
// an ordered consumer over TCP. Before it stands a pause as long as ours had to be waited for:
// after an idle tenth of a second a disk and a processor take longer than without a pause.
//
//	go test ./cmd/doorbell/torture -run '^$' -bench Latency -benchtime 200x
func BenchmarkLatency(b *testing.B) {
	for _, history := range []int{5, 20} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) { benchmarkLatency(b, history) })
	}
}

func benchmarkLatency(b *testing.B, history int) {
	answers := newGrowing(history)
	server := httptest.NewServer(answers)
	b.Cleanup(server.Close)
	dir := doorbelltest.ShortDir(b)
	prepare(b, dir, server.URL, latencyStore) // of A100, which is not watched
	environ := doorbelltest.RunEnviron(dir, server.URL, doorbelltest.TestKey, "B200")
	p := doorbelltest.Launch(b, append(environ, "DOORBELL_WALK_INTERVAL=1h", "DOORBELL_POLL_INTERVAL=250ms"), "run")
	b.Cleanup(func() { p.Stop(b) })
	arrived := consume(b, doorbelltest.NatsURL(b, dir), "listings.v1.*.contact_request.created")
	limit := newLimit(b)
	for range growingInsertions { // until all are watched, and both are warm
		m, _ := answers.next(b, arrived)
		limit.once(b, m)
	}

	var ours, theirs []time.Duration
	for range b.N {
		asked := time.Now()
		m, took := answers.next(b, arrived)
		ours = append(ours, took)
		time.Sleep(time.Since(asked))
		theirs = append(theirs, limit.once(b, m))
	}
	for name, all := range map[string][]time.Duration{"ours": ours, "limit": theirs} {
		b.ReportMetric(float64(median(all).Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(slices.Sorted(slices.Values(all))[len(all)*99/100].Microseconds()), name+"-p99-µs")
	}
	b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "times")
	b.ReportMetric(0, "ns/op")
}

func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

const (
	latencyStore      = 10_000 // insertions in the store beside those that are watched
	growingInsertions = 50     // that are watched
	growingShown      = 20     // contact requests that an answer shows at the most
)

// growing is an API whose insertions get a contact request, one after the other, at each call
// of next.
type growing struct {
	began   time.Time
	history int
	sent    chan time.Time // when an answer with a new one has been written

	mu    sync.Mutex
	last  int
	count [growingInsertions]int
	news  bool // the last one has one that was not shown
}

func newGrowing(history int) *growing {
	g := &growing{history: history, began: time.Now().Add(-time.Minute), sent: make(chan time.Time, 1)}
	for n := range g.count {
		g.count[n] = history
	}
	return g
}

// next adds a contact request, waits for its event, and returns how long that took.
func (g *growing) next(b *testing.B, arrived <-chan arrivedAt) (jetstream.Msg, time.Duration) {
	b.Helper()
	g.mu.Lock()
	g.last = (g.last + 1) % growingInsertions
	g.count[g.last]++
	g.news = true
	g.mu.Unlock()
	select {
	case a := <-arrived:
		return a.m, a.at.Sub(<-g.sent)
	case <-time.After(doorbelltest.Patience):
		b.Fatal("no event")
		return nil, 0
	}
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var records []string
	if strings.HasSuffix(r.URL.Path, "/insertions") {
		for n := range growingInsertions {
			records = append(records, listingstest.MarketInsertion(n))
		}
		listingstest.WriteMarket(w, records)
		return
	}
	object, err := strconv.Atoi(strings.Split(r.URL.Path, "#")[1])
	if err != nil || object >= growingInsertions {
		http.NotFound(w, r)
		return
	}
	g.mu.Lock()
	count, news := g.count[object], g.news && g.last == object
	g.news = g.news && !news
	g.mu.Unlock()
	for n := count; n > max(count-growingShown, 0); n-- {
		at := time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
		if n > g.history {
			at = g.began.Add(time.Duration(n) * time.Millisecond).UTC() // the same in every answer
		}
		records = append(records, listingstest.MarketRequest(object, n, at))
	}
	listingstest.WriteMarket(w, records)
	_ = http.NewResponseController(w).Flush()
	if news {
		g.sent <- time.Now()
	}
}

// arrivedAt is a message and when a subscriber got it.
type arrivedAt struct {
	m  jetstream.Msg
	at time.Time
}

// consume hands over what arrives at a consumer.
func consume(b *testing.B, url, filter string) <-chan arrivedAt {
	b.Helper()
	_, js := doorbelltest.Connected(b, url)
	var consumer jetstream.Consumer
	doorbelltest.Eventually(b, "a consumer", func() (ok bool) {
		c, err := js.OrderedConsumer(b.Context(), "LISTINGS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
		consumer = c
		return err == nil
	})
	arrived := make(chan arrivedAt, 100)
	c, err := consumer.Consume(func(m jetstream.Msg) { arrived <- arrivedAt{m, time.Now()} })
	must(b, err)
	b.Cleanup(c.Stop)
	return arrived
}

// limit does nothing but commit and publish.
type limit struct {
	store   *store.Store
	js      jetstream.JetStream
	arrived <-chan arrivedAt
	done    int
}

func newLimit(b *testing.B) *limit {
	b.Helper()
	dir := doorbelltest.ShortDir(b)
	prepare(b, dir, "http://127.0.0.1:1", latencyStore)
	s, err := store.Open(store.Options{Dir: dir})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	server, err := natsd.Start(b.Context(), natsd.Options{StoreDir: dir + "/jetstream", Listen: "127.0.0.1:0"})
	must(b, err)
	b.Cleanup(server.Shutdown)
	nc, err := server.Connect("limit")
	must(b, err)
	js, err := jetstream.New(nc)
	must(b, err)
	o := relay.Options{Stream: "LISTINGS", Prefix: "listings", StoreID: s.ID(), MaxAge: 720 * time.Hour, MaxBytes: 4 << 30}
	_, err = js.CreateStream(b.Context(), o.StreamConfig())
	must(b, err)
	return &limit{store: s, js: js, arrived: consume(b, server.ClientURL(), "listings.>")}
}

// once commits and publishes a message, and returns how long it took to arrive.
func (l *limit) once(b *testing.B, m jetstream.Msg) time.Duration {
	b.Helper()
	l.done++
	began := time.Now()
	err := l.store.Update(func(tx *store.Tx) error { return tx.PutRecord("B200", strconv.Itoa(l.done), m.Data()) })
	if err == nil {
		_, err = l.js.PublishMsg(context.Background(), &nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	}
	must(b, err)
	return (<-l.arrived).at.Sub(began)
}
