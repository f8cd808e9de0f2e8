// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that can be stopped and started. It also
// has an address for any server of a test binary, and lets tests that wait for servers do so together.
package natsdtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"doorbell/events/natsd"
)

// Cluster is three servers.
type Cluster struct {
	t       testing.TB
	servers *natsd.Cluster
}

const patience = 2 * time.Minute

// Start starts them and waits until they are a cluster, which can make streams; they end with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	servers, err := natsd.StartCluster(ctx, Loopback(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Shutdown)
	return &Cluster{t, servers}
}

// Loopback is an address of this machine that nobody else uses, so that the port of a server that is away goes to nobody: neither to
// another server, whose clients and routes would then be those of both, nor to a connection. Systems other than Linux have one address
// for all.
func Loopback() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254))
}

// Start starts one that was stopped, with what it has stored.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	if err := c.servers.Start(i); err != nil {
		c.t.Fatal(err)
	}
}

// Stop stops one that runs.
func (c *Cluster) Stop(i int) { c.servers.Stop(i) }

// URL names all three.
func (c *Cluster) URL() string { return c.servers.URL() }

// Leader is the server that leads a stream.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	return c.find(stream, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", stream) })
}

// ConsumerLeader is the server that leads a consumer.
func (c *Cluster) ConsumerLeader(stream, consumer string) int {
	c.t.Helper()
	return c.find(consumer, func(s *server.Server) bool { return s.JetStreamIsConsumerLeader("$G", stream, consumer) })
}

func (c *Cluster) find(name string, is func(*server.Server) bool) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, err := c.servers.Find(ctx, is)
	if err != nil {
		c.t.Fatalf("%s has no leader: %v", name, err)
	}
	return i
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
