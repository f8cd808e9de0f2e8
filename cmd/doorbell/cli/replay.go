package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/time/rate"

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
	To   string   `placeholder:"nats|-|${receivers_or}" help:"nats, the default, publishes on <prefix>.replay.<job>.<agency>.<type>; - prints CloudEvents JSON, one object a line, with people's data; ${receivers_text} sends to the configured receivers, as far as the routes take the events."`
	Job  string   `placeholder:"NAME" help:"Name of the job, part of its subjects; run again under the same name, it sends nothing twice. Default a name made from the time."`
	Rate *float64 `placeholder:"N" help:"Events per second; 0 for as fast as they are acknowledged. Default 500 to NATS, 0 to standard output."`
	Yes  bool     `help:"Do not ask before more than 1,000 events go to NATS or a receiver."`
	JSON bool     `name:"json" help:"Print JSON."`
}

const (
	mostUnconfirmed = 1000 // events that are replayed without a question
	defaultRate     = 500  // events per second to NATS
)

func (ReplayCmd) Help() string {
	return "Events keep their id, sequence, time and payload; their origin is replay. They go to a separate stream, " +
		"LISTINGS_REPLAY, which keeps them for a day; consumers of the events stream do not see them. Events recorded " +
		"during the replay are not replayed. A job that is run again sends nothing twice. Without filters it covers the " +
		"whole event log.\n\n" +
		"Example:\n  doorbell replay --type contact_request.created --since 2026-11-19"
}

func (c *ReplayCmd) Validate() error {
	switch {
	case c.To != "" && c.To != "nats" && c.To != "-" && !c.toReceiver():
		return errors.New("--to: write nats, -, " + receiverKinds)
	case c.Job != "" && relay.ValidJob(c.Job) != nil:
		return errors.New("--job: write 1 to 64 letters, digits, _ and -")
	case c.Job != "" && c.To != "" && c.To != "nats":
		return errors.New("--job: has a meaning for NATS alone")
	case c.Rate != nil && c.toReceiver():
		return errors.New("--rate: receivers have a pace of their own")
	case c.Rate != nil && !(*c.Rate == 0 || *c.Rate >= 0.001 && *c.Rate <= 1e6):
		return errors.New("--rate: write a number from 0.001 to 1000000, or 0 for as fast as they are acknowledged")
	}
	return c.valid()
}

// Run counts the events, asks for confirmation if there are many, and sends or prints them.
func (c *ReplayCmd) Run(ctx context.Context, p *program) error {
	now := time.Now()
	q, err := c.query(now)
	if err != nil {
		return err
	}
	cfg, to, err := c.settings(p)
	if err != nil {
		return err
	}
	log, err := openLog(ctx, cfg.Base)
	if err != nil {
		return err
	}
	defer log.close()
	if log.kept != nil && c.To != "-" {
		return exit.Failed(errors.New("no daemon runs"), "start it with doorbell run, or print the events with --to -")
	}
	q.Published = true // events that the stream does not have yet are on their way to it
	q.Unerased = true
	counts, err := log.CountEvents(ctx, q)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return logError(err, cfg.Base)
	case counts.Total == 0:
		p.note("%s", noEvent(ctx, log))
		return c.nothing(p)
	}
	q.ToSequence = counts.UpTo // later events are not in the confirmed number
	if c.To == "-" {           // needs no confirmation
		return c.print(ctx, p, cfg.Base, log, q)
	}
	err = p.confirm(ctx, c.Yes || counts.Total <= mostUnconfirmed, fmt.Sprintf("%d events would be replayed", counts.Total),
		fmt.Sprintf("%d events will be replayed. Go on?", counts.Total))
	if err != nil || ctx.Err() != nil {
		return err
	}
	if c.toReceiver() {
		return c.send(ctx, p, cfg.Base, log, q, to, counts.Total)
	}
	request := ops.ReplayRequest{Query: q, Total: counts.Total, Job: c.Job, Rate: defaultRate}
	if request.Job == "" {
		request.Job = now.UTC().Format("20060102-150405-") + fmt.Sprintf("%03d", now.Nanosecond()/1e6)
	}
	if c.Rate != nil {
		request.Rate = *c.Rate
	}
	return c.publish(ctx, p, cfg.Base, request)
}

// nothing prints the result of a replay without events, for programs that expect one.
func (c *ReplayCmd) nothing(p *program) error {
	switch {
	case !c.JSON || c.To == "-":
		return nil
	case c.toReceiver():
		return p.printJSON(sentReplay{})
	}
	return p.printJSON(ops.ReplayProgress{Job: c.Job})
}

// print writes the events to standard output.
func (c *ReplayCmd) print(ctx context.Context, p *program, b config.Base, log openedLog, q ops.EventQuery) error {
	pace := rate.NewLimiter(rate.Inf, 1)
	if c.Rate != nil && *c.Rate > 0 {
		pace.SetLimit(rate.Limit(*c.Rate))
	}
	for e, err := range log.Events(ctx, q) {
		if pace.Wait(ctx) != nil {
			return nil
		}
		if err != nil {
			return logError(err, b)
		}
		switch gone, err := log.erased(ctx, e.Event); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return logError(err, b)
		case gone:
			continue
		}
		if err := printJSONEvent(p.stdout, e.Event.WithOrigin(events.OriginReplay)); err != nil {
			return err
		}
	}
	return nil
}

