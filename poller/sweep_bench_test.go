package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/listings/listingstest"
	"doorbell/store"
)

var (
	sweepRounds = flag.Int("sweep.rounds", 5, "rounds of each benchmark of sweeps, of which the medians count")
	sweepCount  = flag.Int("sweep.insertions", 10_000, "insertions of a sweep")
)

const sweepWorkers = 8

// BenchmarkSweep measures what a sweep costs in which nothing has happened: 10,000 insertions and
// the pages of their list, over loopback, 8 at a time, against a bare net/http loop that reads and
// discards the same bodies in the same mixture, and against the script that one would write
// instead. Only the CPU of the client counts, and only the ratios mean something.
//
//	go test ./poller -run '^$' -bench Sweep -benchtime 1x
func BenchmarkSweep(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkSweep(b, false) })
	b.Run("packed", func(b *testing.B) { benchmarkSweep(b, true) })
}

func benchmarkSweep(b *testing.B, packed bool) {
	s := newSweep(b, packed)
	var own, script, loops, polls []float64
	for range *sweepRounds {
		p := s.poll(*sweepCount)
		l := s.loop(p.polls, p.pages)
		n := s.measure(s.plain, s.script)
		own, script = append(own, p.each()/l.each()), append(script, n.each()/l.each())
		loops, polls = append(loops, l.each()), append(polls, p.each())
		b.Logf("poller %v, loop %v, script %v", p, l, n)
	}
	b.ReportMetric(0, "ns/op")
	for unit, list := range map[string][]float64{
		"poller/loop": own, "script/loop": script, "loop-µs/request": loops, "poller-µs/request": polls,
	} {
		b.ReportMetric(slices.Sorted(slices.Values(list))[len(list)/2], unit)
	}
}

// cost is the CPU time of some requests.
type cost struct {
	cpu          time.Duration
	polls, pages int
}

// each is microseconds of a request.
func (c cost) each() float64 { return float64(c.cpu.Microseconds()) / float64(c.polls+c.pages) }

func (c cost) String() string {
	return fmt.Sprintf("%.1f µs/request (%d polls, %d pages)", c.each(), c.polls, c.pages)
}

// sweep is a server and its clients.
type sweep struct {
	b      *testing.B
	base   string
	own    *countingTransport // of the poller
	plain  *countingTransport // of net/http, of the others
	store  *store.Store
	poller *poller.Poller
	events uint64

	mu   sync.Mutex
	seen map[string]bool // by the script
	file string          // in which it remembers that
}

