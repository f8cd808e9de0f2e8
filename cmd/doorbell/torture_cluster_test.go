package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/sandbox"
)

var (
	clusterSchedules = flag.Int("cluster.schedules", 1, "how many schedules of TestAClusterLosesAndDoublesNothingWhateverHappensToIt, from seed 1")
	clusterSeed      = flag.Uint64("cluster.seed", 0, "only the schedule with this seed")
	clusterAtOnce    = flag.Int("cluster.at-once", 2, "how many of them at once")
	clusterActs      = flag.Int("cluster.acts", 6, "how many things happen in a schedule")
)

// The test binary is a member of a cluster where this is set to the time of a lease: the real daemon, configured by its environment.
const memberLease = "TEST_MEMBER_LEASE"

// memberClock is how much its clock is ahead, if it is set.
const memberClock = "TEST_MEMBER_CLOCK"

const (
	shortLease     = 6 * time.Second
	clusterCeiling = 60 // requests per second
)

// runMember lives until SIGTERM.
func runMember(lease string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if ahead := os.Getenv(memberClock); ahead != "" {
		by, err := time.ParseDuration(ahead)
		if err == nil {
			err = setClock(by)
		}
		if err != nil {
			return err
		}
	}
	c, err := config.Read(os.Environ(), config.GroupPoll)
	if err != nil {
		return err
	}
	o := daemonOptions(c, newLogger(os.Stderr, c.Base, terminal{}))
	if o.Cluster.Lease, err = time.ParseDuration(lease); err != nil {
		return err
	}
	a, err := daemon.New(ctx, o)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.Run(ctx)
}

// member is a doorbell of a cluster, in one process after the other, and its way to the servers.
type member struct {
	t       *testing.T
	dir     string
	environ []string
	gate    *gate
	process *child // nil: it does not run
}

func (m *member) start() {
	m.t.Helper()
	if m.process != nil {
		m.t.Fatal("it runs already")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Dir, cmd.SysProcAttr = m.environ, os.TempDir(), &syscall.SysProcAttr{}
	p := begin(m.t, cmd).tellingNobody(m.t, nil)
	m.t.Cleanup(func() {
		if !m.t.Failed() {
			return
		}
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it says what it does
		<-p.gone
		path := filepath.Join(m.t.ArtifactDir(), fmt.Sprint(p.cmd.Process.Pid))
		m.t.Logf("what a process of %s said is in %s: %v", m.dir, path, os.WriteFile(path, []byte(p.stderr.String()), 0o600))
	})
	m.process = p
}

// id is the name under which it is a member.
func (m *member) id() string {
	m.t.Helper()
	id, err := os.ReadFile(filepath.Join(m.dir, "store-id"))
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

func (m *member) end(s syscall.Signal) {
	m.t.Helper()
	code, said := m.process.end(m.t, s), m.process.stderr.String()
	died, _ := m.process.cmd.ProcessState.Sys().(syscall.WaitStatus)
	early := died.Signaled() && died.Signal() == s && said == "" // before it could take notice of signals
	if s == syscall.SIGTERM && code != exit.Done && !early {
		m.t.Errorf("exit code %d after SIGTERM:\n%s", code, said)
	}
	m.process = nil
}

// gate is a way to servers that can be cut, or made to hold back what goes through it.
type gate struct {
	listener net.Listener
	to       []string
	mu       sync.Mutex
	shut     bool
	held     chan struct{} // closed: nothing is held back
	open     []net.Conn
}

func newGate(t *testing.T, to []string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, held: make(chan struct{})}
	close(g.held)
	t.Cleanup(func() {
		l.Close()
		g.cut()
	})
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(c, n)
		}
	}()
	return g
}

