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
	out := p.stdout // for people
	if c.JSON {
		out = p.stderr
	}
	api := flow(ctx, sandbox.NewModel(sandbox.Options{Seed: 1}), sandbox.GeneratorOptions{
		Seed: 1, Agencies: []string{"A100", "B200"}, Insertions: 25, History: 4,
		ContactRequestsPerMinute: 60, ChangesPerMinute: 45,
	})
	if err := api.serve(ctx, out, "127.0.0.1:0"); err != nil {
		return err
	}
	if c.Standby {
		d := pairDemo{p: p, out: out, dir: dir, api: api, began: time.Now()}
		if err := d.run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	}
	return c.watch(ctx, p, out, api, dir)
}

// Where the events of a demo are.
const demoPrefix, demoStream = "listings", "LISTINGS"

// fast is the environment of a doorbell that watches closely.
func (m *madeUp) fast(dir string) []string {
	return append(m.environ(), "DOORBELL_DATA_DIR="+dir, "DOORBELL_REQUESTS_PER_SECOND=50",
		"DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=2s")
}

// watch runs a daemon and reads its stream as any subscriber would.
func (c *DemoCmd) watch(ctx context.Context, p *program, out io.Writer, api madeUp, dir string) error {
	began := time.Now()
	natsListen, err := freeAddress(out, "NATS", c.NATSListen)
	if err != nil {
		return err
	}
	httpListen, err := freeAddress(out, "the status page", c.HTTPListen)
	if err != nil {
		return err
	}
	cfg, err := config.Read(append(api.fast(dir), "DOORBELL_NATS_LISTEN="+natsListen, "DOORBELL_HTTP_LISTEN="+httpListen,
		"DOORBELL_SHOW_PEOPLE=true", "DOORBELL_STREAM_MAX=1GiB"), config.GroupPoll)
	if err != nil {
		return err
	}
	d, err := daemon.New(ctx, DaemonOptions(cfg, discardLog()))
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Verbs().Status()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `doorbell demo: everything here is made up, and gone when it ends.

  The listings API   %s (agencies %s)
  NATS               %[3]s (stream LISTINGS)
  The status page    %s

Subscribe from another terminal, with the nats command or any NATS client:

  nats --server %[3]s sub 'listings.v1.*.contact_request.created'

What was there before is learned first and not announced. Then, as it happens:

`, api.API, strings.Join(api.Agencies, ", "), s.NATS.URL, s.Page)
	put, err := EventForm{JSON: c.JSON}.printer(p, func(e ops.LoggedEvent, width int) string {
		return ops.Line(e.Event, true, width) // its people are made up
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	for !d.Health().Ready && ctx.Err() == nil { // until the relay has made the stream
		time.Sleep(10 * time.Millisecond)
	}
	count, first := 0, time.Duration(0)
	err = p.tailOf(ctx, s.NATS.URL, "", func(e ops.LoggedEvent) error {
		count++
		if first == 0 && e.Event.Type == events.TypeContactRequestCreated {
			first = time.Since(began)
		}
		return put(e)
	})
	stop()
	err = errors.Join(err, <-ended)
	fmt.Fprintf(out, "\n%d events in %s\n", count, time.Since(began).Round(100*time.Millisecond))
	if first > 0 {
		fmt.Fprintf(out, "The first contact request arrived %s after the start.\n", first.Round(100*time.Millisecond))
	}
	return err
}

// freeAddress returns the address, or one with a free port if it is in use, and says so.
func freeAddress(w io.Writer, what, address string) (string, error) {
	l, err := listen(w, what, address)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tailOf reads the events of a demo from the beginning, until ctx ends.
func (p *program) tailOf(ctx context.Context, url string, of events.Type, put func(ops.LoggedEvent) error) error {
	conn, err := p.connectTo(ctx, natsd.Dial{URL: url})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	o := relay.TailOptions{Stream: demoStream, Prefix: demoPrefix, Type: of, All: true}
	return tail(ctx, conn, o, put, func(string, ...any) {})
}

// pairDemo is `doorbell demo --standby`: three NATS servers and a made-up API in this process, and
// two doorbells in processes of their own, one of which is killed.
type pairDemo struct {
	p     *program
	out   io.Writer
	dir   string
	api   madeUp
	began time.Time
	urls  string // of the servers
}

const (
	beforeKill = 10 * time.Second // how long both doorbells go on before the kill
	afterKill  = 10 * time.Second // and after the takeover
	// takeoverLimit is more than a takeover and the start of a process take.
	takeoverLimit = time.Minute
)

func (d *pairDemo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "  %5.1f s  "+format+"\n", append([]any{time.Since(d.began).Seconds()}, args...)...)
}

// run kills the doorbell that works, and compares the stream at the end.
func (d *pairDemo) run(ctx context.Context) error {
	urls, stop, err := natsd.StartThree(ctx, filepath.Join(d.dir, "nats"))
	if err != nil {
		return err
	}
	defer stop()
	d.urls = urls
	if err := d.makeStream(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "doorbell demo: three NATS servers and two doorbells, one and two. Everything is made up, and gone when it ends.\n\n  NATS  %s\n\n", urls)
	killOne, err := d.launch(ctx, "one")
	if err != nil {
		return err
	}
	defer killOne()
	if err := d.asks(ctx, "one"); err != nil {
		return err
	}
	killTwo, err := d.launch(ctx, "two")
	if err != nil {
		return err
	}
	defer killTwo()
	d.say("one works, two waits")
	since := time.Now()
	if err := sleep(ctx, beforeKill); err != nil {
		return err
	}
	killOne()
	killed := time.Now()
	d.say("one is killed")
	if err := d.asks(ctx, "two"); err != nil {
		return err
	}
	d.say("two has taken over: its first request, %.1f s after the kill", time.Since(killed).Seconds())
	leads, lost, doubled, err := d.compare(ctx, since)
	if err != nil {
		return err
	}
	d.say("%s since the start: %d lost, %d doubled", ops.Counted(leads, "contact request"), lost, doubled)
	if lost+doubled > 0 {
		return errors.New("the stream does not hold each contact request once")
	}
	return nil
}

// makeStream makes the stream with three replicas.
func (d *pairDemo) makeStream(ctx context.Context) error {
	conn, err := d.p.connectTo(ctx, natsd.Dial{URL: d.urls})
	if err != nil {
		return err
	}
	js, err := conn.JetStream()
	if err == nil {
		o := relay.Options{Prefix: demoPrefix, Stream: demoStream, MaxAge: 24 * time.Hour, Replicas: 3}
		_, err = js.CreateStream(ctx, o.StreamConfig())
	}
	return err
}

// launch starts a doorbell like a user does. The function that it returns kills it.
func (d *pairDemo) launch(ctx context.Context, name string) (kill func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "run")
	c.Args[0] = os.Args[0] // a program may be called by another name than its file has
	c.Env = append(d.api.fast(filepath.Join(d.dir, name)), "NATS_URL="+d.urls, "DOORBELL_STANDBY=demo", "DOORBELL_HTTP_LISTEN=off")
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}, c.Start()
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

// compare compares the stream with what the API knows. It reads on for a while, and longer where
// what was created last has not arrived.
func (d *pairDemo) compare(ctx context.Context, since time.Time) (leads, lost, doubled int, err error) {
	until, arrived := time.Now(), map[string]int{}
	count := func() {
		leads, lost, doubled = 0, 0, 0
		for _, c := range d.api.model.Truth().ContactRequests {
			if c.VisibleFrom.Before(since) || c.VisibleFrom.After(until) {
				continue
			}
			leads++
			switch n := arrived[c.AgencyID+" "+c.ID]; {
			case n == 0:
				lost++
			case n > 1:
				doubled++
			}
		}
	}
	ctx, stop := context.WithTimeout(ctx, afterKill+takeoverLimit)
	defer stop()
	err = d.p.tailOf(ctx, d.urls, events.TypeContactRequestCreated, func(e ops.LoggedEvent) error {
		body, err := e.Event.Payload()
		if c, is := body.(*events.ContactRequestCreated); is {
			arrived[e.Event.AgencyID+" "+c.ContactRequestID]++
		}
		if count(); lost == 0 && time.Since(until) > afterKill {
			stop()
		}
		return err
	})
	count()
	return leads, lost, doubled, err
}
