package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/relay"
)

// ReplayCmd is `doorbell replay`.
type ReplayCmd struct {
	EventFilter
	To   string  `default:"nats" enum:"nats,-,${receivers}" placeholder:"nats|-|${receivers_or}" help:"nats, the default, publishes on <prefix>.replay.<job>.<agency>.<type>; - prints CloudEvents JSON, one object a line, with personal data; ${receivers_or} sends to the configured receivers those events that the routes take."`
	Job  string  `placeholder:"NAME" help:"Name of the job, part of its subjects; run again under the same name, it sends nothing twice. Default: a name derived from the time."`
	Rate float64 `default:"500" help:"Events per second to NATS; 0 for as fast as they are acknowledged."`
	Yes  bool    `help:"Required for more than 1,000 events to NATS or a receiver."`
	JSON bool    `name:"json" help:"Print JSON."`
}

// mostUnconfirmed is how many events are replayed without --yes.
const mostUnconfirmed = 1000

func (c *ReplayCmd) Validate() error {
	switch {
	case c.To != "nats" && c.Job != "":
		return errors.New("--job: works only with --to nats")
	case c.Job != "" && relay.ValidJob(c.Job) != nil:
		return errors.New("--job: write 1 to 64 letters, digits, _ and -")
	case !(c.Rate == 0 || c.Rate >= 0.001 && c.Rate <= 1e6):
		return errors.New(
			"--rate: write a number from 0.001 to 1000000, or 0 for as fast as they are acknowledged")
	}
	return c.EventFilter.Validate()
}

// toReceiver reports whether the events go to receivers and not to NATS or standard output.
func (c *ReplayCmd) toReceiver() bool { return slices.Contains(receivers.Kinds, c.To) }

// Run counts the events, asks for confirmation if there are many, and sends or prints them.
func (c *ReplayCmd) Run(ctx context.Context, p *program) error {
	var to *receivers.Set
	cfg, err := config.Read(p.environ)
	if c.toReceiver() {
		cfg, to, err = p.receivers(c.To, c.To)
	}
	if err != nil {
		return err
	}
	log, err := p.openLog(ctx, cfg)
	if err != nil {
		return err
	}
	if log.alone && c.To != "-" {
		return exit.Failed(errors.New("no daemon is running"),
			"start it with doorbell run, or print the events with --to -")
	}
	q := c.query()
	q.Published = true // events that the stream does not have yet are on their way to it
	q.Unerased = true
	counts, err := ops.CountEvents.Ask(ctx, log.Client, q)
	if err != nil {
		return err
	}
	q.ToSequence = counts.UpTo // later events are not in the confirmed number
	if c.To == "-" {           // needs no confirmation
		return printReplay(ctx, p, log, q)
	}
	err = confirmed(c.Yes || counts.Total <= mostUnconfirmed,
		fmt.Sprintf("%d events would be replayed", counts.Total))
	switch {
	case err != nil:
		return err
	case c.toReceiver():
		return c.send(ctx, p, log, q, to, counts.Total)
	}
	job := cmp.Or(c.Job,
		strings.Replace(time.Now().UTC().Format("20060102-150405.000"), ".", "-", 1))
	return c.publish(ctx, p, cfg.Base,
		ops.ReplayRequest{Query: q, Total: counts.Total, Job: job, Rate: c.Rate})
}

// printReplay prints the events as programs read them.
func printReplay(ctx context.Context, p *program, log *eventLog, q ops.EventQuery) error {
	for e, err := range log.Events(ctx, q) {
		var erased bool
		if err == nil {
			erased, err = log.erased(ctx, e.Event) // since its page was read
		}
		if err == nil && !erased {
			err = printJSONEvent(p.stdout, e.Event.WithOrigin(events.OriginReplay))
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// publish has the daemon replay to NATS.
func (c *ReplayCmd) publish(ctx context.Context, p *program, b config.Base, q ops.ReplayRequest) error {
	p.note("replaying %s, job %s", ops.Counted(q.Total, "event"), q.Job)
	r, err := ops.Replay.Ask(ctx, options.Client(b), q)
	again := "to continue, run it again with --job " + q.Job
	switch {
	case ctx.Err() != nil:
		p.note("stopped; %s", again)
		return nil
	case err != nil:
		return exit.Failed(err, again)
	}
	return p.result(c.JSON, r, fmt.Sprintf("%s replayed to %s, stream %s; already present: %d",
		ops.Counted(r.Published, "event"), r.Subject, r.Stream, r.AlreadyThere))
}

// sentReplay is the result of a replay to receivers.
type sentReplay struct {
	forward.Replayed
	Total int `json:"total"`
	// Next is the position at which a stopped replay continues.
	Next uint64 `json:"next,omitempty"`
}

// send sends events to receivers, each as a message of its own. Events that no route takes are
// skipped.
func (c *ReplayCmd) send(ctx context.Context, p *program, log *eventLog, q ops.EventQuery,
	to *receivers.Set, total int,
) (err error) {
	p.note("replaying %s to %s", ops.Counted(total, "event"), c.To)
	done := sentReplay{Total: total}
	list := func(yield func(events.Event, error) bool) {
		for e, err := range log.Events(ctx, q) {
			if err == nil {
				done.Next = e.Event.Sequence
			}
			if !yield(e.Event, err) {
				return
			}
		}
		done.Next = 0
	}
	erased := func(e events.Event) (bool, error) { return log.erased(ctx, e) }
	done.Replayed, err = forward.SendReplayed(ctx, to.Routes(), list, erased, func(failed error) {
		_, reason := receivers.Outcome(failed)
		p.note("%s failed; retrying: %s", c.To, reason)
	})
	again := fmt.Sprintf("to continue, run it again with --from-sequence %d", done.Next)
	switch {
	case ctx.Err() != nil:
		p.note("stopped; %s", again)
		err = nil
	case err != nil:
		err = exit.Failed(fmt.Errorf("at sequence %d: %w", done.Next, err), again)
	case done.Refused > 0:
		err = exit.Failed(
			fmt.Errorf("%s permanently rejected by %s", ops.Counted(done.Refused, "event"), c.To),
			"see the daemon's log, or run doorbell forward with --test")
	}
	text := fmt.Sprintf("%s sent to %s; refused: %d", ops.Counted(done.Events, "event"), c.To,
		done.Refused)
	return cmp.Or(p.result(c.JSON, done, text), err)
}
