// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that can be stopped and started. It also
// has an address for any server of a test binary, and lets tests that wait for servers do so together.
package natsdtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
)

// Loopback is an address of this machine that nobody else uses, so that the port of a server that is away goes to nobody: neither to
// another server, whose clients and routes would then be those of both, nor to a connection. Systems other than Linux have one address
// for all.
func Loopback() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254))
}

// Parallel reads the flags and lets so many tests run in parallel on any machine, unless -test.parallel says how many: next to servers they
// mostly wait. With the race detector, which makes them compute five times as long, it is the first number. It is called before the first
// test starts.
func Parallel(raced, usual int) {
	flag.Parse()
	if Raced {
		usual = raced
	}
	if !Given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(max(usual, runtime.GOMAXPROCS(0))))
	}
}

// Given says whether a flag stands on the command line.
func Given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
