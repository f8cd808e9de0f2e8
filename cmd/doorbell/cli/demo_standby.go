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

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/poller/sandbox"
)

// pairDemo is `doorbell demo --standby`: three NATS servers and a made-up API in this process, and
// two doorbells in processes of their own, one of which is killed.
type pairDemo struct {
	out  io.Writer
	dir  string
	api  madeUp
	urls string // of the servers

	stream stream.Client // of the events

	doorbells [2]*exec.Cmd
}

// before and after are how long the demo goes on before and after the kill.
const before, after = 10 * time.Second, 10 * time.Second

// takeoverLimit is more than a takeover and the start of a process take.
const takeoverLimit = time.Minute

func (d *pairDemo) run(ctx context.Context, seed uint64) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return exit.IO(err, "")
	}
	d.api = serveMadeUp(ctx, sandbox.NewModel(sandbox.Options{Seed: seed}), l, sandbox.GeneratorOptions{
		Seed: seed, Agencies: []string{"A100", "B200"}, Insertions: 25, History: 4, ContactRequestsPerMinute: 60,
	})
	urls, stop, err := natsd.StartThree(ctx, filepath.Join(d.dir, "nats"))
	if err != nil {
		return exit.Failed(err, "")
	}
	defer stop()
	d.urls = urls
	conn, err := daemon.Connect(natsd.Dial{URL: urls}, discardLog())
	if err != nil {
		return exit.Failed(err, "")
	}
	defer conn.Close()
	d.stream = stream.Client{Conn: conn, Stream: demoStream, Wait: 5 * time.Second}
	js, err := conn.JetStream()
	if err != nil {
		return exit.Failed(err, "")
	}
	o := demoOptions(d.dir, d.api.url, d.api.agencies)
	made := relay.Options{Prefix: demoPrefix, Stream: demoStream, MaxAge: o.Retention, Replicas: 3}.StreamConfig()
	if _, err := js.CreateStream(ctx, made); err != nil {
		return exit.Failed(err, "")
	}
	fmt.Fprintf(d.out, "doorbell demo: three NATS servers and two doorbells, one and two. Everything is made up, and gone when it ends.\n\n  NATS  %s\n\n", urls)
	defer d.kill(0)
	defer d.kill(1)
	for n := range d.doorbells {
		if err := d.launch(ctx, n); err != nil {
			return err
		}
		if _, err := d.await(ctx, n, n == 0); err != nil { // the first one works
			return err
		}
	}
	return d.story(ctx)
}

var pairNames = [2]string{"one", "two"}

// launch starts a doorbell like a user does.
func (d *pairDemo) launch(ctx context.Context, n int) error {
	program, err := os.Executable()
	if err != nil {
		return exit.IO(err, "")
	}
	c := exec.CommandContext(ctx, program, "run")
	c.Args[0] = os.Args[0] // a program may be called by another name than its file has
	c.Env = []string{
		"DOORBELL_DATA_DIR=" + filepath.Join(d.dir, pairNames[n]), "DOORBELL_BASE_URL=" + d.api.url, "DOORBELL_API_KEY=" + madeUpKey,
		"DOORBELL_AGENCIES=" + strings.Join(d.api.agencies, ","), "NATS_URL=" + d.urls, "DOORBELL_STANDBY=demo", "DOORBELL_HTTP_LISTEN=off",
		"DOORBELL_REQUESTS_PER_SECOND=50", "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=2s",
	}
	if err := c.Start(); err != nil {
		return exit.IO(err, "")
	}
	d.doorbells[n] = c
	return nil
}

func (d *pairDemo) kill(n int) {
	if c := d.doorbells[n]; c != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		d.doorbells[n] = nil
	}
}

// await waits until a doorbell works, or waits.
func (d *pairDemo) await(ctx context.Context, n int, works bool) (ops.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverLimit)
	defer cancel()
	client := ops.NewClient(filepath.Join(d.dir, pairNames[n], daemon.SocketFile))
	for {
		s, err := client.Status(ctx)
		if err == nil && s.Standby != nil && s.Standby.Works == works {
			return s, nil
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return s, exit.Failed(fmt.Errorf("doorbell %s does not start", pairNames[n]), "")
		}
	}
}

// story kills the doorbell that works, and checks the stream at the end.
func (d *pairDemo) story(ctx context.Context) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(d.out, "  %5.1f s  "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	say("one works, two waits")
	if sleep(ctx, before) != nil {
		return nil
	}
	d.kill(0)
	killed := time.Now()
	asked := d.api.model.Requests(sandbox.Filter{})
	say("one is killed")
	for d.api.model.Requests(sandbox.Filter{}) == asked {
		if time.Since(killed) > takeoverLimit {
			return exit.Failed(errors.New("doorbell two does not take over"), "")
		}
		if sleep(ctx, 10*time.Millisecond) != nil {
			return nil
		}
	}
	say("two has taken over: its first request, %.1f s after the kill", time.Since(killed).Seconds())
	if sleep(ctx, after) != nil {
		return nil
	}
	leads, lost, doubled, err := d.compare(ctx, began)
	if err != nil {
		return exit.Failed(err, "")
	}
	say("%s since the start: %d lost, %d doubled", ops.Counted(leads, "contact request"), lost, doubled)
	if lost+doubled > 0 {
		return exit.Failed(errors.New("the stream does not hold each contact request once"), "")
	}
	return nil
}

// compare compares the stream with what the API knows. It waits for what was created last.
func (d *pairDemo) compare(ctx context.Context, began time.Time) (leads, lost, doubled int, err error) {
	until := time.Now()
	for {
		times, err := d.created(ctx)
		if err != nil {
			return 0, 0, 0, err
		}
		leads, lost, doubled = 0, 0, 0
		for _, c := range d.api.model.Truth().ContactRequests {
			if c.VisibleFrom.Before(began) || c.VisibleFrom.After(until) {
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
		if lost == 0 || time.Since(until) > takeoverLimit || sleep(ctx, time.Second) != nil {
			return leads, lost, doubled, nil
		}
	}
}

// created counts the events of each contact request in the stream.
func (d *pairDemo) created(ctx context.Context) (map[string]int, error) {
	times := map[string]int{}
	filter := demoPrefix + ".v1.*." + string(events.TypeContactRequestCreated)
	_, err := d.stream.ReadToEnd(ctx, filter, 0, func(m *stream.Message) error {
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			return err
		}
		body, err := e.Payload()
		if c, is := body.(*events.ContactRequestCreated); is {
			times[e.AgencyID+" "+c.ContactRequestID]++
		}
		return err
	})
	return times, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
