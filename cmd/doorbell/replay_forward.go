package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/forward"
)

// toOutlet says whether events go to where people are.
func (c *ReplayCmd) toOutlet() bool { return c.To == "slack" || c.To == "email" || c.To == "webhook" }

// settings are what the command reads of the environment: the outlets too, if they are meant.
func (c *ReplayCmd) settings(p *program) (config *Config, to forwarder, err error) {
	if !c.toOutlet() {
		config, err = readConfig(p.environ)
		return config, to, err
	}
	if config, err = readConfig(p.environ, groupForward); err != nil {
		return config, to, err
	}
	p.warn(config.warningsFor(c.To))
	to, err = config.forwarder(c.To, c.To)
	if err == nil && len(to.Routes) == 0 {
		err = notConfigured(c.To)
	}
	return config, to, err
}

// sentReplay is what a replay to an outlet has done.
type sentReplay struct {
	forward.Replayed
	Total int `json:"total"`
	// Next is the event at which a replay that was stopped goes on.
	Next *nextEvent `json:"next,omitempty"`
}

// nextEvent says where an event stands in the log.
type nextEvent struct {
	AgencyID string    `json:"agencyId"`
	Sequence uint64    `json:"sequence"`
	Recorded time.Time `json:"recorded"`
}

// send brings events to outlets, one after the other, each as a message of its own. What no filter wants is passed over.
func (c *ReplayCmd) send(ctx context.Context, p *program, b Base, log eventLog, q ops.EventQuery, to forwarder, total int) error {
	defer to.close()
	fmt.Fprintf(p.stderr, "replaying %s to %s\n", ops.Counted(total, "event"), c.To)
	done, began := sentReplay{Total: total}, time.Now()
	var broken error // of the log
	list := followed(log.Events(ctx, q), func(e events.Event) {
		done.Next = &nextEvent{e.AgencyID, e.Sequence, e.RecordedTime}
	}, &broken)
	told := func(r forward.Replayed) {
		if isTerminal(p.stderr) {
			fmt.Fprintf(p.stderr, "\r%d sent, %d refused", r.Events, r.Refused)
		}
	}
	to.listen(func(reason string) {
		fmt.Fprintf(p.stderr, "%s does not take it now, and is tried again: %s\n", c.To, printable(reason))
	})
	sum, err := forward.SendReplayed(ctx, to.Routes, false, list, told)
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
	until := q.Until
	if until.IsZero() {
		until = began // what comes later was not asked about
	}
	return c.concluded(ctx, p, b, done, err, broken, until)
}

// concluded says what was sent, and how to go on if that was not all.
func (c *ReplayCmd) concluded(ctx context.Context, p *program, b Base, done sentReplay, err, broken error, until time.Time) error {
	switch {
	case err == nil && c.JSON:
	case err == nil:
		fmt.Fprintf(p.stdout, "%s sent to %s; refused: %d; not wanted there: %d\n", ops.Counted(done.Events, "event"), c.To, done.Refused, done.Total-done.Events-done.Refused)
	case broken != nil && ctx.Err() == nil:
		return logError(broken, b)
	case done.Next == nil:
		return nil
	case ctx.Err() != nil:
		fmt.Fprintf(p.stderr, "stopped before sequence %d of %s; %s sent, and this goes on:\n  %s\n", done.Next.Sequence, done.Next.AgencyID,
			ops.Counted(done.Events, "event"), printable(c.goesOn(*done.Next, until)))
	default:
		return failed(fmt.Errorf("at sequence %d of %s: %w", done.Next.Sequence, done.Next.AgencyID, err), "this goes on: "+c.goesOn(*done.Next, until))
	}
	if err == nil && done.Refused > 0 {
		return failed(fmt.Errorf("%s refused for good by %s", ops.Counted(done.Refused, "event"), c.To), "the daemon's log, or --test of doorbell forward, says more")
	}
	return nil
}

// goesOn is the command that goes on with an event. Of one agency that is its sequence. Of several it is the moment of its record:
// what was recorded in the same millisecond may be sent again.
func (c *ReplayCmd) goesOn(next nextEvent, until time.Time) string {
	again := *c
	q := ops.ReplayRequest{Query: ops.EventQuery{Since: next.Recorded, Until: until}}
	if c.Agency != "" {
		again.FromSequence, q.Query.Since = &next.Sequence, c.Since.Time(time.Now())
	}
	flags := []string{"doorbell replay", "--to", c.To}
	return strings.Join(append(flags, again.again(q)), " ")
}

// followed yields the events of the log, and tells of each before. The error of the log is kept, too.
func followed(log iter.Seq2[ops.LoggedEvent, error], told func(events.Event), broken *error) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for e, err := range log {
			if err != nil {
				*broken = err
			} else {
				told(e.Event)
			}
			if !yield(e.Event, err) {
				return
			}
		}
	}
}
