package natsd

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is three servers with JetStream in this process, for demonstrations and tests. A server that is nil is stopped.
type Cluster struct {
	Servers [3]*server.Server
	options [3]*server.Options
}

// StartCluster starts them on free ports of an address of this machine, with folders of their own below a directory, and waits until they
// are a cluster, which can make streams. Where others use the address too, one may take the port of a server that is stopped.
func StartCluster(ctx context.Context, host, dir string) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			c.Shutdown()
		}
	}()
	ports, err := freePorts(host, 2*len(c.options))
	if err != nil {
		return nil, err
	}
	clients, routes := ports[:len(c.options)], ports[len(c.options):]
	var urls []string
	for _, port := range routes {
		urls = append(urls, fmt.Sprintf("nats://%s:%d", host, port))
	}
	for i := range c.options {
		name := fmt.Sprint("n", i)
		c.options[i] = &server.Options{
			ServerName: name, Host: host, Port: clients[i], NoSigs: true, NoLog: true, JetStream: true, StoreDir: filepath.Join(dir, name),
			Cluster: server.ClusterOpts{Name: "three", Host: host, Port: routes[i], NoAdvertise: true}, Routes: server.RoutesFromStr(strings.Join(urls, ",")),
		}
		if err := c.Start(i); err != nil {
			return nil, err
		}
	}
	_, err = c.Find(ctx, func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.Servers)
	})
	if err != nil {
		return nil, fmt.Errorf("the servers are no cluster: %w", err)
	}
	return c, nil
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

// AwaitPort waits until one can listen where a listener was closed: a process that was being started then has a copy of it until it runs its
// program. Its error is that of the last try after some seconds.
func AwaitPort(host string, port int) (err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		syscall.ForkLock.RLock() // nobody gets a copy of the listener that tries
		err = TryListen(net.JoinHostPort(host, strconv.Itoa(port)))
		syscall.ForkLock.RUnlock()
		if err == nil {
			return nil
		}
	}
	return err
}

// Start starts one that was stopped, with what it has stored.
func (c *Cluster) Start(i int) error {
	for _, port := range []int{c.options[i].Port, c.options[i].Cluster.Port} {
		if err := AwaitPort(c.options[i].Host, port); err != nil {
			return err
		}
	}
	o := *c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	s.Start()
	c.Servers[i] = s
	return nil
}

// Stop stops one that runs.
func (c *Cluster) Stop(i int) {
	if s := c.Servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.Servers[i] = nil
	}
}

// Shutdown stops all.
func (c *Cluster) Shutdown() {
	for i := range c.Servers {
		c.Stop(i)
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

// Find waits for a server of which something is true. It polls: servers give no signal.
func (c *Cluster) Find(ctx context.Context, is func(*server.Server) bool) (int, error) {
	for ctx.Err() == nil {
		for i, s := range c.Servers {
			if s != nil && is(s) {
				return i, nil
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, ctx.Err()
}
