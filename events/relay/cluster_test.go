package relay

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"doorbell/events/natsd"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// cluster is three servers in this process.
type cluster struct {
	t       *testing.T
	options []*server.Options
	servers []*server.Server
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
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
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	return c
}

func freePorts(t *testing.T, n int) (ports []int) {
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

func (c *cluster) start(i int) {
	c.t.Helper()
	o := *c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
}

func (c *cluster) stop(i int) {
	if c.servers[i] != nil {
		c.servers[i].Shutdown()
		c.servers[i].WaitForShutdown()
		c.servers[i] = nil
	}
}

func (c *cluster) bell() *bell {
	c.t.Helper()
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	nc, err := natsd.Connect(natsd.Dial{URL: strings.Join(urls, ",")}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	log := newMemLog()
	return &bell{t: c.t, nc: nc, js: js, log: log, o: Options{
		Log: log, Conn: nc, Prefix: "listings", Stream: "LISTINGS", Manage: true, Replicas: 3, StoreID: "s1", AckWait: 2 * time.Second,
	}}
}

// leader is the server that leads the stream.
func (c *cluster) leader() (found int) {
	eventually(c.t, "the stream has a leader", func() bool {
		for i, s := range c.servers {
			if s != nil && s.JetStreamIsStreamLeader("$G", "LISTINGS") {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

func TestAClusterWhoseLeaderIsKilledGetsEveryEventOnce(t *testing.T) {
	c := startCluster(t)
	b := c.bell()
	b.o.BatchEvents = 20
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 5)
	b.log.ring(t, "B200", 5)
	published := func() bool { return b.published("A100") && b.published("B200") }
	eventually(t, "published", published)
	for range 3 {
		b.log.ring(t, "A100", 200)
		b.log.ring(t, "B200", 7)
		lost := c.leader()
		c.stop(lost)
		b.log.ring(t, "A100", 50)
		eventually(t, "published without the old leader", published)
		c.start(lost)
		eventually(t, "three again", func() bool {
			info, err := b.js.Stream(t.Context(), "LISTINGS")
			if err != nil || info.CachedInfo().Cluster == nil {
				return false
			}
			for _, r := range info.CachedInfo().Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
			return true
		})
	}
	stop()
	if r := b.stream().CachedInfo().Config.Replicas; r != 3 {
		t.Fatalf("%d replicas", r)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
	b.wantRepairs("A100")
	b.wantRepairs("B200")
}
