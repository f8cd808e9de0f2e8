// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that
// can be stopped and started. It also starts embedded servers, has an address for any server of a
// test binary, and lets tests that wait for servers do so together.
package natsdtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/natsd"
)

// Embedded starts an embedded server, which ends with the test, and returns JetStream on it.
func Embedded(t testing.TB) jetstream.JetStream {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Loopback is an address of this machine that nothing else uses, so that the port of a server that
// is away stays free: another server would get the clients and routes of both, and a connection
// would take it, too. Systems other than Linux have one address for all.
func Loopback() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254))
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

// Parallel reads the flags, and sets how many tests run in parallel on any machine, unless
// -test.parallel does: next to servers they mostly wait. With the race detector, which makes them
// compute five times as long, it is the first number. It is called before the first test starts.
func Parallel(raced, usual int) {
	flag.Parse()
	if Raced {
		usual = raced
	}
	if !Given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(max(usual, runtime.GOMAXPROCS(0))))
	}
}

// Given reports whether a flag is on the command line.
func Given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
