package torture

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
	"doorbell/schemas/skiptest"
)

// smallDisk mounts a file system of its own at a folder, so that it can be full. It takes root.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		skiptest.Skipf(t, "a small disk cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// fill takes all space that is left, and returns how to give it back.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

// busy is an API in this process where much happens, a daemon that watches it, and the oracle that judges.
type busy struct {
	t       *testing.T
	dir     string
	environ []string
	daemon  *doorbelltest.Child
	oracle  doorbelltest.Oracle
	rest    func() // ends what happens at the API
}

func newBusy(t *testing.T, dir string) *busy {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	agencies := []string{"A100", "B200"}
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{
		Seed: 1, Agencies: agencies, Insertions: 30, History: 3, ContactRequestsPerMinute: 1500, ChangesPerMinute: 150,
	})
	g.Seed()
	model.AddKey(doorbelltest.TestKey, agencies...)
	api := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(api.Close)
	// After minutes of a full disk so much has changed that it is held as too large to believe. Fifty requests a second poll the 60
	// insertions as often as is needed.
	environ := append(doorbelltest.RunEnviron(dir, api.URL, doorbelltest.TestKey, agencies...), "DOORBELL_HOLD_FOR=2s", "DOORBELL_REQUESTS_PER_SECOND=50")
	b := &busy{t: t, dir: dir, environ: environ, oracle: doorbelltest.Oracle{Model: model, From: time.Now().Truncate(time.Second)}}
	b.launch()
	doorbelltest.NatsURL(t, dir)
	b.oracle.Until = time.Now()
	moving, stop := context.WithCancel(t.Context())
	var world sync.WaitGroup
	world.Go(func() { g.Run(moving) })
	b.rest = func() { stop(); world.Wait() }
	t.Cleanup(b.rest)
	return b
}

func (b *busy) launch() { b.daemon = doorbelltest.Launch(b.t, b.environ, "run") }

func (b *busy) status() ops.Status {
	b.t.Helper()
	s, err := ops.NewClient(filepath.Join(b.dir, daemon.SocketFile)).Status(b.t.Context())
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.daemon.Stderr.String())
	}
	return s
}

// waiting is how many events of all agencies are not in the stream.
func waiting(s ops.Status) (n uint64) {
	for _, r := range s.Relay {
		n += r.Pending
	}
	return n
}

// keepsItsPromises brings the API to rest and judges the stream. The guest connects anew: the server was restarted.
func (b *busy) keepsItsPromises() {
	b.t.Helper()
	b.rest()
	all := b.oracle.MustKeepItsPromises(b.t, doorbelltest.NatsURL(b.t, b.dir), doorbelltest.Patience)
	b.daemon.Stop(b.t)
	doorbelltest.HoldsNobody(b.t, b.daemon.Stderr.String())
	b.t.Logf("%d events", len(all))
}

// TestAFullDiskLosesAndDoublesNothing lets supervisors start it again until there is space.
func TestAFullDiskLosesAndDoublesNothing(t *testing.T) {
	runsByName(t)
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	smallDisk(t, dir, "48m")
	b := newBusy(t, dir)
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, dir))
	sub.Baselined(t, "A100", "B200")
	empty := fill(t, dir)
	if code := b.daemon.Exit(t); code != exit.CodeIO {
		t.Errorf("it ends with %d", code)
	}
	doorbelltest.Has(t, b.daemon.Stderr.String(), "no space left", "make space on the disk")
	asked := b.oracle.Model.Requests(sandbox.Filter{})
	for range 3 {
		b.launch()
		if code := b.daemon.Exit(t); code != exit.CodeIO {
			t.Errorf("a start on a full disk ends with %d", code)
		}
		doorbelltest.HoldsNobody(t, b.daemon.Stderr.String())
	}
	if n := b.oracle.Model.Requests(sandbox.Filter{}) - asked; n > 0 {
		t.Errorf("%d requests on a full disk", n)
	}
	empty()
	b.launch()
	doorbelltest.Within(t, 90*time.Second, "polling goes on and everything is published", func() bool {
		return b.oracle.Model.Requests(sandbox.Filter{}) > asked+20 && waiting(b.status()) < 200
	})
	b.keepsItsPromises()
}

func TestAFullDiskOfTheStreamAloneStopsNoPolling(t *testing.T) {
	runsByName(t)
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	smallDisk(t, filepath.Join(dir, daemon.StreamFolder), "16m")
	b := newBusy(t, dir)
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, dir)).Baselined(t, "A100", "B200")
	empty := fill(t, filepath.Join(dir, daemon.StreamFolder))
	doorbelltest.Within(t, time.Minute, "the stream's disk is said to be full", func() bool {
		return strings.Contains(b.status().NATS.Problem, "no space left")
	})
	from := b.status()
	doorbelltest.Within(t, time.Minute, "polling goes on and the log grows", func() bool {
		s := b.status()
		return waiting(s) > waiting(from)+100 && s.Watch.Requests > from.Watch.Requests+200
	})
	empty()
	doorbelltest.Within(t, 90*time.Second, "what waited is published", func() bool {
		s := b.status()
		return s.NATS.Problem == "" && waiting(s) < 50
	})
	b.keepsItsPromises()
	for line, most := range map[string]int{"takes no events": 1, "failed to store a msg": 2, "is restarted": 1} {
		if n := strings.Count(b.daemon.Stderr.String(), line); n > most {
			t.Errorf("%q is said %d times:\n%s", line, n, b.daemon.Stderr.String())
		}
	}
}
