// Package helptest has what tests of many packages need, and knows nothing of doorbell.
package helptest

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Test is a test, also one of rapid.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test at an error.
func Must(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually polls a condition that gives no signal until it holds. Its limit only ends a hang.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, 2*time.Minute, what, ok)
}

// Within is Eventually with a limit of its own, in real time.
func Within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

// Lines is a log that can be read while it is written.
type Lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// InMemory is where no disk has to be waited for; empty where memory has no room, or runs no
// program.
func InMemory() string {
	const dir, noExec = "/dev/shm", 8
	var memory syscall.Statfs_t
	if err := syscall.Statfs(dir, &memory); err != nil || memory.Flags&noExec != 0 || memory.Bavail*uint64(memory.Bsize) < 2<<30 {
		return ""
	}
	return dir
}

// KeepInMemory puts the temporary directories of all tests there: here processes end, never the
// machine. A server syncs each message, and to wait for a disk costs more than everything else that
// tests of it do.
func KeepInMemory() {
	if dir := InMemory(); dir != "" && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", dir)
	}
}

// TooMuchMemory is what a process prints that LimitMemory ends.
const TooMuchMemory = "the process takes memory without end"

// LimitMemory ends the process, as the system would, where damaged files let a library take memory
// without end. What is only reserved takes none; where the system does not report how much is
// resident, nothing is limited.
func LimitMemory() {
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			var total, resident int
			text, err := os.ReadFile("/proc/self/statm")
			if _, failed := fmt.Sscan(string(text), &total, &resident); err != nil || failed != nil {
				return
			}
			if resident*os.Getpagesize() > 1<<30 {
				fmt.Fprintln(os.Stderr, TooMuchMemory)
				os.Exit(2)
			}
		}
	}()
}
