package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

// DemoCmd is `doorbell demo`. It reads no environment.
type DemoCmd struct {
	For        time.Duration `placeholder:"DURATION" help:"End by itself after this time; 0 for never."`
	Seed       int64         `default:"1" help:"Number from which people and properties are made up."`
	Standby    bool          `help:"Show a takeover instead: two doorbells and three NATS servers, and the doorbell that works is killed. Takes about 50 s."`
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
	if c.Standby && c.JSON {
		return errors.New("--standby and --json exclude each other")
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
	if c.Standby {
		return (&pairDemo{out: p.stdout, dir: dir}).run(ctx, uint64(c.Seed))
	}
	d := &demo{out: p.stdout, counts: map[events.Type]int{}, began: time.Now()}
	if c.JSON {
		d.out, d.objects = p.stderr, p.stdout
	}
	d.terminal = p.terminalOf(d.out)
	if err := d.open(ctx, dir, c); err != nil {
		return err
	}
	err = d.run(ctx)
	d.summary()
	return err
}

// demo is one run of it.
type demo struct {
	out      io.Writer // for people
	objects  io.Writer // for programs; nil: there are none
	terminal Terminal
	api      madeUp
	daemon   *daemon.Daemon
	nats     string // URL
	page     string // URL
	began    time.Time

	counts    map[events.Type]int
	latencies []time.Duration
	first     time.Duration // until the first contact request arrived
}

func (d *demo) open(ctx context.Context, dir string, c *DemoCmd) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return exit.IO(err, "")
	}
	d.api = serveMadeUp(ctx, sandbox.NewModel(sandbox.Options{Seed: uint64(c.Seed)}), l, sandbox.GeneratorOptions{
		Seed: uint64(c.Seed), Agencies: []string{"A100", "B200"}, Insertions: 25, History: 4,
		ContactRequestsPerMinute: 60, ChangesPerMinute: 45,
	})
	natsListen, err := freeAddress(d.out, "NATS", "--nats-listen", c.NATSListen)
	if err != nil {
		return err
	}
	httpListen, err := freeAddress(d.out, "the status page", "--http-listen", c.HTTPListen)
	if err != nil {
		return err
	}
	o := demoOptions(dir, d.api.url, d.api.agencies)
	o.NATSListen, o.HTTPListen = natsListen, httpListen
	d.daemon, err = daemon.New(ctx, o)
	if err != nil {
		return err
	}
	s, err := d.daemon.Verbs().Status()
	d.nats, d.page = s.NATS.URL, s.Page
	return err
}

// Where the events of a demo are.
const demoPrefix, demoStream = "listings", "LISTINGS"

// demoOptions are those of a daemon that watches agencies of a made-up API.
func demoOptions(dir, url string, agencies []string) daemon.Options {
	o := daemon.Options{
		DataDir: dir, Version: release, ShowPeople: true, SubjectPrefix: demoPrefix, Stream: demoStream, ManageStream: true, Retention: 24 * time.Hour,
		StreamMax: 1 << 30, Log: discardLog(),
		Poller: poller.Options{
			API: listings.Options{BaseURL: url}, RequestsPerSecond: 50, PollInterval: time.Second, WalkInterval: 2 * time.Second,
		},
	}
	for _, id := range agencies {
		o.Poller.Agencies = append(o.Poller.Agencies, poller.AgencyKeys{ID: id, Key: listings.NewKey(madeUpKey)})
	}
	return o
}

// freeAddress returns the address, or one with a free port if it is in use, and says so.
func freeAddress(w io.Writer, what, flag, address string) (string, error) {
	if address == "off" {
		return "", exit.Usage(flag+": the demo needs an address", "leave it out, or give one like 127.0.0.1:0")
	}
	if host, _, err := net.SplitHostPort(address); err == nil && !config.Loopback(host) {
		return "", exit.Usage(flag+": the demo lets nobody in from other machines", "give an address like 127.0.0.1:0")
	}
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
	d.greet()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.daemon.Run(running) }()
	printErr := d.print(running, stream.Conn{Conn: nc})
	stop()
	return errors.Join(printErr, <-ended)
}

func (d *demo) greet() {
	fmt.Fprintf(d.out, `doorbell demo: everything here is made up, and gone when it ends.

  The listings API   %s (agencies %s)
  NATS               %s (stream LISTINGS)
  The status page    %s

Subscribe from another terminal, with the nats command or any NATS client:

  nats --server %s sub 'listings.v1.*.contact_request.created'

What was there before is learned first and not announced. Then, as it happens:

`, d.api.url, strings.Join(d.api.agencies, ", "), d.nats, d.page, d.nats)
}

// print reads the stream as any subscriber would, and shows each event as it arrives, until ctx
// ends.
func (d *demo) print(ctx context.Context, nc stream.Conn) error {
	for !d.daemon.Health().Ready && ctx.Err() == nil { // until the relay has made the stream
		time.Sleep(10 * time.Millisecond)
	}
	for e, err := range relay.Tail(ctx, nc, relay.TailOptions{Stream: demoStream, Prefix: demoPrefix, All: true}) {
		if err != nil && ctx.Err() != nil {
			return nil // it ended before it had begun
		}
		if err == nil {
			err = d.show(e)
		}
		if err != nil {
			return exit.Failed(err, "")
		}
	}
	return nil
}

func (d *demo) show(e events.Event) error {
	d.counts[e.Type]++
	if e.Type == events.TypeContactRequestCreated {
		if d.first == 0 {
			d.first = time.Since(d.began)
		}
		d.latencies = append(d.latencies, time.Since(e.Time))
	}
	if d.objects != nil {
		return printJSONEvent(d.objects, e)
	}
	return printEvent(d.out, d.terminal, e, false, ops.Line(e, true, d.terminal.Width)) // its people are made up
}

func (d *demo) summary() {
	total := 0
	for _, n := range d.counts {
		total += n
	}
	fmt.Fprintf(d.out, "\n%d events in %s\n", total, time.Since(d.began).Round(100*time.Millisecond))
	for _, t := range events.Types {
		if n := d.counts[t]; n > 0 {
			fmt.Fprintf(d.out, "  %5d  %s\n", n, t)
		}
	}
	if len(d.latencies) > 0 {
		slices.Sort(d.latencies)
		fmt.Fprintf(d.out, "The first contact request arrived %s after the start; half of them within %s of being made.\n",
			d.first.Round(100*time.Millisecond), d.latencies[len(d.latencies)/2].Round(10*time.Millisecond))
	}
}
