//go:build linux

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"doorbell/schemas/skiptest"

	"doorbell/store"
)

// smallDisk is a file system of its own. fill takes all of its space, and free gives it back.
func smallDisk(t *testing.T, size string) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
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
		must(t, err)
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	return dir, fill, func() { remove(t, ballast) }
}

func TestOnAFullDiskNothingIsLostAndNothingIsLeft(t *testing.T) {
	disk, fill, free := smallDisk(t, "20m")
	dir, now := filepath.Join(disk, "data"), era
	s := openAt(t, dir, &now)
	for range 40 {
		must(t, large(t, s, 100<<10))
		now = now.Add(time.Minute)
	}
	publish(t, s, 40)
	fill()
	entries := func() int { return len(contents(t, dir)) + len(filesIn(t, disk)) }
	before := entries()
	if _, err := store.ReceiveBackup(t.Context(), filepath.Join(disk, "copy.db"), false, into(s)); err == nil {
		t.Errorf("backup: %v", err)
	}
	trimmed := 0
	var err error
	for n := 1; n > 0; trimmed += n {
		if n, err = s.Trim(now, 3); err != nil && (!errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrUnknownOutcome)) {
			t.Fatalf("trim: %v", err)
		}
	}
	if failure := s.Failure(); !errors.Is(err, failure) || !errors.Is(s.View(func(*store.Tx) error { return nil }), failure) {
		t.Errorf("it continues after %v", err)
	}
	s.Close()
	s = openAt(t, dir, &now)
	if got := kept(t, s); len(got) != 40-trimmed || got[len(got)-1] != 40 {
		t.Errorf("after %d were trimmed the log holds %v", trimmed, got)
	}
	s.Close()
	if after := entries(); after != before {
		t.Errorf("there are %d files, and there were %d", after, before)
	}
	free()
	s = openAt(t, dir, &now)
	if n, err := s.Trim(now, 100); err != nil || n+trimmed != 39 {
		t.Errorf("%d and %d were trimmed: %v", trimmed, n, err)
	}
	if _, err := store.ReceiveBackup(t.Context(), filepath.Join(disk, "copy.db"), false, into(s)); err != nil {
		t.Error(err)
	}
	erases(t, s, request(1))
	s.Close()
	if holds, err := openAt(t, dir, &now).HoldsErased(); err != nil || holds {
		t.Errorf("it was not compacted: %v", err)
	}
}

// filesIn are the files of a directory, without its folders.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		if f.Type().IsRegular() {
			names = append(names, f.Name())
		}
	}
	return names
}

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.Remove(path))
}