// publish has the daemon replay to NATS.
func (c *ReplayCmd) publish(ctx context.Context, p *program, b config.Base, q ops.ReplayRequest) error {
	var last ops.ReplayProgress
	err := options.Client(b).Replay(ctx, q, func(now ops.ReplayProgress) error {
		if last.Job == "" {
			p.note("replaying %s to %s, job %s", ops.Counted(now.Total, "event"), now.Subject, now.Job)
		} else if isTerminal(p.stderr) {
			fmt.Fprintf(p.stderr, "\r%d of %d", now.Published+now.AlreadyThere, now.Total)
		}
		last = now
		return nil
	})
	if isTerminal(p.stderr) && last.Job != "" {
		fmt.Fprintln(p.stderr)
	}
	again := "to continue, run it again with --job " + q.Job
	switch {
	case ctx.Err() != nil:
		p.note("stopped; at least %d of %d are there; %s", last.Published+last.AlreadyThere, q.Total, again)
		return nil
	case errors.Is(err, ops.ErrNoAnswer):
		return exit.Failed(errors.New("the daemon broke off the replay"), "look at its log; "+again)
	case err != nil:
		return exit.Failed(err, cmp.Or(ops.Hint(err), again))
	case c.JSON:
		return p.printJSON(last)
	}
	return p.print(fmt.Sprintf("%s replayed to %s, stream %s; already present: %d\n",
		ops.Counted(last.Published, "event"), last.Subject, last.Stream, last.AlreadyThere))
}

// toReceiver reports whether the events go to receivers and not to NATS or standard output.
func (c *ReplayCmd) toReceiver() bool { return slices.Contains(receivers.Kinds, c.To) }

// settings reads the configuration, and opens the receivers if the events go there.
func (c *ReplayCmd) settings(p *program) (cfg *config.Config, to *receivers.Set, err error) {
	if !c.toReceiver() {
		cfg, err = config.Read(p.environ)
		return cfg, to, err
	}
	cfg, to, warnings, err := p.receivers(c.To, c.To)
	p.warn(warnings) // even if nothing is configured: a name may be misspelt
	return cfg, to, err
}

// sentReplay is the result of a replay to receivers.
type sentReplay struct {
	forward.Replayed
	Total int `json:"total"`
	// Next is the event at which a stopped replay continues.
	Next *nextEvent `json:"next,omitempty"`
}

// nextEvent is the position of an event in the log.
type nextEvent struct {
	AgencyID string    `json:"agencyId"`
	Sequence uint64    `json:"sequence"`
	Recorded time.Time `json:"recorded"`
}

// send sends events to receivers, each as a message of its own. Events that no filter takes are
// skipped.
func (c *ReplayCmd) send(ctx context.Context, p *program, b config.Base, log openedLog, q ops.EventQuery,
	to *receivers.Set, total int,
) error {
	defer to.Close()
	p.note("replaying %s to %s", ops.Counted(total, "event"), c.To)
	done := sentReplay{Total: total}
	var broken error // of the log
	list := followed(log.Events(ctx, q), func(e events.Event) {
		done.Next = &nextEvent{e.AgencyID, e.Sequence, e.RecordedTime}
	}, &broken)
	last := "" // the last event that was erased; each counts once, however many receivers it had
	erased := func(e events.Event) (bool, error) {
		gone, err := log.erased(ctx, e)
		if gone && e.ID != last {
			last, done.Total = e.ID, done.Total-1
		}
		return gone, err
	}
	sum, err := forward.SendReplayed(ctx, to.Routes(), list, erased, func(r forward.Replayed, failed error) {
		if failed != nil {
			_, reason := receivers.Outcome(failed)
			p.note("%s failed; retrying: %s", c.To, printable(reason))
		} else if isTerminal(p.stderr) {
			fmt.Fprintf(p.stderr, "\r%d sent, %d refused", r.Events, r.Refused)
		}
	})
	done.Replayed = sum
	if isTerminal(p.stderr) && sum.Deliveries > 0 {
		fmt.Fprintln(p.stderr)
	}
	if err == nil {
		done.Next = nil
	}
	if c.JSON {
		if err := p.printJSON(done); err != nil {
			return err
		}
	}
	return c.concluded(ctx, p, b, done, err, broken)
}

// concluded prints what was sent, and how to continue if that was not all.
func (c *ReplayCmd) concluded(ctx context.Context, p *program, b config.Base, done sentReplay, err, broken error) error {
	switch {
	case err == nil && !c.JSON:
		fmt.Fprintf(p.stdout, "%s sent to %s; refused: %d; filtered out: %d\n",
			ops.Counted(done.Events, "event"), c.To, done.Refused, done.Total-done.Events-done.Refused)
	case broken != nil && ctx.Err() == nil:
		return logError(broken, b)
	case err == nil || done.Next == nil:
	case ctx.Err() != nil:
		p.note("stopped; %s sent; to continue, run it again with --from-sequence %d", ops.Counted(done.Events, "event"), done.Next.Sequence)
	default:
		return exit.Failed(fmt.Errorf("at sequence %d of %s: %w", done.Next.Sequence, done.Next.AgencyID, err),
			fmt.Sprintf("to continue, run it again with --from-sequence %d", done.Next.Sequence))
	}
	if err == nil && done.Refused > 0 {
		return exit.Failed(fmt.Errorf("%s permanently rejected by %s", ops.Counted(done.Refused, "event"), c.To), "the daemon's log, or doorbell forward with --test, says more")
	}
	return nil
}

// followed yields the events of the log after handing each to visit. It also keeps the error of the
// log.
func followed(log iter.Seq2[ops.LoggedEvent, error], visit func(events.Event), broken *error) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for e, err := range log {
			if err != nil {
				*broken = err
			} else {
				visit(e.Event)
			}
			if !yield(e.Event, err) {
				return
			}
		}
	}
}
