package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	natsdtest.Parallel(3, 8)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// link is the way of a member to the servers. Where it is cut, nothing passes and nothing breaks.
type link struct {
	mu    sync.Mutex
	cut   chan struct{} // closed when it is healed; nil: it is not cut
	conns []net.Conn
}

func (l *link) Dial(network, address string) (net.Conn, error) {
	if l.broken() != nil {
		return nil, net.ErrClosed
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return &linkConn{c, l}, nil
}

func (l *link) broken() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = make(chan struct{})
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		return
	}
	close(l.cut)
	l.cut = nil
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

type linkConn struct {
	net.Conn
	l *link
}

func (c *linkConn) Write(b []byte) (int, error) {
	if c.l.broken() != nil {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if cut := c.l.broken(); cut != nil {
		<-cut
		return 0, net.ErrClosed
	}
	return n, err
}

// node is a member of a real cluster.
type node struct {
	*Cluster
	t    *testing.T
	name string
	link link
	nc   *nats.Conn
	end  context.CancelFunc
	done chan struct{}
	err  error // once it is done
}

// quick is a cluster that is as impatient as elections allow that do not happen.
func quick(name string) Options {
	o := defaults(name)
	o.TTL, o.Renew, o.Grace = 6*time.Second, 750*time.Millisecond, 4500*time.Millisecond
	return o
}

func connect(t *testing.T, url string, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(o, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(-1), nats.RetryOnFailedConnect(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// three are servers that make streams of three replicas.
func three(t *testing.T) *natsdtest.Cluster {
	t.Helper()
	t.Parallel()
	return natsdtest.Start(t)
}

func join(t *testing.T, url string, o Options) *node {
	t.Helper()
	n := &node{t: t, name: o.Member, done: make(chan struct{})}
	n.nc = connect(t, url, nats.SetCustomDialer(&n.link))
	o.Conn = n.nc
	eventually(t, "it joins", func() bool { // servers that have much to do lose an answer now and then
		c, err := Join(t.Context(), o)
		if errors.Is(err, ErrSetup) {
			t.Fatal(err)
		}
		n.Cluster = c
		return err == nil
	})
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	go func() {
		defer close(n.done)
		n.err = n.Run(ctx)
	}()
	t.Cleanup(func() {
		n.link.heal()
		n.crash()
	})
	return n
}

// crash ends a member without a word.
func (n *node) crash() {
	n.end()
	<-n.done
}

func (n *node) permits() int { return int(n.Rate()*Permits/5 + 0.5) }

func (n *node) sees(names ...string) bool { return slices.Equal(n.View().names(), names) }

func eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

// ceiling watches that the rates of all that were ever given to it stay below the ceiling, and what they had together.
type ceiling struct {
	mu    sync.Mutex
	nodes []*node
	most  int
}

func watchCeiling(t *testing.T) *ceiling {
	c := &ceiling{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			c.mu.Lock()
			sum := 0
			for _, n := range c.nodes {
				sum += n.permits()
			}
			if c.most = max(c.most, sum); sum > Permits {
				t.Errorf("%d permits are used", sum)
			}
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return c
}

func (c *ceiling) of(n *node) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, n)
	return n
}

func TestMembersShareTheCeilingAndTakeOverFromWhoLeavesOrCrashes(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	a := all.of(join(t, s.URL(), quick("a")))
	t.Logf("the first member of a new bucket may use all after %s", eventually(t, "alone", func() bool { return a.permits() == 12 }))
	if !a.Alive() || a.Wanted("A100") != "a" || a.Release("A100") {
		t.Error("the only member is not wanted")
	}
	b := all.of(join(t, s.URL(), quick("b")))
	t.Logf("a second one joins: seen after %s, even shares after %s", eventually(t, "seen", func() bool { return a.sees("a", "b") }),
		eventually(t, "half each", func() bool { return a.permits() == 6 && b.permits() == 6 }))
	c := all.of(join(t, s.URL(), quick("c")))
	eventually(t, "a third each", func() bool { return a.permits() == 4 && b.permits() == 4 && c.permits() == 4 })

	if dead, err := a.Dead(t.Context(), "c", c.o.Run); dead || err != nil {
		t.Fatalf("c is dead: %t, %v", dead, err)
	}
	if dead, err := a.Dead(t.Context(), "c", "the run before"); !dead || err != nil {
		t.Fatalf("an earlier run of c: dead %t, %v", dead, err)
	}
	start := time.Now()
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := time.Since(start)
	if dead, err := a.Dead(t.Context(), "c", c.o.Run); !dead || err != nil {
		t.Fatalf("c has left: dead %t, %v", dead, err)
	}
	<-c.done
	eventually(t, "half each again", func() bool { return a.permits() == 6 && b.permits() == 6 && a.sees("a", "b") })
	t.Logf("it left in %s, and the others had its permits after %s", left, time.Since(start))
	if c.err != nil || c.Alive() || c.Rate() > 0 {
		t.Errorf("it has left: %v, alive %t, rate %v", c.err, c.Alive(), c.Rate())
	}

	start = time.Now()
	b.crash()
	seen := eventually(t, "the death is seen", func() bool { return a.sees("a") })
	if dead, err := a.Dead(t.Context(), "b", b.o.Run); !dead || err != nil {
		t.Fatalf("b has crashed: dead %t, %v", dead, err)
	}
	eventually(t, "all again", func() bool { return a.permits() == 12 })
	t.Logf("a crash was seen after %s of a TTL of %s, and the permits were used after %s", seen, a.o.TTL, time.Since(start))
	if dead, err := a.Dead(t.Context(), "nobody", ""); !dead || err != nil {
		t.Fatalf("who never was: dead %t, %v", dead, err)
	}
	all.mu.Lock()
	if all.most != Permits {
		t.Errorf("never more than %d permits were used", all.most)
	}
	all.mu.Unlock()

	again := all.of(join(t, s.URL(), quick("b")))
	eventually(t, "back", func() bool { return a.permits() == 6 && again.permits() == 6 })
	a.crash()
	back := all.of(join(t, s.URL(), quick("a")))
	eventually(t, "back in its own place once that has expired", func() bool { return back.permits() == 6 && again.permits() == 6 })
}

func TestAMemberThatIsCutOffStopsBeforeAnotherUsesItsPermits(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	a, b := all.of(join(t, s.URL(), quick("a"))), all.of(join(t, s.URL(), quick("b")))
	for range 2 {
		eventually(t, "half each", func() bool { return a.permits() == 6 && b.permits() == 6 })
		a.link.sever()
		stopped := eventually(t, "it stops", func() bool { return !a.Alive() && a.Rate() == 0 })
		taken := eventually(t, "the other one has all", func() bool { return b.permits() == 12 })
		t.Logf("stopped after %s, the other one had all %s later", stopped, taken)
		a.link.heal()
	}
	eventually(t, "half each", func() bool { return a.permits() == 6 && b.permits() == 6 })
}

func TestAKilledLeaderCostsNoMembership(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	var nodes []*node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, all.of(join(t, s.URL(), defaults(name))))
	}
	even := func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return n.permits() != 4 || !n.sees("a", "b", "c") })
	}
	eventually(t, "a third each", even)
	for range 2 {
		lost := s.Leader(nodes[0].stream())
		s.Stop(lost)
		js, _ := jetstream.New(nodes[0].nc)
		t.Logf("writes go on after %s", eventually(t, "a write", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := js.Publish(ctx, nodes[0].subject()+"check.x", nil)
			return err == nil
		}))
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			for _, n := range nodes {
				if !n.sees("a", "b", "c") {
					t.Fatalf("%s sees %v", n.name, n.View().names())
				}
			}
		}
		eventually(t, "a third each", even)
		s.Start(lost)
		eventually(t, "three servers again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			stream, err := js.Stream(ctx, nodes[0].stream())
			if err != nil || stream.CachedInfo().Cluster == nil || len(stream.CachedInfo().Cluster.Replicas) != 2 {
				return false
			}
			return !slices.ContainsFunc(stream.CachedInfo().Cluster.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current || r.Offline })
		})
	}
}

