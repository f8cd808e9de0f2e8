package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
	JSON       bool          `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data; everything else goes to standard error."`
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
