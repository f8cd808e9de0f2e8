package poller_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/store"
)

// What a sweep costs in which nothing has happened: 10,000 insertions and the pages of their list, over loopback, 8 at a
// time, against a bare net/http loop that reads and discards the same bodies in the same mixture, and against the script
// that somebody would write instead. Only the CPU of the client counts, and only the ratios say something.
//
//	go test ./poller -run '^$' -bench Sweep -benchtime 1x

var (
	sweepRounds = flag.Int("sweep.rounds", 5, "rounds of each benchmark of sweeps, of which the medians count")
	sweepCount  = flag.Int("sweep.insertions", 10_000, "insertions of a sweep")
)

const (
	sweepWorkers  = 8
	sweepPageSize = listings.PageSize
)

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
		n := s.naive()
		own, script = append(own, p.each()/l.each()), append(script, n.each()/l.each())
		loops, polls = append(loops, l.each()), append(polls, p.each())
		b.Logf("poller %v, loop %v, script %v", p, l, n)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(own), "poller/loop")
	b.ReportMetric(median(script), "script/loop")
	b.ReportMetric(median(loops), "loop-µs/request")
	b.ReportMetric(median(polls), "poller-µs/request")
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
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

// sweep is a server and those who ask it.
type sweep struct {
	b      *testing.B
	base   string
	own    *countingTransport // of the poller
	plain  *countingTransport // of net/http, of the others
	store  *store.Store
	poller *poller.Poller
	script *naive
	events uint64
}

func newSweep(b *testing.B, packed bool) *sweep {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	base, trusts := startSweepServer(b, packed)
	s := &sweep{b: b, base: base}
	own := listings.NewTransport(0, nil)
	own.TLSClientConfig.RootCAs = trusts.RootCAs
	s.own = newCounting(own)
	s.plain = newCounting(&http.Transport{
		MaxConnsPerHost: sweepWorkers, MaxIdleConnsPerHost: sweepWorkers, DisableCompression: !packed, ForceAttemptHTTP2: true, TLSClientConfig: trusts,
	})
	dir := b.TempDir()
	var err error
	if s.store, err = store.Open(store.Options{Dir: dir, BaseURL: s.base}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.store.Close() })
	s.poller, err = poller.New(poller.Options{
		Store: s.store, API: listings.Options{BaseURL: s.base, Transport: s.own},
		Agencies:          []poller.AgencyKeys{{ID: sweepAgency, Key: listings.NewKey(testKey)}},
		RequestsPerSecond: 1e6, PollInterval: time.Nanosecond, WalkInterval: 2 * time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	s.script = &naive{
		client: &http.Client{Transport: s.plain}, base: s.base, key: testKey, file: filepath.Join(dir, "seen.json"),
		seen: map[string]bool{},
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
	if err := s.script.sweep(sweepAgency, sweepPageSize, sweepWorkers); err != nil {
		s.b.Fatal(err)
	}
}

func (s *sweep) lastPosition() uint64 {
	last, err := s.store.LastPosition()
	if err != nil {
		s.b.Fatal(err)
	}
	return last
}

// poll lets the poller run until it has asked for the contact requests of so many insertions.
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

// loop asks for the same bodies, so many of both kinds, and discards them.
func (s *sweep) loop(polls, pages int) cost {
	client := &http.Client{Transport: s.plain}
	lists := (*sweepCount+sweepPageSize-1)/sweepPageSize + 1
	var next atomic.Int64
	get := func(path string) {
		req, err := http.NewRequest(http.MethodGet, s.base+path, nil)
		if err != nil {
			s.b.Error(err)
			return
		}
		req.Header.Set("Authorization", "ApiKey "+testKey)
		resp, err := client.Do(req)
		if err != nil {
			s.b.Error(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return s.measure(s.plain, func() {
		var all sync.WaitGroup
		for range sweepWorkers {
			all.Go(func() {
				for n := int(next.Add(1)) - 1; n < polls+pages; n = int(next.Add(1)) - 1 {
					if before, now := n*pages/(polls+pages), (n+1)*pages/(polls+pages); now > before {
						get(fmt.Sprintf("/insertion-funnel/integration/%s/insertions?pageSize=%d&page=%d", sweepAgency, sweepPageSize, before%lists+1))
					} else {
						get("/ubm-contact-request/property/" + url.PathEscape(sweepReference(n%*sweepCount)) + "?numberOfItemsPerPage=20&sortBy=createdAt&sortOrder=desc")
					}
				}
			})
		}
		all.Wait()
	})
}

func (s *sweep) naive() cost {
	return s.measure(s.plain, func() {
		if err := s.script.sweep(sweepAgency, sweepPageSize, sweepWorkers); err != nil {
			s.b.Fatal(err)
		}
	})
}

func (s *sweep) measure(t *countingTransport, do func()) cost {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	t.after(-1, func() {})
	began := cpuTime(s.b)
	do()
	return cost{cpu: cpuTime(s.b) - began, polls: int(t.polls.Load()), pages: int(t.pages.Load())}
}

func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// countingTransport counts requests. Whoever asks through it has so many under way at once as it has places.
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

// after begins to count anew, and calls reached after so many polls.
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