// TestASuspendedMachineStopsAtOnceWhenItWakes: its monotonic clock says that it was never away.
func TestASuspendedMachineStopsAtOnceWhenItWakes(t *testing.T) {
	s := three(t)
	var ahead atomic.Int64 // of the wall clock
	start := time.Now()
	o := quick("a")
	o.clock = func() moment {
		now := time.Now()
		return moment{now.Sub(start), now.Round(0).Add(time.Duration(ahead.Load()))}
	}
	a := join(t, s.URL(), o)
	eventually(t, "alone", func() bool { return a.permits() == 12 })
	a.link.sever() // so that it cannot renew between the two lines that follow
	ahead.Store(int64(time.Minute))
	if a.Alive() || a.Rate() > 0 {
		t.Error("alive after a minute of sleep")
	}
	a.link.heal()
	eventually(t, "renewed", func() bool { return a.Alive() && a.permits() == 12 })
	a.link.sever()
	ahead.Store(-int64(time.Hour)) // and a clock that is set back gives it no time
	if stopped := eventually(t, "it stops", func() bool { return !a.Alive() && a.Rate() == 0 }); stopped > o.Grace+time.Second {
		t.Errorf("it stopped only after %s", stopped)
	}
}

func TestAHigherGenerationTakesOverAndALowerOneNeverActs(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	old := all.of(join(t, s.URL(), quick("a")))
	eventually(t, "alone", func() bool { return old.permits() == 12 })
	o := quick("b")
	o.Digest = "other"
	conflicting := all.of(join(t, s.URL(), o))
	eventually(t, "it says why it does not act", func() bool {
		return strings.Contains(conflicting.View().Problem, "in force is generation 1 (digest d, set by a), ours is generation 1 (digest other)")
	})
	eventually(t, "both are seen", func() bool {
		m := old.View().Members
		return len(m) == 2 && m[0].Equal && !m[1].Equal && m[1].Digest == "other"
	})
	if conflicting.Alive() || !conflicting.Release("A100") || old.permits() != 12 {
		t.Errorf("a member of another configuration acts: %t; the other one has %d permits", conflicting.Alive(), old.permits())
	}
	conflicting.crash()
	o.Generation = 2
	next := all.of(join(t, s.URL(), o))
	eventually(t, "the higher generation has all", func() bool { return next.permits() == 12 })
	if old.Alive() || !old.Release("A100") || old.View().Problem == "" || next.Wanted("A100") != "b" || old.Wanted("A100") != "b" {
		t.Errorf("alive %t, %+v", old.Alive(), old.View())
	}
	if err := next.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	old.crash()
	again := all.of(join(t, s.URL(), quick("a")))
	eventually(t, "the lower one does not act, though it is alone", func() bool { return again.sees("a") && again.View().Problem != "" })
	if again.Alive() || again.Wanted("A100") != "" {
		t.Error("it acts")
	}
}

