package poller_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/schemas/skiptest"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// smallDisk is a file system of its own. fill takes all of its space, and free gives it back.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		skiptest.Skipf(t, "a small file system cannot be mounted here, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	free = func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fill, free
}

func TestAFullDiskStopsTheAskingAndLosesNothing(t *testing.T) {
	dir, fill, free := smallDisk(t)
	inBubble(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.dir = dir
		said := &journal{}
		w.options.Logger = slog.New(slog.NewTextHandler(said, nil))
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		w.pass(10 * time.Minute)
		fill()
		ids := map[string]bool{}
		for n := range 90 { // the file has some pages left
			id, err := w.model.AddContactRequest("A100", "a#1##", sandbox.ContactRequest{
				CreatedAt: time.Now().Add(-time.Duration(n) * time.Millisecond), Message: strings.Repeat("Guten Tag ", 500),
			})
			w.must(err)
			ids[id] = true
		}
		w.pass(11 * time.Minute)
		before := w.model.Requests(sandbox.Filter{})
		full := 0
		for range 60 {
			w.pass(time.Minute)
			if w.poller.Status().NoSpace {
				full++
			}
		}
		if n := w.model.Requests(sandbox.Filter{}) - before; n > 60 || full < 50 {
			t.Errorf("%d requests in an hour of which nothing can be remembered; it was said in %d minutes of 60", n, full)
		}
		free()
		w.pass(10 * time.Minute)
		if w.poller.Status().NoSpace {
			t.Error("there is space again and nobody knows")
		}
		told := announced(w.log("A100"))
		for id := range ids {
			if told[id] != 1 {
				t.Errorf("%s was announced %d times", id, told[id])
			}
		}
		for _, e := range w.log("A100") {
			if e.Type != events.TypeWatchBaselined && e.Type != events.TypeContactRequestCreated && e.Type != events.TypeWatchRecovered && e.Type != events.TypeWatchStale {
				t.Errorf("%s", e)
			}
		}
		w.pass(2 * time.Minute) // a back-off of 6 minutes at most, and 5 for which the space has to last
		for _, line := range []string{"polling waits for space", "there is space again"} {
			if n := len(said.lines(line)); n < 1 || n > 4 {
				t.Errorf("%q is said %d times", line, n)
			}
		}
		w.halt()
	})
}
