package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// EventsLsCmd is `doorbell events ls`.
type EventsLsCmd struct {
	EventFilter
	Limit int  `default:"50" placeholder:"N" help:"Print the newest N of them; 0 for all."`
	JSON  bool `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data."`
}

// Help is printed by --help below the flags.
func (EventsLsCmd) Help() string {
	return "Reads the event log: what the stream has, what waits for it, and what the stream has lost. The oldest comes first. " +
		"Times are UTC. Works with the daemon and without.\n\nExample:\n  doorbell events ls --agency A100 --type 'access.>' --since 24h"
}

// Validate refuses what cannot be.
func (c *EventsLsCmd) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: must not be negative")
	}
	return c.valid()
}

// Run prints.
func (c *EventsLsCmd) Run(ctx context.Context, p *program) error { return cmdEventsLs(ctx, p, c) }

// cmdEventsLs prints events of the log.
func cmdEventsLs(ctx context.Context, p *program, c *EventsLsCmd) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	q.Newest = c.Limit
	config, err := readConfig(p.environ)
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
	n := 0
	for e, err := range log.Events(ctx, q) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return logError(err, config.Base)
		}
		if err := printEvent(p.stdout, e.Event, c.JSON, func(events.Event) string { return listed(e) }); err != nil {
			return err
		}
		n++
	}
	switch {
	case n == 0:
		fmt.Fprintln(p.stderr, noEvent(ctx, log))
	case n == c.Limit && !c.JSON:
		fmt.Fprintf(p.stderr, "these are the newest %d; --limit 0 prints all\n", n)
	}
	return nil
}

// listed describes an event of the log in one line without people: time, agency, sequence, type, insertion. An unsent one has no
// sequence, so its id names it.
func listed(e ops.LoggedEvent) string {
	sequence := "-"
	if e.Event.Sequence > 0 {
		sequence = strconv.FormatUint(e.Event.Sequence, 10)
	}
	head := fmt.Sprintf("%s  %-6s %6s  %-25s", e.Event.RecordedTime.Format("2006-01-02 15:04:05.000"), e.Event.AgencyID, sequence, e.Event.Type)
	parts := append([]string{head}, ops.Told(e.Event, false)...)
	if !e.Acknowledged {
		parts = append(parts, "(waits for the stream)", e.Event.ID)
	}
	return printable(strings.Join(parts, "  "))
}
