//go:build linux || darwin || freebsd

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockFile locks a file as bbolt would, whatever is in it. Without a file there is nothing to lock.
func lockFile(path string, wait time.Duration) (release func(), err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && !isAt(f, path) { // it was replaced, and others have what is there now
			f.Close()
			return lockFile(path, time.Until(end))
		}
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			return nil, &LockedError{Path: path, PID: lockHolder(path)}
		}
	}
}
