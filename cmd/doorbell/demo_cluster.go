package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/stream"
	"doorbell/poller/sandbox"
)

const (
	// demoLease is short, so that a takeover can be waited for.
	demoLease = 8 * time.Second
	// demoKill is how long nobody has to press Enter.
	demoKill = 10 * time.Second
	// demoAfter is how long it goes on after the takeover.
	demoAfter = 5 * time.Second
	// demoWait is how long servers may take to start, doorbells to share, and the last leads to be told.
	demoWait = time.Minute
)

// clusterDemo is a demo of three doorbells on three servers.
type clusterDemo struct {
	*demo
	ids   []string // of the agencies
	bells []*demoBell
	owner map[string]*demoBell // by agency, as last shown
	old   int                  // contact requests before the first lead
}

// demoBell is one of its doorbells.
type demoBell struct {
	name, page string
	daemon     *daemon.Daemon
	cancel     context.CancelFunc
	ended      chan error
	killed     time.Time // zero: it was not
}

// runCluster shows doorbells that share agencies, kills one of them, and counts what became of the leads.
func (d *demo) runCluster(ctx context.Context, dir string, seed int64, stdin io.Reader) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // until all leads are told
	defer stop()
	starting, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	servers, err := natsd.StartCluster(starting, "127.0.0.1", dir)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return exit.Failed(err, "")
	}
	defer servers.Shutdown()
	d.nats = servers.URL()
	c := &clusterDemo{demo: d, ids: []string{"A100", "B200", "C300", "D400", "E500", "F600", "G700", "H800", "K900"}, owner: map[string]*demoBell{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return exit.IO(err, "")
	}
	model := sandbox.NewModel(sandbox.Options{Seed: uint64(seed)})
	d.api = serveMadeUp(working, model, sandbox.Flat(), l, sandbox.GeneratorOptions{Seed: uint64(seed), Agencies: c.ids, Insertions: 8, History: 2})
	c.old = len(model.Truth().ContactRequests)
	defer c.end()
	for n := range 3 {
		if err := c.begin(working, filepath.Join(dir, fmt.Sprint(n+1)), n+1); err != nil {
			return err
		}
	}
	nc, err := natsd.Connect(natsd.Dial{URL: d.nats}, discardLog())
	if err != nil {
		return exit.Failed(err, "")
	}
	defer nc.Close()
	c.greet()
	enter := make(chan struct{})
	go func() { // it may outlive the demo: a read cannot be ended
		if _, err := bufio.NewReader(stdin).ReadString('\n'); err == nil {
			close(enter)
		}
	}()
	var printing sync.WaitGroup
	var printErr error
	following, stopFollowing := context.WithCancel(working)
	printing.Go(func() {
		if c.until(following, c.ready) {
			printErr = c.follow(following, nc)
		}
	})
	making, stopMaking := context.WithCancel(ctx)
	defer stopMaking()
	victim := c.play(ctx, enter, func() {
		go sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: uint64(seed), Agencies: c.ids, ContactRequestsPerMinute: 60}).Run(making)
	})
	stopMaking()
	waiting, cancel := context.WithTimeout(working, demoWait)
	defer cancel()
	c.until(waiting, func() bool { return c.told() >= len(c.made()) })
	c.end()
	stopFollowing()
	printing.Wait()
	if printErr != nil {
		return printErr
	}
	return c.judge(working, nc, victim)
}

func (c *clusterDemo) begin(ctx context.Context, dir string, n int) error {
	o := demoOptions(dir, c.api.url, c.ids)
	o.NATS, o.HTTPListen, o.Cluster = natsd.Dial{URL: c.nats}, "127.0.0.1:0", daemon.ClusterOptions{Name: "demo", Lease: demoLease}
	o.Poller.RequestsPerSecond = 96
	d, err := daemon.New(ctx, o)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	b := &demoBell{name: fmt.Sprint("doorbell ", n), daemon: d, cancel: cancel, ended: make(chan error, 1)}
	if s, err := d.Verbs().Status(); err == nil {
		b.page = s.Page
	}
	go func() { b.ended <- d.Run(running) }()
	c.bells = append(c.bells, b)
	return nil
}

// end ends the doorbells in order, and gives back what they took.
func (c *clusterDemo) end() {
	for _, b := range c.bells {
		b.cancel()
	}
	for _, b := range c.bells {
		if b.killed.IsZero() {
			<-b.ended
		}
		b.daemon.Close()
	}
	c.bells = nil
}

func (c *clusterDemo) greet() {
	fmt.Fprintf(c.out, `doorbell demo --cluster: everything here is made up, and gone when it ends.

  The listings API   %s (agencies %s)
`, c.api.url, strings.Join(c.ids, ", "))
	for n, url := range strings.Split(c.nats, ",") {
		fmt.Fprintf(c.out, "  NATS server %d      %s\n", n+1, url)
	}
	for _, b := range c.bells {
		fmt.Fprintf(c.out, "  %s         %s (its status page)\n", b.name, b.page)
	}
	fmt.Fprintf(c.out, `
Each agency is polled by one doorbell. Leases last %s here, so that you need not wait; doorbell run has 20s.

`, demoLease)
}

