package torture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/listings/listingstest"
	"doorbell/store"
)

// BenchmarkResident runs the program as a user would, with embedded NATS, against an API in another
// process, through the first sweep over all insertions and a part of the next, for a minute at
// least, and starts it again on the store that it left.
//
// Reported in MB as Linux counts them: resident is VmRSS and peak VmHWM; of resident, anon is
// memory, program and store are the pages of these files that are mapped and could be dropped at
// any moment. start is the time from the start of the process to its first request.
//
//	go test ./cmd/doorbell/torture -run '^$' -bench 'Resident/insertions=10000$/silent' -benchtime 1x
//	go test ./cmd/doorbell/torture -run '^$' -bench 'Resident/insertions=100000/silent' -benchtime 1x -timeout 60m
func BenchmarkResident(b *testing.B) {
	for _, insertions := range []int{10_000, 100_000} {
		for _, baseline := range []string{"silent", "emit"} {
			b.Run(fmt.Sprintf("insertions=%d/%s", insertions, baseline), func(b *testing.B) {
				for range b.N {
					benchmarkResident(b, insertions, baseline)
				}
			})
		}
	}
}

func benchmarkResident(b *testing.B, insertions int, baseline string) {
	m := newMeasured(b, insertions, "DOORBELL_BASELINE="+baseline, "DOORBELL_POLL_INTERVAL=1ms",
		"DOORBELL_WALK_INTERVAL=1m", "DOORBELL_STREAM_MAX=16GiB")
	began, _ := m.start()
	pages := insertions / listingstest.MarketPage
	sweep := m.await(pages, insertions+insertions/10).Sub(began)
	first := m.memory()
	_, polls := m.Counts(b)
	m.await(2*pages, polls+insertions/4)
	time.Sleep(time.Until(began.Add(time.Minute))) // and what the collector gives back by itself
	m.report()
	m.daemon.Stop(b)

	_, start := m.start()
	_, polls = m.Counts(b)
	m.await(0, polls+min(insertions/2, 20_000))
	again := m.memory()
	m.daemon.Stop(b)
	file, err := os.Stat(filepath.Join(m.dir, daemon.StoreFile))
	must(b, err)
	b.ReportMetric(first["VmHWM"], "peak-MB")
	b.ReportMetric(again["VmRSS"], "restarted-MB")
	b.ReportMetric(start.Seconds(), "start-s")
	b.ReportMetric(sweep.Seconds(), "sweep-s")
	b.ReportMetric(float64(file.Size())/1e6, "file-MB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStart measures how long the program takes from its start to its first request, with a
// store of 100,000 insertions that were all read before, and what is resident after some polls.
//
//	go test ./cmd/doorbell/torture -run '^$' -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const insertions = 100_000
	m := newMeasured(b, insertions, "DOORBELL_WALK_INTERVAL=1h", "DOORBELL_POLL_INTERVAL=1m")
	prepare(b, m.dir, m.URL, insertions)
	var all time.Duration
	for range b.N {
		_, polls := m.Counts(b)
		_, took := m.start()
		all += took
		m.await(0, polls+1000)
		m.report()
		m.daemon.Stop(b)
	}
	b.ReportMetric(all.Seconds()/float64(b.N), "start-s")
	b.ReportMetric(0, "ns/op")
}

// measured is a daemon whose memory and start are measured.
type measured struct {
	listingstest.Market
	b       *testing.B
	dir     string
	environ []string
	daemon  *doorbelltest.Child
}

func newMeasured(b *testing.B, insertions int, settings ...string) *measured {
	b.Helper()
	m := &measured{Market: listingstest.StartMarket(b, insertions, false), b: b, dir: doorbelltest.ShortDir(b)}
	m.environ = append(doorbelltest.RunEnviron(m.dir, m.URL, doorbelltest.TestKey, "A100"), settings...)
	return m
}

// start starts it, and returns when that was and how long it took to its first request.
func (m *measured) start() (began time.Time, took time.Duration) {
	m.b.Helper()
	pages, polls := m.Counts(m.b)
	began = time.Now()
	m.daemon = doorbelltest.Launch(m.b, m.environ, "run")
	return began, m.awaitCounts(5*time.Millisecond, func(gotPages, gotPolls int) bool {
		return gotPages+gotPolls > pages+polls
	}).Sub(began)
}

// await waits for the given numbers of requests for pages and polls, and returns when they were reached.
func (m *measured) await(pages, polls int) time.Time {
	m.b.Helper()
	return m.awaitCounts(100*time.Millisecond, func(gotPages, gotPolls int) bool {
		return gotPages >= pages && gotPolls >= polls
	})
}

func (m *measured) awaitCounts(every time.Duration, enough func(pages, polls int) bool) time.Time {
	m.b.Helper()
	for deadline := time.Now().Add(30 * time.Minute); time.Now().Before(deadline); time.Sleep(every) {
		if enough(m.Counts(m.b)) {
			return time.Now()
		}
	}
	m.b.Fatal("too slow")
	return time.Time{}
}

// report reports what is resident now.
func (m *measured) report() {
	found := m.memory()
	m.b.ReportMetric(found["VmRSS"], "resident-MB")
	m.b.ReportMetric(found["RssAnon"], "anon-MB")
	m.b.ReportMetric(found["program"], "program-MB")
	m.b.ReportMetric(found["store"], "store-MB")
}

// memory is what /proc reports of it, in MB, and whose pages of files are in memory: the program's
// and the store's.
func (m *measured) memory() map[string]float64 {
	m.b.Helper()
	found := memoryOf(m.b, m.daemon)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", m.daemon.Cmd.Process.Pid))
	if err != nil {
		m.b.Skip("there is no /proc here")
	}
	whose := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch {
		case !strings.HasSuffix(f[0], ":"): // the first line of a mapping
			whose = map[string]string{filepath.Base(m.daemon.Cmd.Path): "program", daemon.StoreFile: "store"}[filepath.Base(f[len(f)-1])]
		case f[0] == "Rss:":
			found[whose] += kb * 1024 / 1e6
		case f[0] == "Anonymous:":
			found[whose] -= kb * 1024 / 1e6
		}
	}
	return found
}

// memoryOf are the sizes in the status of a process, in MB; none where there is no /proc.
func memoryOf(tb testing.TB, p *doorbelltest.Child) map[string]float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		tb.Log("there is no /proc here")
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			found[strings.TrimSuffix(f[0], ":")] = kb * 1024 / 1e6
		}
	}
	return found
}

// prepare makes a store of insertions that are watched and were polled.
func prepare(b *testing.B, dir, baseURL string, insertions int) {
	b.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	must(b, err)
	now := time.Now().UTC()
	state := store.Agency{WatchStart: now.Add(-time.Hour), Baselined: true, CompleteWalks: 9, LastCompleteWalk: now}
	for from := 0; from < insertions && err == nil; from += 1000 {
		err = s.Update(func(tx *store.Tx) error {
			for n := from; n < from+1000; n++ {
				i := store.Insertion{
					Reference: listingstest.MarketReference(n), Episode: 1, FirstSeen: now.Add(-time.Hour), Baseline: true,
					Start: now.Add(-time.Hour), Polled: true, LastPoll: now.Add(-time.Minute), Epoch: 1,
				}
				record := []byte(listingstest.MarketInsertion(n))
				if err := errors.Join(tx.PutInsertion("A100", i), tx.PutRecord("A100", i.Reference, record)); err != nil {
					return err
				}
			}
			return tx.PutAgency("A100", state)
		})
	}
	must(b, errors.Join(err, s.Close()))
}