func TestPausesReachAllMembersAndThoseThatComeLater(t *testing.T) {
	s := three(t)
	skewed := func(name string, by time.Duration) Options {
		o, start := quick(name), time.Now()
		o.clock = func() moment { now := time.Now(); return moment{now.Sub(start), now.Round(0).Add(by)} }
		return o
	}
	a, b := join(t, s.URL(), skewed("a", 5*time.Second)), join(t, s.URL(), skewed("b", -5*time.Second))
	eventually(t, "both", func() bool { return a.Alive() && b.Alive() && a.sees("a", "b") && b.sees("a", "b") })
	ends := time.Now().Add(time.Minute)
	ends = ends.Round(0)
	a.Pause("key:1f", ends.Add(5*time.Second), "retry-after")
	there := func(n *node, ahead time.Duration) func() bool {
		return func() bool {
			p := n.View().Pauses
			return len(p) == 1 && p[0].Scope == "key:1f" && p[0].Why == "retry-after" && p[0].Until.Sub(ends.Add(ahead)).Abs() < 2*time.Second
		}
	}
	t.Logf("the other one knows after %s", eventually(t, "b knows", there(b, -5*time.Second)))
	b.link.sever()
	b.Pause("key:2f", ends.Add(-5*time.Second), "refused") // is not lost where it cannot be written yet
	b.link.heal()
	eventually(t, "a knows", func() bool { return len(a.View().Pauses) == 2 })
	c := join(t, s.URL(), quick("c"))
	eventually(t, "a later one knows", func() bool { return len(c.View().Pauses) == 2 })
}

func TestChangesAreShownAndRenewalsAreNone(t *testing.T) {
	s := three(t)
	a := join(t, s.URL(), quick("a"))
	eventually(t, "alone", func() bool { return a.permits() == 12 && a.View().Members[0].Permits == 12 })
	select {
	case <-a.View().Changed:
		t.Errorf("a change: %+v", a.View())
	case <-time.After(4 * a.o.Renew):
	}
	v := a.View()
	b := join(t, s.URL(), quick("b"))
	<-v.Changed
	eventually(t, "both", func() bool { return b.sees("a", "b") })
	if a.View() == v {
		t.Error("no other view")
	}
}

func TestABucketThatIsDeletedIsMadeAgain(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	a, b := all.of(join(t, s.URL(), quick("a"))), all.of(join(t, s.URL(), quick("b")))
	eventually(t, "half each", func() bool { return a.permits() == 6 && b.permits() == 6 })
	js, err := jetstream.New(a.nc)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted", func() bool { return errors.Is(js.DeleteKeyValue(t.Context(), a.bucket()), jetstream.ErrBucketNotFound) })
	eventually(t, "both stop", func() bool { return a.permits() == 0 && b.permits() == 0 && !a.Alive() && !b.Alive() })
	eventually(t, "half each again", func() bool { return a.permits() == 6 && b.permits() == 6 && a.sees("a", "b") && b.sees("a", "b") })
	eventually(t, "purged", func() bool {
		stream, err := js.Stream(t.Context(), a.stream())
		return err == nil && stream.Purge(t.Context()) == nil
	})
	c := all.of(join(t, s.URL(), quick("c"))) // sees nobody
	eventually(t, "a third each", func() bool { return a.permits() == 4 && b.permits() == 4 && c.permits() == 4 })
}

