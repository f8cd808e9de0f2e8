package natsdtest

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"doorbell/events/natsd"
)

// Cluster is three servers with JetStream in this process. One that is nil is stopped.
type Cluster struct {
	t       testing.TB
	servers [3]*server.Server
	options [3]*server.Options
	url     string
}

const patience = 2 * time.Minute

// Start starts them on free ports of an address of their own, and waits until they are a cluster,
// which can make streams; they end with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var err error
	if c.options, c.url, err = natsd.Three(Loopback(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the folder goes
		for i := range c.servers {
			c.Stop(i)
		}
	})
	for i := range c.options {
		c.Start(i)
	}
	c.find("the cluster", natsd.LeadsThree)
	return c
}

// AwaitPort waits until one can listen where a listener was closed: a process that was being
// started then has a copy of it until it runs its program. Its error is that of the last try after
// some seconds.
func AwaitPort(host string, port int) (err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		syscall.ForkLock.RLock() // no process gets a copy of the listener that tries
		err = natsd.TryListen(net.JoinHostPort(host, strconv.Itoa(port)))
		syscall.ForkLock.RUnlock()
		if err == nil {
			return nil
		}
	}
	return err
}

// Start starts one that was stopped, with what it has stored.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	for _, port := range []int{c.options[i].Port, c.options[i].Cluster.Port} {
		if err := AwaitPort(c.options[i].Host, port); err != nil {
			c.t.Fatal(err)
		}
	}
	o := *c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
}

// Stop stops one that runs.
func (c *Cluster) Stop(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// URL names all three.
func (c *Cluster) URL() string { return c.url }

// Leader is the server that leads a stream.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	return c.find(stream, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", stream) })
}

// find waits for a server of which something is true. It polls: servers give no signal.
func (c *Cluster) find(name string, is func(*server.Server) bool) int {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for i, s := range c.servers {
			if s != nil && is(s) {
				return i
			}
		}
	}
	c.t.Fatalf("%s has no leader", name)
	return -1
}
