package torture

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/relay"
	"doorbell/poller/sandbox"
)

// pair are two doorbells of which one works and the other waits.
type pair struct {
	*restless
	ways    [2]*way            // to NATS; nil: they cannot be cut
	cluster *natsdtest.Cluster // nil: there is one server

	continued []time.Time // when a suspended one continued: what it had begun arrives then
}

func newPair(b *restless) *pair {
	b.oracle.Several = true
	// A lease lasts for seconds, in which nothing is to be seen.
	b.environ = append(b.environ, "DOORBELL_STANDBY=pair", "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=1s")
	return &pair{restless: b}
}

// begin makes the first one active, and lets the second one wait.
func (p *pair) begin() {
	p.launch(0)
	p.goesOn(50)
	p.watching()
	p.launch(1)
}

// awaitTurn waits until a doorbell reports that it is active, or that the other one is.
func (p *pair) awaitTurn(n int, works bool) {
	p.t.Helper()
	doorbelltest.Eventually(p.t, "a turn", func() bool {
		s, err := p.status(n)
		return err == nil && s.Standby != nil && s.Standby.Works == works && s.Standby.Holder != ""
	})
}

// working waits for an active one.
func (p *pair) working() (n int) {
	p.t.Helper()
	doorbelltest.Eventually(p.t, "one works", func() bool {
		n = slices.IndexFunc([]int{0, 1}, func(n int) bool {
			s, err := p.status(n)
			return err == nil && s.Standby != nil && s.Standby.Works
		})
		return n >= 0
	})
	return n
}

func (p *pair) signal(n int, signal os.Signal) {
	p.t.Helper()
	must(p.t, p.doorbells[n].Cmd.Process.Signal(signal))
}

// lose takes the active one away, and returns how long it took until the other one sent a request. When
// that is over, both are running again.
func (p *pair) lose(how string) time.Duration {
	p.t.Helper()
	n := p.working()
	other := 1 - n
	p.awaitTurn(other, false)
	ended := time.Now()
	var comesBack func()
	switch how {
	case "kill":
		p.kill(n)
		comesBack = func() { p.launch(n) }
	case "clean end":
		p.doorbells[n].Stop(p.t)
		ended = time.Now()
		comesBack = func() { p.launch(n) }
	case "suspension":
		p.signal(n, syscall.SIGSTOP)
		comesBack = func() {
			p.goesOn(20)
			p.continued = append(p.continued, time.Now())
			p.signal(n, syscall.SIGCONT)
			p.awaitTurn(n, false)
		}
	case "cut":
		p.ways[n].sever()
		comesBack = p.ways[n].heal
	}
	p.awaitTurn(other, true)
	p.goesOn(1)
	took := time.Since(ended)
	comesBack()
	return took
}

// TestAPairOfDoorbellsTakesOver ends the active one in each possible way, while leads go
// on: each way has a pair of its own, as leases and acknowledgements have to be waited for.
func TestAPairOfDoorbellsTakesOver(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "suspension", "clean end"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p, place := newPair(newLeads(t, 600)), doorbelltest.NewPlace(t)
			p.environ = append(p.environ, place.Webhook())
			p.begin()
			var took []time.Duration
			p.happen([]string{how}, func(how string) {
				p.goesOn(50)
				took = append(took, p.lose(how))
				p.goesOn(50)
			})
			last := p.working()
			doubled := everyLeadIsDelivered(t, p.settle(last), place)
			p.awaitTurn(1-last, false) // one that has just begun knows no signal yet
			for _, d := range p.doorbells {
				d.Stop(t)
			}
			if doubled > *rounds || how == "clean end" && doubled > 0 { // the message in hand
				t.Errorf("%d leads were delivered twice in %d takeovers", doubled, *rounds)
			}
			t.Logf("first request after %s, median, and %s, longest; %d leads delivered twice", median(took), slices.Max(took), doubled)
		})
	}
}

