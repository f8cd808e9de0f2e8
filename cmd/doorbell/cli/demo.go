package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/poller/sandbox"
)

// DemoCmd is `doorbell demo`. It reads no environment.
type DemoCmd struct {
	For        time.Duration `placeholder:"DURATION" help:"End by itself after this time; 0 for never."`
	Standby    bool          `xor:"what" help:"Show a takeover instead: two doorbells and three NATS servers, and the doorbell that works is killed. Takes about 50 s."`
	JSON       bool          `name:"json" xor:"what" help:"Print CloudEvents JSON, one object a line, with people's data; everything else goes to standard error."`
	NATSListen string        `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Address of the NATS server; a free port is taken if this one is in use."`
	HTTPListen string        `name:"http-listen" default:"127.0.0.1:3667" placeholder:"HOST:PORT" help:"Address of the status page; a free port is taken if this one is in use."`
}

func (DemoCmd) Help() string {
	return "Example:\n  doorbell demo --for 20s"
}

func (c *DemoCmd) Validate() error {
	if c.For < 0 {
		return errors.New("--for: must not be negative")
	}
	for _, address := range []string{c.NATSListen, c.HTTPListen} {
		if host, _, err := net.SplitHostPort(address); err != nil || !config.Loopback(host) {
			return errors.New("--nats-listen, --http-listen: the demo accepts no connection from other machines; give an address like 127.0.0.1:0")
		}
	}
	return nil
}

// Run shows everything at work: a made-up API, the daemon, and a subscriber that prints what
// arrives on NATS. It reads no environment and leaves nothing behind.
func (c *DemoCmd) Run(ctx context.Context, p *program) error {
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	dir, err := os.MkdirTemp("", "doorbell")
	if err != nil {
		return exit.IO(err, "")
	}
	defer os.RemoveAll(dir)
	api, err := demoAPI(ctx)
	if err != nil {
		return exit.IO(err, "")
	}
	if c.Standby {
		d := pairDemo{out: p.stdout, dir: dir, api: api}
		return d.run(ctx)
	}
	d := &demo{out: p.stdout, api: api, began: time.Now()}
	if c.JSON {
		d.out = p.stderr
	}
	if d.put, err = (EventForm{JSON: c.JSON}).printer(p, func(e ops.LoggedEvent, width int) string {
		return ops.Line(e.Event, true, width) // its people are made up
	}); err != nil {
		return err
	}
	if err := d.open(ctx, dir, c); err != nil {
		return err
	}
	err = d.run(ctx)
	d.summary()
	return err
}

// demoAPI serves a made-up API on a free port.
func demoAPI(ctx context.Context) (m madeUp, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return m, err
	}
	m = flow(ctx, sandbox.NewModel(sandbox.Options{Seed: 1}), sandbox.GeneratorOptions{
		Seed: 1, Agencies: []string{"A100", "B200"}, Insertions: 25, History: 4,
		ContactRequestsPerMinute: 60, ChangesPerMinute: 45,
	})
	m.url = "http://" + l.Addr().String()
	go serveUntil(ctx, l, m.handler)
	return m, nil
}

// demo is one run of it.
type demo struct {
	out    io.Writer // for people
	put    func(ops.LoggedEvent) error
	api    madeUp
	daemon *daemon.Daemon
	nats   string // URL
	began  time.Time

	count int           // of events
	first time.Duration // until the first contact request arrived
}

// Where the events of a demo are.
const demoPrefix, demoStream = "listings", "LISTINGS"

func (d *demo) open(ctx context.Context, dir string, c *DemoCmd) error {
	natsListen, err := freeAddress(d.out, "NATS", c.NATSListen)
	if err != nil {
		return err
	}
	httpListen, err := freeAddress(d.out, "the status page", c.HTTPListen)
	if err != nil {
		return err
	}
	cfg, err := config.Read(append(d.api.fast(dir), "DOORBELL_NATS_LISTEN="+natsListen, "DOORBELL_HTTP_LISTEN="+httpListen, "DOORBELL_SHOW_PEOPLE=true", "DOORBELL_STREAM_MAX=1GiB"), config.GroupPoll)
	if err != nil {
		return err
	}
	if d.daemon, err = daemon.New(ctx, DaemonOptions(cfg, discardLog())); err != nil {
		return err
	}
	s, err := d.daemon.Verbs().Status()
	d.nats = s.NATS.URL
	fmt.Fprintf(d.out, `doorbell demo: everything here is made up, and gone when it ends.

  The listings API   %s (agencies %s)
  NATS               %s (stream LISTINGS)
  The status page    %s

Subscribe from another terminal, with the nats command or any NATS client:

  nats --server %s sub 'listings.v1.*.contact_request.created'

What was there before is learned first and not announced. Then, as it happens:

`, d.api.url, strings.Join(d.api.agencies, ", "), d.nats, s.Page, d.nats)
	return err
}

// fast is the environment of a doorbell that watches it closely.
func (m madeUp) fast(dir string) []string {
	return append(m.environ(), "DOORBELL_DATA_DIR="+dir, "DOORBELL_REQUESTS_PER_SECOND=50", "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=2s")
}

// freeAddress returns the address, or one with a free port if it is in use, and says so.
func freeAddress(w io.Writer, what, address string) (string, error) {
	l, err := listen(w, what, address)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (d *demo) run(ctx context.Context) error {
	defer d.daemon.Close()
	nc, err := natsd.Connect(natsd.Dial{URL: d.nats}, discardLog())
	if err != nil {
		return exit.Failed(err, "")
	}
	defer nc.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.daemon.Run(running) }()
	printErr := d.print(running, stream.Conn{Conn: nc})
	stop()
	return errors.Join(printErr, <-ended)
}

