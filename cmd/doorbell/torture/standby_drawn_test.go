package torture

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/relay"
	"doorbell/poller/sandbox"
)

// way is the way of one doorbell to the servers of a cluster, which can be cut.
type way struct {
	url string
	cut atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newWay listens in front of each server.
func newWay(t *testing.T, servers string) *way {
	t.Helper()
	w := &way{conns: map[net.Conn]struct{}{}}
	var urls []string
	for _, server := range strings.Split(servers, ",") {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		urls = append(urls, "nats://"+l.Addr().String())
		go w.serve(l, strings.TrimPrefix(server, "nats://"))
	}
	w.url = strings.Join(urls, ",")
	t.Cleanup(func() { w.sever() })
	return w
}

func (w *way) serve(l net.Listener, server string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", server)
		if err != nil || w.cut.Load() {
			client.Close()
			if err == nil {
				far.Close()
			}
			continue
		}
		w.mu.Lock()
		w.conns[client], w.conns[far] = struct{}{}, struct{}{}
		w.mu.Unlock()
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			to.Close()
			from.Close()
			w.mu.Lock()
			delete(w.conns, from)
			w.mu.Unlock()
		}
		go pipe(far, client)
		go pipe(client, far)
	}
}

// sever ends all connections, and lets no other begin until heal.
func (w *way) sever() {
	w.cut.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
}

func (w *way) heal() { w.cut.Store(false) }

// couple are two doorbells on a cluster of three servers.
type couple struct {
	t       *testing.T
	environ []string
	dirs    [2]string
	ways    [2]*way
	both    [2]*doorbelltest.Child
	cluster *natsdtest.Cluster

	continued []time.Time // when a suspended one went on: what it had begun arrives then
}

func (c *couple) launch(n int) {
	c.both[n] = doorbelltest.Launch(c.t, append(c.environ[:len(c.environ):len(c.environ)],
		"DOORBELL_DATA_DIR="+c.dirs[n], "NATS_URL="+c.ways[n].url), "run")
}

// works reports whether a doorbell says that it works.
func (c *couple) works(n int) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	s, err := ops.NewClient(filepath.Join(c.dirs[n], daemon.SocketFile)).Status(ctx)
	return err == nil && s.Standby != nil && s.Standby.Works
}

// holder waits for one that works.
func (c *couple) holder() (n int) {
	c.t.Helper()
	doorbelltest.Eventually(c.t, "one works", func() bool {
		n = slices.IndexFunc([]int{0, 1}, c.works)
		return n >= 0
	})
	return n
}

// suffer lets one thing happen to the pair or its servers, and returns when it is over.
func (c *couple) suffer(how string) {
	c.t.Helper()
	n := c.holder()
	other := 1 - n
	switch how {
	case "kill":
		c.both[n].End(c.t, syscall.SIGKILL)
		stands(c.t, c.dirs[other], true)
		c.launch(n)
	case "clean end":
		c.both[n].Stop(c.t)
		stands(c.t, c.dirs[other], true)
		c.launch(n)
	case "suspension":
		signalTo(c.t, c.both[n], syscall.SIGSTOP)
		stands(c.t, c.dirs[other], true)
		c.continued = append(c.continued, time.Now())
		signalTo(c.t, c.both[n], syscall.SIGCONT)
	case "cut":
		c.ways[n].sever()
		stands(c.t, c.dirs[other], true)
		c.ways[n].heal()
	case "both killed":
		c.both[0].End(c.t, syscall.SIGKILL)
		c.both[1].End(c.t, syscall.SIGKILL)
		c.launch(0)
		c.launch(1)
	case "leader stopped":
		leader := c.cluster.Leader("KV_" + standby.Bucket)
		c.cluster.Stop(leader)
		c.holder()
		c.cluster.Start(leader)
	}
	c.holder()
}

var takeovers = []string{"kill", "clean end", "suspension", "cut", "both killed", "leader stopped"}

// TestDrawnTakeoversLoseAndDoubleNothing draws what happens to a pair. It runs by name only: most takeovers last for
// as long as a lease.
func TestDrawnTakeoversLoseAndDoubleNothing(t *testing.T) {
	runsByName(t)
	cluster := natsdtest.Start(t)
	_, js := doorbelltest.Connected(t, cluster.URL())
	if _, err := js.CreateStream(t.Context(), relay.Options{Prefix: "listings", Stream: "LISTINGS", Replicas: 3}.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	const ceiling = 100
	b := doorbelltest.NewLeads(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 600)
	b.OfSeveral()
	b.KeepLog()
	c := &couple{
		t: t, cluster: cluster, dirs: [2]string{b.Dir, doorbelltest.ShortDir(t)},
		ways:    [2]*way{newWay(t, cluster.URL()), newWay(t, cluster.URL())},
		environ: append(b.Environ, "DOORBELL_STANDBY=pair", fmt.Sprintf("DOORBELL_REQUESTS_PER_SECOND=%d", ceiling)),
	}
	defer func() { logIfFailed(t, c.both[:]...) }()
	c.launch(0)
	b.GoesOn(t, 50)
	b.Begun()
	c.launch(1)
	draw := rand.New(rand.NewPCG(1, uint64(*rounds)))
	counted := map[string]int{}
	begin := time.Now()
	for range 10 * *rounds {
		b.GoesOn(t, 50+draw.IntN(100))
		how := takeovers[draw.IntN(len(takeovers))]
		c.suffer(how)
		b.GoesOn(t, 1)
		counted[how]++
	}
	n := c.holder()
	c.both[1-n].Stop(t)
	published := b.Judge(t, c.both[n], cluster.URL())
	most := b.MostPerSecond(c.continued)
	if most > ceiling {
		t.Errorf("%d requests within a second, at most %d are allowed", most, ceiling)
	}
	t.Logf("%v in %s, %d events, at most %d requests within a second", counted, time.Since(begin).Round(time.Second), published, most)
}