func (g *gate) pass(c net.Conn, n int) {
	defer c.Close()
	s, err := net.Dial("tcp", g.to[n%len(g.to)])
	if err != nil {
		return
	}
	defer s.Close()
	g.mu.Lock()
	shut := g.shut
	g.open = append(g.open, c, s)
	g.mu.Unlock()
	if shut {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		both.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				g.mu.Lock()
				held := g.held
				g.mu.Unlock()
				<-held
				if n > 0 {
					if _, err := way[1].Write(buffer[:n]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// cut ends all connections and lets none through.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for _, c := range g.open {
		c.Close()
	}
	g.open = nil
}

// hold lets nothing through for the moment, and loses nothing.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan struct{})
}

// restore lets everything through again.
func (g *gate) restore() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	select {
	case <-g.held:
	default:
		close(g.held)
	}
}

// clustered are three doorbells that share the agencies of a restless API, on three servers.
type clustered struct {
	*restless
	t       *testing.T
	random  *rand.Rand
	nats    *natsdtest.Cluster
	members []*member

	agencies   []string
	generation int
}

func newClustered(t *testing.T, seed uint64) *clustered {
	t.Helper()
	return newClusteredOf(t, seed, shortLease, 900, "A100", "B200", "C300", "D400", "E500", "F600")
}

// newClusteredOf has these leases, contact requests per minute, and agencies. With an even seed the clocks of the doorbells are five seconds
// apart from each other.
func newClusteredOf(t *testing.T, seed uint64, lease time.Duration, perMinute float64, agencies ...string) *clustered {
	t.Helper()
	c := &clustered{t: t, generation: 1, random: rand.New(rand.NewPCG(seed, 19)), nats: natsdtest.Start(t)}
	c.agencies = agencies
	c.restless = newRestlessOf(t, seed, sandbox.Flat(), "", perMinute, agencies...)
	for n := range 3 {
		m := &member{t: t, dir: shortDir(t), gate: newGate(t, strings.Split(strings.ReplaceAll(c.nats.URL(), "nats://", ""), ","))}
		m.environ = append(slices.Clone(c.environ), "DOORBELL_DATA_DIR="+m.dir, "DOORBELL_CLUSTER=leads", "NATS_URL=nats://"+m.gate.listener.Addr().String(),
			fmt.Sprint("DOORBELL_REQUESTS_PER_SECOND=", clusterCeiling), memberLease+"="+lease.String(), "DOORBELL_HTTP_LISTEN=off", "DOORBELL_POLL_INTERVAL=500ms", "DOORBELL_WALK_INTERVAL=500ms")
		if seed%2 == 0 && clocksCanBeSet {
			c.oracle.clocks = 5 * time.Second
			m.environ = append(m.environ, fmt.Sprint(memberClock, "=", time.Duration(n-1)*c.oracle.clocks))
		}
		c.members = append(c.members, m)
		m.start()
	}
	time.Sleep(time.Duration(c.random.Int64N(int64(2 * time.Second)))) // the moment is the point: perhaps its first watch begins
	m := c.one()
	m.end(syscall.SIGKILL)
	m.start()
	within(t, 10*time.Minute, "all agencies are watched", func() bool { // many of them need many requests
		all, _ := readStream(t.Context(), c.nats.URL())
		watched := map[string]bool{}
		for _, m := range all {
			if m.kind() == string(events.TypeWatchBaselined) {
				watched[m.body.AgencyID] = true
			}
		}
		return len(watched) == len(agencies)
	})
	c.begun()
	return c
}

// owners are the members that were the last to claim each agency: whoever comes first may claim all, and gives most of them up later.
func (c *clustered) owners() map[string]*member {
	owners, epochs := map[string]*member{}, map[string]uint64{}
	for _, m := range c.members {
		for line := range strings.Lines(m.process.stderr.String()) {
			var claim struct {
				Msg, Agency string
				Epoch       uint64
			}
			if json.Unmarshal([]byte(line), &claim) == nil && claim.Msg == "agency claimed" && claim.Epoch > epochs[claim.Agency] {
				owners[claim.Agency], epochs[claim.Agency] = m, claim.Epoch
			}
		}
	}
	return owners
}