// print reads the stream as any subscriber would, and shows each event as it arrives, until ctx
// ends.
func (d *demo) print(ctx context.Context, nc stream.Conn) error {
	for !d.daemon.Health().Ready && ctx.Err() == nil { // until the relay has made the stream
		time.Sleep(10 * time.Millisecond)
	}
	return tail(ctx, nc, relay.TailOptions{Stream: demoStream, Prefix: demoPrefix, All: true}, d.show, func(string, ...any) {})
}

func (d *demo) show(e ops.LoggedEvent) error {
	d.count++
	if d.first == 0 && e.Event.Type == events.TypeContactRequestCreated {
		d.first = time.Since(d.began)
	}
	return d.put(e)
}

func (d *demo) summary() {
	fmt.Fprintf(d.out, "\n%d events in %s\n", d.count, time.Since(d.began).Round(100*time.Millisecond))
	if d.first > 0 {
		fmt.Fprintf(d.out, "The first contact request arrived %s after the start.\n", d.first.Round(100*time.Millisecond))
	}
}

// pairDemo is `doorbell demo --standby`: three NATS servers and a made-up API in this process, and
// two doorbells in processes of their own, one of which is killed.
type pairDemo struct {
	out  io.Writer
	dir  string
	api  madeUp
	urls string // of the servers
	conn stream.Conn
}

// before and after are how long the demo goes on before and after the kill.
const before, after = 10 * time.Second, 10 * time.Second

// takeoverLimit is more than a takeover and the start of a process take.
const takeoverLimit = time.Minute

func (d *pairDemo) run(ctx context.Context) error {
	urls, stop, err := natsd.StartThree(ctx, filepath.Join(d.dir, "nats"))
	if err != nil {
		return err
	}
	defer stop()
	conn, err := connectTo(ctx, natsd.Dial{URL: urls})
	if err != nil {
		return err
	}
	defer conn.Close()
	d.urls, d.conn = urls, conn
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	made := relay.Options{Prefix: demoPrefix, Stream: demoStream, MaxAge: 24 * time.Hour, Replicas: 3}.StreamConfig()
	if _, err := js.CreateStream(ctx, made); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "doorbell demo: three NATS servers and two doorbells, one and two. Everything is made up, and gone when it ends.\n\n  NATS  %s\n\n", urls)
	if err := d.story(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// story kills the doorbell that works, and compares the stream at the end.
func (d *pairDemo) story(ctx context.Context) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(d.out, "  %5.1f s  "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	one, err := d.launch(ctx, "one")
	if err != nil {
		return err
	}
	defer endProcess(one)
	if err := d.asks(ctx, "one"); err != nil {
		return err
	}
	two, err := d.launch(ctx, "two")
	if err != nil {
		return err
	}
	defer endProcess(two)
	say("one works, two waits")
	since := time.Now()
	if err := sleep(ctx, before); err != nil {
		return err
	}
	endProcess(one)
	killed := time.Now()
	say("one is killed")
	if err := d.asks(ctx, "two"); err != nil {
		return err
	}
	say("two has taken over: its first request, %.1f s after the kill", time.Since(killed).Seconds())
	leads, lost, doubled, err := d.compare(ctx, since)
	if err != nil {
		return err
	}
	say("%s since the start: %d lost, %d doubled", ops.Counted(leads, "contact request"), lost, doubled)
	if lost+doubled > 0 {
		return errors.New("the stream does not hold each contact request once")
	}
	return nil
}

// launch starts a doorbell like a user does.
func (d *pairDemo) launch(ctx context.Context, name string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "run")
	c.Args[0] = os.Args[0] // a program may be called by another name than its file has
	c.Env = append(d.api.fast(filepath.Join(d.dir, name)), "NATS_URL="+d.urls, "DOORBELL_STANDBY=demo", "DOORBELL_HTTP_LISTEN=off")
	return c, c.Start()
}

func endProcess(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

// asks waits until a doorbell sends its next request.
func (d *pairDemo) asks(ctx context.Context, name string) error {
	asked, limit := d.api.model.Requests(sandbox.Filter{}), time.Now().Add(takeoverLimit)
	for d.api.model.Requests(sandbox.Filter{}) == asked {
		if time.Now().After(limit) {
			return fmt.Errorf("doorbell %s sends no request", name)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the stream with what the API knows. It reads on for a while, and longer where what
// was created last has not arrived.
func (d *pairDemo) compare(ctx context.Context, since time.Time) (leads, lost, doubled int, err error) {
	until, times := time.Now(), map[string]int{}
	count := func() {
		leads, lost, doubled = 0, 0, 0
		for _, c := range d.api.model.Truth().ContactRequests {
			if c.VisibleFrom.Before(since) || c.VisibleFrom.After(until) {
				continue
			}
			leads++
			switch n := times[c.AgencyID+" "+c.ID]; {
			case n == 0:
				lost++
			case n > 1:
				doubled++
			}
		}
	}
	ctx, stop := context.WithTimeout(ctx, after+takeoverLimit)
	defer stop()
	o := relay.TailOptions{Stream: demoStream, Prefix: demoPrefix, Type: events.TypeContactRequestCreated, All: true}
	err = tail(ctx, d.conn, o, func(e ops.LoggedEvent) error {
		body, err := e.Event.Payload()
		if c, is := body.(*events.ContactRequestCreated); is {
			times[e.Event.AgencyID+" "+c.ContactRequestID]++
		}
		if count(); lost == 0 && time.Since(until) > after {
			stop()
		}
		return err
	}, func(string, ...any) {})
	count()
	return leads, lost, doubled, err
}
