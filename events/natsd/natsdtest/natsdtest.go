// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that
// can be stopped and started. It also starts embedded servers, has an address for any server of a
// test binary, and lets tests that wait for servers do so together.
package natsdtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/helptest"
	"doorbell/events/natsd"
)

// Embedded starts an embedded server, which ends with the test, and returns JetStream on it.
func Embedded(t testing.TB) jetstream.JetStream {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "off"})
	helptest.Must(t, err)
	t.Cleanup(s.Shutdown)
	conn, err := s.Connect("test")
	helptest.Must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	helptest.Must(t, err)
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

// InMemory is that of helptest.
var InMemory = helptest.InMemory

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
