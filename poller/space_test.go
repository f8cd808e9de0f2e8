package poller_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
	"doorbell/schemas/skiptest"
	"doorbell/store"
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

// TestAFullDiskEndsThePollerAndNoOtherAsksBeforeThereIsSpace fills the disk, and starts pollers until there is space again.
func TestAFullDiskEndsThePollerAndNoOtherAsksBeforeThereIsSpace(t *testing.T) {
	dir, fill, free := smallDisk(t)
	inBubble(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.dir = dir
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
		w.ends = store.ErrNoSpace
		w.pass(11 * time.Minute)
		w.halt()
		asked := w.model.Requests(sandbox.Filter{})
		for range 20 {
			s, err := store.Open(store.Options{Dir: dir, BaseURL: w.options.API.BaseURL})
			w.must(err)
			w.options.Store = s
			if _, err := poller.New(w.options); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("a poller begins on a full disk: %v", err)
			}
			w.must(s.Close())
		}
		if n := w.model.Requests(sandbox.Filter{}) - asked; n > 0 {
			t.Errorf("%d requests of which nothing can be remembered", n)
		}
		free()
		w.ends = nil
		w.start()
		w.pass(10 * time.Minute)
		told := announced(w.log("A100"))
		for id := range ids {
			if told[id] != 1 {
				t.Errorf("%s was announced %d times", id, told[id])
			}
		}
		for _, e := range w.log("A100") {
			if e.Type != events.TypeWatchBaselined && e.Type != events.TypeContactRequestCreated {
				t.Errorf("%s", e)
			}
		}
		w.halt()
	})
}
