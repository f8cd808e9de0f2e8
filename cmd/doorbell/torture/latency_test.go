package torture

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"

	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkLatency measures what doorbell takes from the answer with a new contact request to its event at a subscriber.
// Beside it, in the same run and turn by turn, what cannot be had for less: one commit and one delivery.
//
// ours begins when the last byte of the answer has been written to the connection, which on loopback is when it can be
// read: the moment of "response received" as it can be known from outside. So it holds that doorbell wakes up, net/http
// reads the answer, doorbell decodes and compares it, one commit of the store, the relay, one publish with the stream's
// fsync, and the way through TCP to an ordered consumer in another process. history is how many contact requests an
// insertion had before: 5 are 2 KB and become 10 in 250 turns; of 20 and more an answer shows 20, in 8 KB.
//
// limit begins in another process just before a commit of one message into a store of the same size, opened as doorbell
// opens it, and goes on with a publish of the very same message to a server that is started as doorbell starts it, on a
// stream of the same configuration. It ends as ours does, at an ordered consumer in this process. Before it stands a pause as
// long as ours had to be waited for: after an idle tenth of a second a disk and a processor take longer than at once.
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
	prepare(b, dir, server.URL, latencyStore) // of A100, which nobody watches
	p := doorbelltest.Launch(b, append(doorbelltest.RunEnviron(dir, server.URL, doorbelltest.TestKey, "B200"), "DOORBELL_WALK_INTERVAL=1h", "DOORBELL_POLL_INTERVAL=250ms"), "run")
	b.Cleanup(func() { p.Stop(b) })
	arrived := consume(b, doorbelltest.NatsURL(b, dir), "listings.v1.*.contact_request.created")
	limit := startLimit(b)
	for range growingInsertions { // until all are watched, and both are warm
		limit.once(b, answers.next(b, arrived).m)
	}

	var ours, theirs []time.Duration
	for range b.N {
		asked := time.Now()
		a := answers.next(b, arrived)
		ours = append(ours, a.took)
		time.Sleep(time.Since(asked))
		theirs = append(theirs, limit.once(b, a.m))
	}
	percentiles(b, "ours", ours)
	percentiles(b, "limit", theirs)
	b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "times")
	b.ReportMetric(0, "ns/op")
}

// latencyStore is how many insertions stand in the store beside those that are watched, growingInsertions how many those
// are, and growingShown how many contact requests an answer shows at the most.
const (
	latencyStore      = 10_000
	growingInsertions = 50
	growingShown      = 20
)

func percentiles(b *testing.B, name string, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(float64(median(all).Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-µs")
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// growing is an API whose insertions get a contact request, one after the other, whenever it is told to.
type growing struct {
	began   time.Time
	history int
	sent    chan time.Time // when an answer with a new one has been written

	mu    sync.Mutex
	last  int
	count [growingInsertions]int
	shown [growingInsertions]int
}

func newGrowing(history int) *growing {
	g := &growing{history: history, began: time.Now().Add(-time.Minute), sent: make(chan time.Time, 1)}
	for n := range g.count {
		g.count[n], g.shown[n] = history, history
	}
	return g
}

// delivery is a message at a subscriber, and how long it was on its way.
type delivery struct {
	m    jetstream.Msg
	took time.Duration
}

// next makes a contact request and waits for its event.
func (g *growing) next(b *testing.B, arrived <-chan arrivedAt) delivery {
	b.Helper()
	g.mu.Lock()
	g.last = (g.last + 1) % growingInsertions
	g.count[g.last]++
	g.mu.Unlock()
	deadline := time.After(doorbelltest.Patience)
	var sent time.Time
	for {
		select {
		case sent = <-g.sent:
		case a := <-arrived:
			if sent.IsZero() {
				sent = <-g.sent // it was faster than we
			}
			return delivery{a.m, a.at.Sub(sent)}
		case <-deadline:
			b.Fatal("no event")
		}
	}
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.EscapedPath(); strings.HasSuffix(path, "/insertions") {
		answer(w, g.list())
		return
	}
	object := -1
	_, _ = fmt.Sscanf(r.URL.Path[strings.LastIndexByte(r.URL.Path, '#')+1:], "%d", &object)
	if object < 0 || object >= growingInsertions {
		http.NotFound(w, r)
		return
	}
	g.mu.Lock()
	count, news := g.count[object], g.count[object] > g.shown[object]
	g.shown[object] = count
	g.mu.Unlock()
	at := answer(w, g.contactRequests(object, count))
	if news {
		g.sent <- at
	}
}

// answer writes a whole answer to the connection and says when that was done.
func answer(w http.ResponseWriter, body string) time.Time {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body))
	_ = http.NewResponseController(w).Flush()
	return time.Now()
}

func (g *growing) list() string {
	items := make([]string, growingInsertions)
	for n := range items {
		items[n] = fmt.Sprintf(cheapInsertion, n)
	}
	return fmt.Sprintf(`{"items":[%s],"total":%d}`, strings.Join(items, ","), len(items))
}

var growingContactRequest = strings.Replace(cheapContactRequest, `"2026-02-%[4]dT10:41:07+0100"`, `%[4]q`, 1)

func (g *growing) contactRequests(object, count int) string {
	var rows []string
	for n := count; n > max(count-growingShown, 0); n-- {
		at := time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
		if n > g.history {
			at = g.began.Add(time.Duration(n) * time.Millisecond).UTC() // the same in every answer
		}
		rows = append(rows, fmt.Sprintf(growingContactRequest, n, n, object, at.Format(time.RFC3339Nano)))
	}
	return fmt.Sprintf(`{"contactRequests":[%s],"total":%d}`, strings.Join(rows, ","), count)
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
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	return arrived
}
