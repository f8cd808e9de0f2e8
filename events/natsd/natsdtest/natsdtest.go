// Package natsdtest is a NATS cluster for tests: three servers with JetStream in this process, that can be stopped and started.
package natsdtest

import (
	"context"
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
	servers, err := natsd.StartCluster(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Shutdown)
	return &Cluster{t, servers}
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, err := c.servers.Find(ctx, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("$G", stream) })
	if err != nil {
		c.t.Fatalf("stream %s has no leader: %v", stream, err)
	}
	return i
}
