package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/replay"
	"doorbell/store"
)

// ReplayCmd is `doorbell replay`.
type ReplayCmd struct {
	EventFilter
	To     string   `placeholder:"nats|-|slack|email|webhook" help:"nats, the default, publishes on <prefix>.replay.<job>.<agency>.<type>; - prints CloudEvents JSON, one object a line, with people's data; slack, email and webhook send to the outlets that are configured, as far as their filters want it."`
	Stdout bool     `help:"The same as --to -."`
	Job    string   `placeholder:"NAME" help:"Name of the job, part of its subjects; the same one again goes on where it was stopped. Default one made of the time."`
	Rate   *float64 `placeholder:"N" help:"So many events a second; 0 for as fast as they are acknowledged. Default 500 to NATS, 0 to standard output."`
	DryRun bool     `help:"Only say how many events there are, by agency and type."`
	Yes    bool     `help:"Do not ask before more than 1,000 events go to NATS or an outlet."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

// mostUnasked is how many events are replayed without a question, and usualRate how many a second.
const (
	mostUnasked = 1000
	usualRate   = 500
)

// Help is printed by --help below the flags.
func (ReplayCmd) Help() string {
	return "Events keep their id, sequence, time and payload, with origin replay. They go to a stream of their own, LISTINGS_REPLAY, which keeps " +
		"them for a day; consumers of news hear nothing of it. What is recorded while it runs is not replayed. One job is one choice of events: " +
		"take another name for another, or for one that begins earlier. Without filters all of the event log is meant.\n\n" +
		"Example:\n  doorbell replay --type contact_request.created --since 2026-11-19T00:00:00Z --job crm-2 --dry-run"
}

// Validate refuses what cannot be.
func (c *ReplayCmd) Validate() error {
	switch {
	case c.To != "" && c.Stdout:
		return errors.New("--to and --stdout can't be used together")
	case c.To != "" && c.To != "nats" && c.To != "-" && !c.toOutlet():
		return errors.New("--to: write nats, -, slack, email or webhook")
	}
	if c.Stdout {
		c.To = "-"
	}
	switch {
	case c.Job != "" && replay.ValidJob(c.Job) != nil:
		return errors.New("--job: write 1 to 64 letters, digits, _ and -")
	case c.Job != "" && c.To != "" && c.To != "nats":
		return errors.New("--job: has a meaning for NATS alone")
	case c.Rate != nil && c.toOutlet():
		return errors.New("--rate: outlets have a pace of their own")
	case c.Rate != nil && !(*c.Rate == 0 || *c.Rate >= 0.001 && *c.Rate <= 1e6):
		return errors.New("--rate: write a number from 0.001 to 1000000, or 0 for as fast as they are acknowledged")
	}
	return c.valid()
}

// Run replays.
func (c *ReplayCmd) Run(ctx context.Context, p *program) error { return cmdReplay(ctx, p, c) }

// cmdReplay counts what is meant, asks if it is much, and sends it to NATS or prints it.
func cmdReplay(ctx context.Context, p *program, c *ReplayCmd) error {
	now := time.Now()
	q, err := c.query(now)
	if err != nil {
		return err
	}
	config, to, err := c.settings(p)
	if err != nil {
		return err
	}
	log, kept, err := openLog(ctx, config.Base)
	if err != nil {
		return err
	}
	if kept != nil {
		defer kept.Close()
	}
	q.Published = true // what the stream has not taken is on its way, and has no number to replay it under
	counts, err := log.CountEvents(ctx, q)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return logError(err, config.Base)
	case c.DryRun:
		return printCounts(p, counts, c.JSON)
	case counts.Total == 0:
		fmt.Fprintln(p.stderr, noEvent(ctx, log))
		return c.nothing(p)
	}
	q.UpTo = counts.UpTo // what comes later was not asked about
	if c.To == "-" {     // nobody is flooded
		return c.print(ctx, p, config.Base, log, q)
	}
	if err := c.confirm(ctx, p, counts.Total); err != nil || ctx.Err() != nil {
		return err
	}
	if c.toOutlet() {
		return c.send(ctx, p, config.Base, log, q, to, counts.Total)
	}
	request := ops.ReplayRequest{Query: q, Total: counts.Total, Job: c.Job, Rate: usualRate}
	if request.Job == "" {
		request.Job = now.UTC().Format("20060102-150405-") + fmt.Sprintf("%03d", now.Nanosecond()/1e6)
	}
	if c.Rate != nil {
		request.Rate = *c.Rate
	}
	return c.publish(ctx, p, config, kept, request)
}

// nothing is what is printed where no event is meant: to programs, that there were none.
func (c *ReplayCmd) nothing(p *program) error {
	switch {
	case !c.JSON || c.To == "-":
		return nil
	case c.toOutlet():
		return p.printJSON(sentReplay{})
	}
	return p.printJSON(ops.ReplayProgress{Job: c.Job})
}

// print writes the events to standard output.
func (c *ReplayCmd) print(ctx context.Context, p *program, b Base, log eventLog, q ops.EventQuery) error {
	pause := newPause(c.Rate)
	for e, err := range log.Events(ctx, q) {
		if pause(ctx); ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return logError(err, b)
		}
		if err := printEvent(p.stdout, e.Event.WithOrigin(events.OriginReplay), true, nil); err != nil {
			return err
		}
	}
	return nil
}

// newPause is a wait that lets so many pass a second.
func newPause(rate *float64) func(context.Context) {
	if rate == nil || *rate == 0 {
		return func(context.Context) {}
	}
	every, due := time.Duration(float64(time.Second) / *rate), time.Now()
	return func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
		due = due.Add(every)
	}
}

// publish lets the daemon replay; where none runs and NATS is somewhere else, it does it itself.
func (c *ReplayCmd) publish(ctx context.Context, p *program, config *Config, kept *store.Store, q ops.ReplayRequest) error {
	var last ops.ReplayProgress
	told := func(now ops.ReplayProgress) error {
		if last.Job == "" {
			fmt.Fprintf(p.stderr, "replaying %s to %s, job %s\n", ops.Counted(now.Total, "event"), now.Subject, now.Job)
		} else if isTerminal(p.stderr) {
			fmt.Fprintf(p.stderr, "\r%d of %d", now.Published+now.AlreadyThere, now.Total)
		}
		last = now
		return nil
	}
	var err error
	switch {
	case kept == nil:
		err = ops.NewClient(filepath.Join(config.Base.DataDir, daemon.SocketFile)).Replay(ctx, q, told)
	case config.NATS.URL == "":
		return failed(errors.New("no daemon runs, and with it no NATS server"), "start doorbell run, set NATS_URL to another server, or print the events with --to -")
	default:
		err = replayKept(ctx, config, kept, q, told)
	}
	if isTerminal(p.stderr) && last.Job != "" {
		fmt.Fprintln(p.stderr)
	}
	again := "doorbell replay " + c.again(q)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(p.stderr, "stopped; at least %d of %d are there, and this goes on:\n  %s\n", last.Published+last.AlreadyThere, q.Total, printable(again))
		return nil
	case errors.Is(err, ops.ErrNoAnswer):
		return failed(errors.New("the daemon broke off"), "look at its log; this goes on: "+again)
	case err != nil:
		return replayError(err, again)
	case c.JSON:
		return p.printJSON(last)
	}
	fmt.Fprintf(p.stdout, "%s replayed to %s, stream %s; there already: %d\n", ops.Counted(last.Published, "event"), last.Subject, last.Stream, last.AlreadyThere)
	return nil
}

// replayError says what to do about a replay that ended early.
func replayError(err error, again string) error {
	hint := ops.Hint(err)
	if hint == "" {
		hint = "this goes on: " + again
	}
	return failed(err, hint)
}

// replayKept does the same without a daemon, to an external server.
func replayKept(ctx context.Context, c *Config, kept *store.Store, q ops.ReplayRequest, told func(ops.ReplayProgress) error) error {
	conn, err := natsd.Connect(c.NATS.dial(), quiet())
	if err != nil {
		return ops.WithHint(err, "check the NATS_* settings")
	}
	defer conn.Close()
	_, err = daemon.Replay(ctx, c.daemonOptions(quiet()), kept, conn, q, told)
	return err
}
