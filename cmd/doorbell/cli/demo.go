package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
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

// DemoCmd is `doorbell demo`. It reads no environment variables.
type DemoCmd struct {
	For        time.Duration `placeholder:"DURATION" help:"Stop after this time; 0 for never."`
	Standby    bool          `xor:"what" help:"Show a takeover instead: two doorbells and three NATS servers, and the active doorbell is killed. Takes about 50 s."`
	JSON       bool          `name:"json" xor:"what" help:"Print CloudEvents JSON, one object a line, with personal data; everything else goes to standard error."`
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

// Run shows everything at work with a made-up API. It reads no environment and leaves nothing
// behind.
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
	if !c.Standby {
		return c.watch(ctx, p, out, api, dir)
	}
	if err := takeover(ctx, p, out, api, dir); ctx.Err() == nil {
		return err
	}
	return nil
}

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
	cfg, err := config.Read(
		append(api.fast(dir), "DOORBELL_NATS_LISTEN="+natsListen, "DOORBELL_HTTP_LISTEN="+httpListen,
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

What already exists is learned first and not announced. Then, as it happens:

`, api.API, strings.Join(api.Agencies, ", "), s.NATS.URL, s.Page)
	running, stop := context.WithCancel(ctx) // the demo ends with its daemon
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- d.Run(running)
	}()
	for !d.Health().Ready && running.Err() == nil { // until there is a stream
		time.Sleep(10 * time.Millisecond)
	}
	count := 0
	conn, err := p.connectTo(running, natsd.Dial{URL: s.NATS.URL})
	switch {
	case running.Err() != nil: // the end of the demo is no failure to connect
		err = nil
	case err == nil:
		count, err = EventForm{JSON: c.JSON}.print(running, p, p.tail(running, conn, demoStream),
			func(e ops.LoggedEvent, width int) string {
				return ops.Line(e.Event, true, width) // its people are made up
			})
	}
	stop()
	err = errors.Join(err, <-ended)
	fmt.Fprintf(out, "\n%d events in %s\n", count, time.Since(began).Round(100*time.Millisecond))
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

// demoStream is all that a demo publishes, from the beginning.
var demoStream = relay.TailOptions{Stream: "LISTINGS", Prefix: "listings", All: true}

const (
	quiet = 10 * time.Second // before the kill, and after the takeover
	// takeoverLimit is more than a takeover and the start of a process take.
	takeoverLimit = time.Minute
)

// takeover runs three NATS servers in this process and two doorbells in processes of their own. It
// kills the doorbell that works, and compares the stream with what the API knows.
func takeover(ctx context.Context, p *program, out io.Writer, api madeUp, dir string) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "  %5.1f s  %s\n", time.Since(began).Seconds(),
			fmt.Sprintf(format, args...))
	}
	urls, stop, err := natsd.StartThree(ctx, filepath.Join(dir, "nats"))
	if err != nil {
		return err
	}
	defer stop()
	conn, err := p.connectTo(ctx, natsd.Dial{URL: urls})
	if err != nil {
		return err
	}
	js, err := conn.JetStream()
	if err == nil {
		o := relay.Options{Prefix: "listings", Stream: "LISTINGS", MaxAge: 24 * time.Hour, Replicas: 3}
		_, err = js.CreateStream(ctx, o.StreamConfig())
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "doorbell demo: three NATS servers and two doorbells, one and two. "+
		"Everything is made up, and gone when it ends.\n\n  NATS  %s\n\n", urls)
	launch := func(name string) (kill func(), err error) {
		environ := append(api.fast(filepath.Join(dir, name)), "NATS_URL="+urls,
			"DOORBELL_STANDBY=demo", "DOORBELL_HTTP_LISTEN=off")
		return launchRun(ctx, environ)
	}
	killOne, err := launch("one")
	if err != nil {
		return err
	}
	defer killOne()
	if err := api.isAsked(ctx); err != nil {
		return err
	}
	killTwo, err := launch("two")
	if err != nil {
		return err
	}
	defer killTwo()
	say("one is active, two waits")
	since := time.Now()
	if err := sleep(ctx, quiet); err != nil {
		return err
	}
	killOne()
	killed := time.Now()
	say("one is killed")
	if err := api.isAsked(ctx); err != nil {
		return err
	}
	say("two has taken over: its first request, %.1f s after the kill", time.Since(killed).Seconds())
	if err := sleep(ctx, quiet); err != nil {
		return err
	}
	reading, stopReading := context.WithTimeout(ctx, takeoverLimit)
	defer stopReading()
	leads, lost, doubled, err := compare(reading, p.tail(reading, conn, demoStream),
		api.model.Truth(), since)
	if err != nil {
		return err
	}
	say("%s since the start: %d lost, %d doubled", ops.Counted(leads, "contact request"), lost,
		doubled)
	if lost+doubled > 0 {
		return errors.New("the stream does not hold each contact request exactly once")
	}
	return nil
}

// launchRun starts `doorbell run` like a user does.
func launchRun(ctx context.Context, environ []string) (kill func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "run")
	c.Args[0] = os.Args[0] // a program may be called by another name than its file has
	c.Env = environ
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}, c.Start()
}

// isAsked waits until a doorbell sends its next request.
func (m *madeUp) isAsked(ctx context.Context) error {
	before, limit := m.model.Requests(sandbox.Filter{}), time.Now().Add(takeoverLimit)
	for m.model.Requests(sandbox.Filter{}) == before {
		if time.Now().After(limit) {
			return errors.New("no doorbell is sending requests")
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// compare looks in a stream for the contact requests that the API showed since a moment. It reads
// until the last one has arrived.
func compare(ctx context.Context, list iter.Seq2[ops.LoggedEvent, error], truth sandbox.Truth,
	since time.Time,
) (leads, lost, doubled int, err error) {
	arrived := map[string]int{}
	for _, c := range truth.ContactRequests {
		if c.VisibleFrom.After(since) && c.VisibleFrom.Before(time.Now()) {
			arrived[c.AgencyID+" "+c.ID] = 0
		}
	}
	lost = len(arrived)
	for e, err := range list {
		if ctx.Err() != nil || lost == 0 {
			break
		}
		if err != nil {
			return 0, 0, 0, err
		}
		body, _ := e.Event.Payload()
		c, is := body.(*events.ContactRequestCreated)
		if !is {
			continue
		}
		name := e.Event.AgencyID + " " + c.ContactRequestID
		switch n, counts := arrived[name]; {
		case !counts:
			continue
		case n == 0:
			lost--
		default:
			doubled++
		}
		arrived[name]++
	}
	return len(arrived), lost, doubled, nil
}
