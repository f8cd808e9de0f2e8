package torture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	must(t, os.MkdirAll(dir, 0o700))
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
	f, err := os.Create(ballast)
	must(t, err)
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
		must(t, os.Remove(ballast))
	}
}

// newBusy is an API where much happens and a daemon that watches it from a small disk. Fifty
// requests a second poll the 60 insertions as often as is needed.
func newBusy(t *testing.T, dir string) *restless {
	t.Helper()
	b := newRestless(t, 1, sandbox.Flat(), dir, 1500, 150)
	b.environ = append(b.environ, "DOORBELL_REQUESTS_PER_SECOND=50")
	b.launch(0)
	doorbelltest.SubscribeTo(t, b.up(0)).Baselined(t, "A100", "B200")
	return b
}

// mustAnswer is the status of a doorbell that works.
func (b *restless) mustAnswer() ops.Status {
	b.t.Helper()
	s, err := ops.NewClient(filepath.Join(b.dirs[0], daemon.SocketFile)).Status(b.t.Context())
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.doorbells[0].Stderr.String())
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

// TestAFullDiskLosesAndDoublesNothing restarts it, as a supervisor does, until there is space.
func TestAFullDiskLosesAndDoublesNothing(t *testing.T) {
	runsByName(t)
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	smallDisk(t, dir, "48m")
	b := newBusy(t, dir)
	empty := fill(t, dir)
	if code := b.doorbells[0].Exit(t); code != exit.CodeIO {
		t.Errorf("it exits with %d", code)
	}
	doorbelltest.Has(t, b.doorbells[0].Stderr.String(), "no space left", "free some space on the disk")
	asked := b.asked()
	for range 3 {
		b.launch(0)
		if code := b.doorbells[0].Exit(t); code != exit.CodeIO {
			t.Errorf("a start on a full disk exits with %d", code)
		}
	}
	if n := b.asked() - asked; n > 0 {
		t.Errorf("%d requests on a full disk", n)
	}
	empty()
	b.launch(0)
	doorbelltest.Within(t, 90*time.Second, "polling goes on and everything is published", func() bool {
		return b.asked() > asked+20 && waiting(b.mustAnswer()) < 200
	})
	b.judge(0)
}

func TestAFullDiskOfTheStreamAloneStopsNoPolling(t *testing.T) {
	runsByName(t)
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	folder := filepath.Join(dir, daemon.StreamFolder)
	smallDisk(t, folder, "16m")
	b := newBusy(t, dir)
	empty := fill(t, folder)
	doorbelltest.Within(t, time.Minute, "the stream's disk is said to be full", func() bool {
		return strings.Contains(b.mustAnswer().NATS.Problem, "no space left")
	})
	from := b.mustAnswer()
	doorbelltest.Within(t, time.Minute, "polling goes on and the log grows", func() bool {
		s := b.mustAnswer()
		return waiting(s) > waiting(from)+100 && s.Watch.Requests > from.Watch.Requests+200
	})
	empty()
	doorbelltest.Within(t, 90*time.Second, "what waited is published", func() bool {
		s := b.mustAnswer()
		return s.NATS.Problem == "" && waiting(s) < 50
	})
	b.judge(0)
	log := b.doorbells[0].Stderr.String()
	for line, most := range map[string]int{"accepts no events": 1, "failed to store a msg": 2, "is restarted": 1} {
		if n := strings.Count(log, line); n > most {
			t.Errorf("%q is logged %d times:\n%s", line, n, log)
		}
	}
}