func (c *clustered) one() *member { return c.members[c.random.IntN(len(c.members))] }

// wait lets up to one and a half leases pass: the moment is the point of the test.
func (c *clustered) wait() { time.Sleep(time.Duration(c.random.Int64N(int64(shortLease * 3 / 2)))) }

// acts are what may happen to a cluster.
var acts = []struct {
	name string
	do   func(*clustered)
}{
	{"kill", func(c *clustered) {
		m := c.one()
		m.end(syscall.SIGKILL)
		c.wait()
		m.start()
	}},
	{"stop and continue", func(c *clustered) {
		m := c.one()
		_ = m.process.cmd.Process.Signal(syscall.SIGSTOP)
		c.wait()
		_ = m.process.cmd.Process.Signal(syscall.SIGCONT)
	}},
	{"restart", func(c *clustered) {
		m := c.one()
		m.end(syscall.SIGTERM)
		m.start()
	}},
	{"rolling restart", func(c *clustered) {
		for _, m := range c.members {
			m.end(syscall.SIGTERM)
			m.start()
		}
	}},
	{"kill all", func(c *clustered) {
		for _, m := range c.members {
			m.end(syscall.SIGKILL)
		}
		c.wait()
		for _, m := range c.members {
			m.start()
		}
	}},
	{"cut off from NATS", func(c *clustered) {
		m := c.one()
		m.gate.cut()
		c.wait()
		m.gate.restore()
	}},
	{"held back on the way to NATS", func(c *clustered) {
		m := c.one()
		m.gate.hold()
		c.wait()
		m.gate.restore()
	}},
	{"held back, and killed", func(c *clustered) {
		m := c.one()
		m.gate.hold()
		c.wait()
		m.end(syscall.SIGKILL)
		m.gate.cut()
		m.gate.restore()
		m.start()
	}},
	{"leader of the stream away", func(c *clustered) {
		n := c.nats.Leader("LISTINGS")
		c.nats.Stop(n)
		c.wait()
		c.nats.Start(n)
	}},
	{"majority of the servers away", func(c *clustered) {
		c.nats.Stop(0)
		c.nats.Stop(1)
		c.wait()
		c.nats.Start(0)
		c.nats.Start(1)
	}},
	{"rolling change of a setting that all must have", func(c *clustered) {
		c.generation++
		for _, m := range c.members {
			m.end(syscall.SIGTERM)
			m.environ = append(m.environ, fmt.Sprint("DOORBELL_CLUSTER_GENERATION=", c.generation), fmt.Sprintf("DOORBELL_HOLD_FOR=%dms", 2000+c.generation))
			m.start()
			time.Sleep(time.Duration(c.random.Int64N(int64(shortLease / 2)))) // both settings are in use meanwhile
		}
	}},
	{"another machine in the place of one", func(c *clustered) {
		m := c.one()
		m.end(syscall.SIGKILL)
		if err := os.RemoveAll(m.dir); err != nil {
			c.t.Fatal(err)
		}
		m.start()
	}},
}

// TestAClusterLosesAndDoublesNothingWhateverHappensToIt lets three doorbells share the agencies of an API that keeps moving, while they, the
// servers and the ways between are taken away and come back as a seed decides. Then it holds the stream against the truth, and the
// requests against the ceiling. The long form is
// `go test ./cmd/doorbell -run TestAClusterLoses -cluster.schedules 300 -timeout 3h -v`; with -artifacts the processes of what
// fails leave what they said, and what they did last.
func TestAClusterLosesAndDoublesNothingWhateverHappensToIt(t *testing.T) {
	t.Parallel()
	if natsdtest.Raced && !natsdtest.Given("cluster.schedules") {
		t.Skip("it runs without the race detector: its processes and servers would take the time of tests that measure it")
	}
	var list []uint64
	for n := range *clusterSchedules {
		list = append(list, uint64(n+1))
	}
	if *clusterSeed > 0 {
		list = []uint64{*clusterSeed}
	}
	begin, all := time.Now(), atomic.Int64{}
	atOnce(*clusterAtOnce, list, func(seed uint64) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { all.Add(int64(liveClustered(t, seed))) })
	})
	t.Logf("%d schedules, %d events, %s", len(list), all.Load(), time.Since(begin).Round(time.Second))
}

