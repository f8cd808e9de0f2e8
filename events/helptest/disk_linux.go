package helptest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"doorbell/schemas/skiptest"
)

// SmallDisk mounts a file system for the test, as root. fill takes all of its space but for about
// spare bytes, and free gives it back. flags are those of the unmount at the end of the test: with
// 0 it fails if a file is still open.
func SmallDisk(t testing.TB, size string, flags int) (dir string, fill func(spare int64), free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		skiptest.Skipf(t, "a small file system cannot be mounted here, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, flags); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func(spare int64) {
		f, err := os.Create(ballast)
		Must(t, err)
		defer f.Close()
		size := -spare
		for err == nil {
			n := 0
			n, err = f.Write(make([]byte, 4096))
			size += int64(n)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		Must(t, f.Truncate(size))
	}
	return dir, fill, func() { Must(t, os.Remove(ballast)) }
}
