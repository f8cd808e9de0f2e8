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
	"doorbell/store"
)

// BenchmarkResident runs the program as a user would, with embedded NATS, against an API in another process, through the
// first sweep over all insertions and a part of the next, for a minute at least, and starts it once more on the store that it
// left.
//
// Reported in MB as Linux counts them: resident is VmRSS and peak VmHWM; of resident, anon is memory, program and store are
// the pages of these files that are mapped and could be dropped at any moment. start is the time from the start of the process
// to its first request.
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
	api := startCheapAPI(b, insertions)
	dir := doorbelltest.ShortDir(b)
	environ := append(doorbelltest.RunEnviron(dir, api.url, doorbelltest.TestKey, "A100"), "DOORBELL_BASELINE="+baseline, "DOORBELL_POLL_INTERVAL=1ms",
		"DOORBELL_WALK_INTERVAL=1m", "DOORBELL_STREAM_MAX=16GiB")
	p := doorbelltest.Launch(b, environ, "run")
	began := time.Now()
	sweep := awaitRequests(b, api, insertions/cheapPageSize, insertions+insertions/10).Sub(began)
	first := memoryOf(b, p)
	_, polls := api.counts(b)
	awaitRequests(b, api, 2*insertions/cheapPageSize, polls+insertions/4)
	time.Sleep(time.Until(began.Add(time.Minute))) // and what the collector gives back by itself
	steady := memoryOf(b, p)
	p.Stop(b)

	pages, polls := api.counts(b)
	began = time.Now()
	p = doorbelltest.Launch(b, environ, "run")
	start := awaitRequest(b, api, pages+polls).Sub(began)
	_, polls = api.counts(b)
	awaitRequests(b, api, 0, polls+min(insertions/2, 20_000))
	again := memoryOf(b, p)
	p.Stop(b)

	reportMemory(b, steady)
	b.ReportMetric(first["VmHWM"], "peak-MB")
	b.ReportMetric(again["VmRSS"], "restarted-MB")
	b.ReportMetric(start.Seconds(), "start-s")
	b.ReportMetric(sweep.Seconds(), "sweep-s")
	b.ReportMetric(fileMB(b, filepath.Join(dir, daemon.StoreFile)), "file-MB")
	b.ReportMetric(0, "ns/op")
}

func reportMemory(b *testing.B, found map[string]float64) {
	b.ReportMetric(found["VmRSS"], "resident-MB")
	b.ReportMetric(found["RssAnon"], "anon-MB")
	b.ReportMetric(found["program"], "program-MB")
	b.ReportMetric(found["store"], "store-MB")
}

// awaitRequests waits until so many pages and polls were asked for, and returns when that was.
func awaitRequests(b *testing.B, api cheapAPI, pages, polls int) time.Time {
	b.Helper()
	for deadline := time.Now().Add(30 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if gotPages, gotPolls := api.counts(b); gotPages >= pages && gotPolls >= polls {
			return time.Now()
		}
	}
	b.Fatal("too slow")
	return time.Time{}
}

// awaitRequest waits for the first request after so many.
func awaitRequest(b *testing.B, api cheapAPI, after int) time.Time {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if pages, polls := api.counts(b); pages+polls > after {
			return time.Now()
		}
	}
	b.Fatal("no request")
	return time.Time{}
}

// memoryOf is what /proc tells of a process, in MB.
func memoryOf(b *testing.B, p *doorbelltest.Child) map[string]float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		b.Skip("there is no /proc here")
	}
	found := megabytes(string(text))
	addMappings(b, p, found)
	return found
}

// megabytes are the sizes in the status of a process.
func megabytes(status string) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			found[strings.TrimSuffix(f[0], ":")] = kb * 1024 / 1e6
		}
	}
	return found
}

// addMappings tells whose pages of files are in memory: the program's and the store's.
func addMappings(b *testing.B, p *doorbelltest.Child, found map[string]float64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", p.Cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	whose := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch {
		case !strings.HasSuffix(f[0], ":"): // the first line of a mapping
			whose = map[string]string{filepath.Base(p.Cmd.Path): "program", daemon.StoreFile: "store"}[filepath.Base(f[len(f)-1])]
		case f[0] == "Rss:":
			found[whose] += kb * 1024 / 1e6
		case f[0] == "Anonymous:":
			found[whose] -= kb * 1024 / 1e6
		}
	}
}

func fileMB(b *testing.B, path string) float64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// BenchmarkStart measures how long the program takes from its start to its first request, with a store of 100,000 insertions
// that were all read before, and what is resident after some polls.
//
//	go test ./cmd/doorbell/torture -run '^$' -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const insertions = 100_000
	api := startCheapAPI(b, insertions)
	dir := doorbelltest.ShortDir(b)
	prepare(b, dir, api.url, insertions)
	var all time.Duration
	var memory map[string]float64
	for range b.N {
		pages, polls := api.counts(b)
		began := time.Now()
		p := doorbelltest.Launch(b, append(doorbelltest.RunEnviron(dir, api.url, doorbelltest.TestKey, "A100"), "DOORBELL_WALK_INTERVAL=1h", "DOORBELL_POLL_INTERVAL=1m"), "run")
		all += awaitRequest(b, api, pages+polls).Sub(began)
		awaitRequests(b, api, 0, polls+1000)
		memory = memoryOf(b, p)
		p.Stop(b)
	}
	b.ReportMetric(all.Seconds()/float64(b.N), "start-s")
	reportMemory(b, memory)
	b.ReportMetric(0, "ns/op")
}

// prepare makes a store of insertions that are watched and were polled.
func prepare(b *testing.B, dir, baseURL string, insertions int) {
	b.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UTC()
	state := store.Agency{WatchStart: now.Add(-time.Hour), Baselined: true, CompleteWalks: 9, LastCompleteWalk: now}
	for from := 0; from < insertions && err == nil; from += 1000 {
		err = s.Update(func(tx *store.Tx) error {
			for n := from; n < from+1000; n++ {
				i := store.Insertion{
					Reference: fmt.Sprintf("seefeld1#1203#H2#%d", n), Episode: 1, FirstSeen: now.Add(-time.Hour), Baseline: true,
					Start: now.Add(-time.Hour), Polled: true, LastPoll: now.Add(-time.Minute), Epoch: 1,
				}
				record := fmt.Appendf(nil, cheapInsertion, n)
				if err := errors.Join(tx.PutInsertion("A100", i), tx.PutRecord("A100", i.Reference, record)); err != nil {
					return err
				}
			}
			return tx.PutAgency("A100", state)
		})
	}
	if err := errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
}