func liveClustered(t *testing.T, seed uint64) (told int) {
	c := newClustered(t, seed)
	var order []int
	for n := range *clusterActs { // all of them, in any order
		if n%len(acts) == 0 {
			order = c.random.Perm(len(acts))
		}
		a := acts[order[n%len(acts)]]
		t.Logf("%s %s", time.Now().Format("05.000"), a.name)
		a.do(c)
		time.Sleep(time.Duration(c.random.Int64N(int64(shortLease / 2)))) // or the next one comes before the others have noticed
	}
	t.Logf("%s rest", time.Now().Format("05.000"))
	return c.judge()
}

// judge brings the API to rest, holds the stream against the truth and the requests against the ceiling, and ends the doorbells.
func (c *clustered) judge() (told int) {
	c.t.Helper()
	c.rest()
	messages := c.oracle.mustKeepItsPromises(c.t, c.nats.URL(), 90*time.Second)
	for _, m := range c.members {
		m.end(syscall.SIGTERM)
	}
	const window = 10 * time.Second // in a shorter one it counts how unevenly requests travel
	if most, may := c.most(window), int(window.Seconds()*clusterCeiling)+len(c.members); most > may {
		c.t.Errorf("%d requests came within %s; %d may", most, window, may)
	}
	return len(messages)
}

// TestDoorbellsWhoseClocksDifferWaitAsLongAsTheAPIAsks lets the API throttle one of them: the end of the wait is a time, and each has
// another one.
func TestDoorbellsWhoseClocksDifferWaitAsLongAsTheAPIAsks(t *testing.T) {
	t.Parallel()
	if natsdtest.Raced {
		t.Skip("it runs without the race detector, as the test of schedules")
	}
	if !clocksCanBeSet {
		t.Skip("clocks of processes are set on Linux on amd64 only")
	}
	agencies := make([]string, 20) // a hash decides who owns them
	for n := range agencies {
		agencies[n] = fmt.Sprint("A", 100+n)
	}
	c := newClusteredOf(t, 2, shortLease, 900, agencies...)
	ahead := c.members[2] // its wait would end too early
	var others []string
	within(t, 2*time.Minute, "the one whose clock is ahead owns agencies, and another one does", func() bool {
		owners := c.owners()
		others = slices.DeleteFunc(slices.Collect(maps.Keys(owners)), func(agency string) bool { return owners[agency] == ahead })
		return len(others) > 0 && len(others) < len(owners)
	})
	const wait, spread = 15 * time.Second, 2 * time.Second // the latter for what is under way, and the news
	var asked atomic.Int64
	c.oracle.model.SetFault(func(call sandbox.Call) *sandbox.Fault {
		if !slices.Contains(others, call.AgencyID) || !asked.CompareAndSwap(0, time.Now().UnixNano()) {
			return nil
		}
		f := sandbox.Refuse(http.StatusTooManyRequests)
		f.Header = http.Header{"Retry-After": {fmt.Sprint(wait.Seconds())}}
		return &f
	})
	within(t, time.Minute, "a key has waited, and is used again", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		from := time.Unix(0, asked.Load())
		return asked.Load() > 0 && c.arrivals[len(c.arrivals)-1].After(from.Add(wait-spread/2))
	})
	c.mu.Lock()
	from, early := time.Unix(0, asked.Load()), 0
	for _, at := range c.arrivals {
		if after := at.Sub(from); after > spread && after < wait-spread/2 {
			early++
		}
	}
	c.mu.Unlock()
	if early > 0 {
		t.Errorf("%d requests came while the key had to wait", early)
	}
	c.judge()
}