// play lets the doorbells share the agencies, begins to make leads, and kills a doorbell, until ctx ends. It returns whom it killed.
func (c *clusterDemo) play(ctx context.Context, enter <-chan struct{}, makeLeads func()) (victim *demoBell) {
	sharing, cancel := context.WithTimeout(ctx, 3*demoLease)
	defer cancel()
	c.until(sharing, func() bool { // chance may leave a doorbell without an agency
		shown := c.showOwners(time.Time{})
		return shown && !slices.ContainsFunc(c.bells, func(b *demoBell) bool { return len(c.of(b)) == 0 })
	})
	if !c.until(ctx, func() bool { return c.showOwners(time.Time{}) }) {
		return nil
	}
	makeLeads()
	c.say("Leads come in. Press Enter to kill one of the doorbells; else that happens in %s.", demoKill)
	killing, cancel := context.WithTimeout(ctx, demoKill)
	defer cancel()
	c.until(killing, func() bool {
		c.showOwners(time.Time{})
		select {
		case <-enter:
			return true
		default:
			return false
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	victim = slices.MaxFunc(c.bells, func(a, b *demoBell) int { return len(c.of(a)) - len(c.of(b)) })
	had := c.of(victim)
	victim.killed = time.Now()
	victim.daemon.Kill()
	<-victim.ended
	c.say("%s  %s is killed. It releases nothing of what it polled: %s", victim.killed.UTC().Format("15:04:05.000"), victim.name, strings.Join(had, ", "))
	if c.until(ctx, func() bool { return c.showOwners(victim.killed) }) {
		c.say("All agencies are polled again, %s after the kill.", time.Since(victim.killed).Round(100*time.Millisecond))
	}
	select {
	case <-ctx.Done():
	case <-time.After(demoAfter):
	}
	return victim
}

// demoLook is how often is looked what the doorbells do.
const demoLook = 50 * time.Millisecond

// until waits for something; false: ctx ended before.
func (c *clusterDemo) until(ctx context.Context, is func() bool) bool {
	for !is() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(demoLook):
		}
	}
	return true
}

func (c *clusterDemo) ready() bool {
	return slices.ContainsFunc(c.bells, func(b *demoBell) bool { return b.daemon.Health().Ready })
}

// of are the agencies that a doorbell polls.
func (c *clusterDemo) of(b *demoBell) (ids []string) {
	for _, id := range c.ids {
		if c.owner[id] == b {
			ids = append(ids, id)
		}
	}
	return ids
}

// showOwners shows who has begun to poll which agency, with a good answer since a moment, and returns whether that holds for all.
func (c *clusterDemo) showOwners(since time.Time) bool {
	now := map[string]*demoBell{}
	for _, b := range c.bells {
		if !b.killed.IsZero() {
			continue
		}
		s, err := b.daemon.Verbs().Status()
		for _, a := range s.Watch.Agencies {
			if err == nil && a.State == "watching" && a.LastGoodAnswer.After(since) {
				now[a.AgencyID] = b
			}
		}
	}
	for _, id := range c.ids {
		b, before := now[id], c.owner[id]
		if b == nil || b == before {
			continue
		}
		c.owner[id] = b
		line := fmt.Sprintf("%s  %-6s polled by %s", time.Now().UTC().Format("15:04:05.000"), id, b.name)
		if before != nil && !before.killed.IsZero() {
			line += fmt.Sprintf(", %s after the kill", time.Since(before.killed).Round(100*time.Millisecond))
		}
		c.say("%s", line)
	}
	return len(now) == len(c.ids)
}

func (c *clusterDemo) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, c.terminal.Prose(fmt.Sprintf(format, args...), 2))
}

func (c *clusterDemo) told() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[events.TypeContactRequestCreated]
}

// made are the ids of the leads.
func (c *clusterDemo) made() (ids []string) {
	all := c.api.model.Truth().ContactRequests
	slices.SortFunc(all, func(a, b sandbox.ContactRequestTruth) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, r := range all[c.old:] {
		ids = append(ids, r.ID)
	}
	return ids
}

// judge reads the whole stream once more, and compares it with what the API had. No doorbell works any more.
func (c *clusterDemo) judge(ctx context.Context, nc *nats.Conn, victim *demoBell) error {
	ctx, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	var told map[string]int
	var err error
	c.until(ctx, func() bool { // the servers may be choosing who leads
		told, err = leadsInStream(ctx, nc)
		return err == nil
	})
	if err != nil {
		return exit.Failed(fmt.Errorf("count the leads in the stream: %w", err), "")
	}
	made, lost, doubled := c.made(), 0, 0
	for _, id := range made {
		if told[id] == 0 {
			lost++
		}
	}
	for _, n := range told {
		if n > 1 {
			doubled++
		}
	}
	fmt.Fprintf(c.out, "\n%d leads were made, %d are in the stream: %d lost, %d doubled.\n", len(made), len(told), lost, doubled)
	if len(c.latencies) > 0 {
		slices.Sort(c.latencies)
		fmt.Fprintf(c.out, "Half of them arrived within %s of being made, the last one within %s.\n",
			c.latencies[len(c.latencies)/2].Round(10*time.Millisecond), c.latencies[len(c.latencies)-1].Round(10*time.Millisecond))
	}
	if victim == nil {
		fmt.Fprintln(c.out, "No doorbell was killed: it ended before.")
	}
	if lost > 0 || doubled > 0 || len(told) != len(made) {
		return exit.Failed(errors.New("the stream does not hold each lead once"), "")
	}
	return nil
}

// leadsInStream counts the events of each new contact request.
func leadsInStream(ctx context.Context, nc *nats.Conn) (told map[string]int, err error) {
	told = map[string]int{}
	leads := stream.Client{Conn: nc, Stream: demoStream, Wait: demoLease}
	_, err = leads.ReadToEnd(ctx, demoPrefix+".v1.*."+string(events.TypeContactRequestCreated), 0, func(m *stream.Message) error {
		var lead struct {
			ContactRequestID string `json:"contactRequestId"`
		}
		e, err := events.Decode(m.Header, m.Data)
		if err == nil {
			err = json.Unmarshal(e.Data, &lead)
		}
		told[lead.ContactRequestID]++
		return err
	})
	return told, err
}