func newSweep(b *testing.B, packed bool) *sweep {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	market, dir := listingstest.StartMarket(b, *sweepCount, packed), b.TempDir()
	s := &sweep{b: b, base: market.URL, seen: map[string]bool{}, file: filepath.Join(dir, "seen.json")}
	own := listings.NewTransport(0, nil)
	own.TLSClientConfig.RootCAs = market.TLS.RootCAs
	s.own = newCounting(own)
	s.plain = newCounting(&http.Transport{
		MaxConnsPerHost: sweepWorkers, MaxIdleConnsPerHost: sweepWorkers, DisableCompression: !packed,
		ForceAttemptHTTP2: true, TLSClientConfig: market.TLS,
	})
	var err error
	if s.store, err = store.Open(store.Options{Dir: dir, BaseURL: s.base}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.store.Close() })
	s.poller, err = poller.New(poller.Options{
		Store: s.store, API: listings.Options{BaseURL: s.base, Transport: s.own},
		Agencies:          []poller.AgencyKeys{keyed("A100", testKey)},
		RequestsPerSecond: 1e6, PollInterval: time.Nanosecond, WalkInterval: 2 * time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	s.warm()
	return s
}

// warm sweeps until everything is known.
func (s *sweep) warm() {
	began := time.Now()
	for baselined := false; !baselined; {
		s.poll(2 * *sweepCount)
		a := s.poller.Status().Agencies[0]
		baselined = a.State == "watching" && a.Insertions == *sweepCount && a.Freshness.NeverPolled == 0
		if time.Since(began) > 20*time.Minute {
			s.b.Fatalf("not ready: %+v", a)
		}
	}
	s.poll(2 * *sweepCount)
	s.events = s.lastPosition()
	s.script()
}

func (s *sweep) lastPosition() uint64 {
	last, err := s.store.LastPosition()
	if err != nil {
		s.b.Fatal(err)
	}
	return last
}

// poll runs the poller until it has requested the contact requests of n insertions.
func (s *sweep) poll(count int) cost {
	if s.events != 0 && s.lastPosition() != s.events {
		s.b.Fatal("something has changed")
	}
	ctx, cancel := context.WithCancel(s.b.Context())
	defer cancel()
	return s.measure(s.own, func() {
		s.own.after(count, cancel)
		if err := s.poller.Run(ctx); err != nil {
			s.b.Fatal(err)
		}
	})
}

// ask sends a request as a plain client does.
func (s *sweep) ask(path string, read func(io.Reader) error) error {
	req, err := http.NewRequest(http.MethodGet, s.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "ApiKey "+testKey)
	resp, err := (&http.Client{Transport: s.plain}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp.Body)
}

func sweepPage(page int) string {
	return fmt.Sprintf("/insertion-funnel/integration/A100/insertions?pageSize=%d&page=%d", listings.PageSize, page)
}

func sweepPoll(reference string) string {
	return "/ubm-contact-request/property/" + url.PathEscape(reference) + "?numberOfItemsPerPage=20&sortBy=createdAt&sortOrder=desc"
}

// loop requests the same bodies, as many of both kinds, and discards them.
func (s *sweep) loop(polls, pages int) cost {
	lists := (*sweepCount+listings.PageSize-1)/listings.PageSize + 1
	discard := func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	var next atomic.Int64
	return s.measure(s.plain, func() {
		var all errgroup.Group
		for range sweepWorkers {
			all.Go(func() (err error) {
				for n := int(next.Add(1)) - 1; n < polls+pages && err == nil; n = int(next.Add(1)) - 1 {
					path := sweepPoll(listingstest.MarketReference(n % *sweepCount))
					if before, now := n*pages/(polls+pages), (n+1)*pages/(polls+pages); now > before {
						path = sweepPage(before%lists + 1)
					}
					err = s.ask(path, discard)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			s.b.Fatal(err)
		}
	})
}

// decoded reads a page of records as a script would.
func decoded[T any](s *sweep, path string) ([]T, error) {
	var page struct{ Results []T }
	err := s.ask(path, func(r io.Reader) error { return json.NewDecoder(r).Decode(&page) })
	return page.Results, err
}

// script is what one would write instead: ask for everything, and remember the ids that were
// seen in a file of JSON.
func (s *sweep) script() {
	type insertion struct{ PropertyReferenceID string }
	type request struct{ ID, CreatedAt, Email, Message string }
	before := len(s.seen)
	var polls errgroup.Group
	polls.SetLimit(sweepWorkers)
	list, err := decoded[insertion](s, sweepPage(1))
	for page := 2; len(list) > 0 && err == nil; page++ {
		for _, i := range list {
			polls.Go(func() error {
				all, err := decoded[request](s, sweepPoll(i.PropertyReferenceID))
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, r := range all {
					s.seen[r.ID] = true
				}
				return err
			})
		}
		list, err = decoded[insertion](s, sweepPage(page))
	}
	if err = errors.Join(err, polls.Wait()); err == nil && len(s.seen) > before {
		var text []byte
		if text, err = json.Marshal(s.seen); err == nil {
			err = os.WriteFile(s.file, text, 0o600)
		}
	}
	if err != nil {
		s.b.Fatal(err)
	}
}

func (s *sweep) measure(t *countingTransport, do func()) cost {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	t.after(-1, func() {})
	began := s.cpuTime()
	do()
	return cost{cpu: s.cpuTime() - began, polls: int(t.polls.Load()), pages: int(t.pages.Load())}
}

func (s *sweep) cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		s.b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// countingTransport counts requests, and limits how many are under way at the same time to its
// places.
type countingTransport struct {
	http.RoundTripper
	places       chan struct{}
	polls, pages atomic.Int64
	limit        int64
	reached      func()
}

func newCounting(under http.RoundTripper) *countingTransport {
	return &countingTransport{RoundTripper: under, places: make(chan struct{}, sweepWorkers)}
}

// after starts counting again, and calls reached after n polls.
func (t *countingTransport) after(polls int, reached func()) {
	t.polls.Store(0)
	t.pages.Store(0)
	t.limit, t.reached = int64(polls), reached
}

func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/ubm-contact-request/") {
		t.pages.Add(1)
	} else if t.polls.Add(1) == t.limit {
		t.reached()
	}
	t.places <- struct{}{}
	defer func() { <-t.places }()
	return t.RoundTripper.RoundTrip(r)
}