func TestASecondDoorbellOfOneNameEnds(t *testing.T) {
	s := three(t)
	a := join(t, s.URL(), quick("a"))
	eventually(t, "alive", a.Alive)
	second := join(t, s.URL(), quick("a"))
	<-second.done
	if !errors.Is(second.err, ErrSetup) || !strings.Contains(second.err.Error(), "as a: give each a name of its own") {
		t.Errorf("%v", second.err)
	}
	if !a.Alive() || a.permits() != 12 {
		t.Error("the first one is disturbed")
	}
}

// TestAnythingInAnyOrderOnARealCluster is the short form of the model's schedules, with all that the model leaves out.
func TestAnythingInAnyOrderOnARealCluster(t *testing.T) {
	s := three(t)
	all := watchCeiling(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	names, nodes := []string{"a", "b", "c", "d"}, map[string]*node{}
	for range 24 {
		name := names[r.IntN(len(names))]
		switch n := nodes[name]; {
		case n == nil:
			nodes[name] = all.of(join(t, s.URL(), quick(name)))
		case r.IntN(4) == 0:
			n.crash()
			delete(nodes, name)
		case r.IntN(3) == 0:
			n.link.heal()
			if err := n.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			delete(nodes, name)
		case r.IntN(2) == 0:
			n.link.sever()
		default:
			n.link.heal()
		}
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	}
	var members []string
	for _, name := range names {
		if nodes[name] == nil {
			nodes[name] = all.of(join(t, s.URL(), quick(name)))
		}
		nodes[name].link.heal()
		members = append(members, name)
	}
	eventually(t, "a quarter each", func() bool {
		for _, n := range nodes {
			if n.permits() != 3 || !n.sees(members...) {
				return false
			}
		}
		return true
	})
}

func TestJoinSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	run := func(o server.Options) string {
		o.Host, o.Port, o.NoSigs, o.NoLog, o.StoreDir = "127.0.0.1", -1, true, true, t.TempDir()
		s, err := server.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("not ready")
		}
		return s.ClientURL()
	}
	plain := run(server.Options{})
	single := run(server.Options{JetStream: true})
	users := func(deny ...string) []*server.User {
		return []*server.User{
			{Username: "crm", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}},
		}
	}
	guarded := run(server.Options{JetStream: true, Users: users("$KV.>")})
	blind := run(server.Options{JetStream: true, Users: users("$JS.API.CONSUMER.>")})
	old := connect(t, plain)
	if _, err := old.Subscribe("$JS.API.INFO", func(m *nats.Msg) { _ = m.Respond([]byte(`{"api":{"level":1}}`)) }); err != nil {
		t.Fatal(err)
	}
	if err := old.Flush(); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(connect(t, single))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "doorbell-taken", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	away := connect(t, "nats://127.0.0.1:1")
	for name, c := range map[string]struct {
		conn   *nats.Conn
		change func(*Options)
		want   string
		may    bool // it may pass
	}{
		"JetStream is off":   {connect(t, run(server.Options{})), nil, "JetStream is off for this account", false},
		"too old":            {old, nil, "version 2.12 or later is needed", false},
		"one server":         {connect(t, single), nil, "at least 3 servers", false},
		"another bucket":     {connect(t, single), func(o *Options) { o.Name, o.Replicas = "taken", 1 }, "TTL is 1m0s, should be 20s", false},
		"no right to write":  {connect(t, guarded, nats.UserInfo("crm", "p")), func(o *Options) { o.Replicas = 1 }, `Permissions Violation for Publish to "$KV.doorbell-c.`, false},
		"no right to watch":  {connect(t, blind, nats.UserInfo("crm", "p")), func(o *Options) { o.Replicas = 1 }, `Permissions Violation for Publish to "$JS.API.CONSUMER`, false},
		"a name with spaces": {old, func(o *Options) { o.Name = "my cluster" }, `"my cluster" is not`, false},
		"no ceiling":         {old, func(o *Options) { o.Ceiling = 0 }, "a ceiling above 0", false},
		"too much grace":     {old, func(o *Options) { o.Grace = o.TTL }, "grace 20s < TTL 20s", false},
		"no server":          {away, nil, "no connection to NATS", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := defaults("a")
			o.Conn = c.conn
			if c.change != nil {
				c.change(&o)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			_, err := Join(ctx, o)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrSetup) == c.may {
				t.Errorf("%v", err)
			}
		})
	}
	o := defaults("a")
	o.Name = "free"
	if o.Conn, o.Replicas = connect(t, single), 1; err == nil {
		_, err = Join(t.Context(), o)
	}
	if err != nil {
		t.Errorf("where nothing is missing: %v", err)
	}
}
