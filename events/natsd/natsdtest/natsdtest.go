// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that can be stopped and started.
package natsdtest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is three servers.
type Cluster struct {
	t       testing.TB
	options []*server.Options
	servers []*server.Server
}

// Start starts them and waits until they are a cluster, which can make streams; they end with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	clients, routes := freePorts(t, 3), freePorts(t, 3)
	var urls []string
	for _, port := range routes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	for i := range 3 {
		c.options = append(c.options, &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: clients[i], NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: routes[i]}, Routes: server.RoutesFromStr(strings.Join(urls, ",")),
		})
		c.servers = append(c.servers, nil)
		c.Start(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.Stop(i)
		}
	})
	c.find("the servers are no cluster", func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers)
	})
	return c
}

func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// Start starts one that was stopped, with what it has stored.
func (c *Cluster) Start(i int) {
	c.t.Helper()
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
	if c.servers[i] != nil {
		c.servers[i].Shutdown()
		c.servers[i].WaitForShutdown()
		c.servers[i] = nil
	}
}

// URL names all three.
func (c *Cluster) URL() string {
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(urls, ",")
}

// Leader is the server that leads a stream.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	return c.find("stream "+stream+" has no leader", func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", stream) })
}

// find waits for a server of which something is true. It polls: servers give no signal.
func (c *Cluster) find(none string, is func(*server.Server) bool) int {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for i, s := range c.servers {
			if s != nil && is(s) {
				return i
			}
		}
	}
	c.t.Fatal(none)
	return 0
}
