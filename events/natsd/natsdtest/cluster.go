package natsdtest

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
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
}

const patience = 2 * time.Minute

// Start starts them on free ports of an address of their own, and waits until they are a cluster,
// which can make streams; they end with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c, host, dir := &Cluster{t: t}, Loopback(), t.TempDir()
	t.Cleanup(func() { // before the folder goes
		for i := range c.servers {
			c.Stop(i)
		}
	})
	ports, err := freePorts(host, 2*len(c.options))
	if err != nil {
		t.Fatal(err)
	}
	clients, routes := ports[:len(c.options)], ports[len(c.options):]
	var urls []string
	for _, port := range routes {
		urls = append(urls, fmt.Sprintf("nats://%s:%d", host, port))
	}
	for i := range c.options {
		name := fmt.Sprint("n", i)
		c.options[i] = &server.Options{
			ServerName: name, Host: host, Port: clients[i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, name),
			Cluster: server.ClusterOpts{Name: "three", Host: host, Port: routes[i], NoAdvertise: true},
			Routes:  server.RoutesFromStr(strings.Join(urls, ",")),
		}
		c.Start(i)
	}
	c.find("the cluster", func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers)
	})
	return c
}

func freePorts(host string, n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// AwaitPort waits until one can listen where a listener was closed: a process that was being
// started then has a copy of it until it runs its program. Its error is that of the last try after
// some seconds.
func AwaitPort(host string, port int) (err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		syscall.ForkLock.RLock() // nobody gets a copy of the listener that tries
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
func (c *Cluster) URL() string {
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://%s:%d", o.Host, o.Port))
	}
	return strings.Join(urls, ",")
}

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