// everyLeadIsDelivered waits until the webhook has every lead of the stream, and returns how many
// it got twice.
func everyLeadIsDelivered(t *testing.T, all []doorbelltest.Message, place *doorbelltest.Place) (doubled int) {
	t.Helper()
	created := string(events.TypeContactRequestCreated)
	all = slices.DeleteFunc(all, func(m doorbelltest.Message) bool { return m.Kind() != created })
	doorbelltest.Eventually(t, "every lead is delivered", func() bool {
		times := map[string]int{}
		doubled = 0
		for _, p := range place.Hooked(created) {
			if times[p.Header.Get("ce-id")]++; times[p.Header.Get("ce-id")] > 1 {
				doubled++
			}
		}
		return !slices.ContainsFunc(all, func(m doorbelltest.Message) bool { return times[m.Header.Get("ce-id")] == 0 })
	})
	return doubled
}

// TestDrawnTakeoversLoseAndDoubleNothing draws what happens to a pair on a cluster of three
// servers. It runs by name only: most takeovers last for as long as a lease.
func TestDrawnTakeoversLoseAndDoubleNothing(t *testing.T) {
	runsByName(t)
	const ceiling = 100
	cluster := natsdtest.Start(t)
	_, js := doorbelltest.Connected(t, cluster.URL())
	if _, err := js.CreateStream(t.Context(), relay.Options{Prefix: "listings", Stream: "LISTINGS", Replicas: 3}.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	p := newPair(newRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 600, 0))
	p.cluster = cluster
	p.environ = append(p.environ, fmt.Sprintf("DOORBELL_REQUESTS_PER_SECOND=%d", ceiling))
	for n := range p.ways {
		p.ways[n] = newWay(t, cluster.URL())
		p.own[n] = []string{"NATS_URL=" + p.ways[n].url}
	}
	p.oracle.Model.KeepLog()
	p.begin()
	draw := rand.New(rand.NewPCG(1, uint64(*rounds)))
	takeovers := []string{"kill", "clean end", "suspension", "cut", "both killed", "leader stopped"}
	for range 10 * *rounds {
		p.goesOn(50 + draw.IntN(100))
		how := takeovers[draw.IntN(len(takeovers))]
		switch p.working(); how {
		case "both killed":
			p.kill(0)
			p.kill(1)
			p.launch(0)
			p.launch(1)
		case "leader stopped":
			leader := cluster.Leader("KV_" + standby.Bucket)
			cluster.Stop(leader)
			p.working()
			cluster.Start(leader)
		default:
			p.lose(how)
		}
		p.working()
		p.goesOn(1)
		p.done[how]++
	}
	n := p.working()
	p.awaitTurn(1-n, false) // one that has just begun knows no signal yet
	p.doorbells[1-n].Stop(t)
	p.judge(n)
	if most := p.mostPerSecond(); most > ceiling {
		t.Errorf("%d requests within a second, at most %d are allowed", most, ceiling)
	}
}

// mostPerSecond is the largest number of requests that arrived within any second, except the
// seconds around a suspension's end.
func (p *pair) mostPerSecond() (most int) {
	log := p.oracle.Model.Log(sandbox.Filter{})
	slices.SortFunc(log, func(x, y sandbox.Request) int { return x.At.Compare(y.At) })
	first := 0
	for n, r := range log {
		for r.At.Sub(log[first].At) >= time.Second {
			first++
		}
		if !slices.ContainsFunc(p.continued, func(at time.Time) bool { return r.At.Sub(at).Abs() < 2*time.Second }) {
			most = max(most, n-first+1)
		}
	}
	return most
}

// way is the way of one doorbell to the servers of a cluster, which can be cut.
type way struct {
	url string
	cut atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

// newWay listens in front of each server.
func newWay(t *testing.T, servers string) *way {
	t.Helper()
	w := &way{}
	var urls []string
	for _, server := range strings.Split(servers, ",") {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { l.Close() })
		urls = append(urls, "nats://"+l.Addr().String())
		go w.serve(l, strings.TrimPrefix(server, "nats://"))
	}
	w.url = strings.Join(urls, ",")
	t.Cleanup(w.sever)
	return w
}

func (w *way) serve(l net.Listener, server string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, far)
		w.mu.Unlock()
		if w.cut.Load() {
			w.sever()
		}
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			to.Close()
			from.Close()
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
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *way) heal() { w.cut.Store(false) }

func TestTheDemoOfAPairShowsATakeover(t *testing.T) {
	t.Parallel()
	p := doorbelltest.Launch(t, nil, "demo", "--standby")
	if code := p.Exit(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr.String())
	}
	doorbelltest.Has(t, p.Stdout.String(), "one is killed", "two has taken over", "0 lost, 0 doubled")
}
