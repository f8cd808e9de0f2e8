package store

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
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
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("store: lock %s: %w", path, err)
		}
		if time.Now().After(end) {
			f.Close()
			return nil, &LockedError{Path: path, PID: lockHolder(path)}
		}
	}
}

// lockHolder finds the process that holds a lock on path, by its inode in Linux's /proc/locks; 0 if nothing tells.
func lockHolder(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	inode := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasSuffix(fields[5], inode) {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
