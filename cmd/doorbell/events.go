package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/relay"
)

// cmdEventsTail prints events of the stream as they come.
func cmdEventsTail(ctx context.Context, p *program, c *EventsTailCmd) error {
	if c.Since.Time(time.Now()).After(time.Now()) {
		return usageError("--since: lies in the future", "leave it out to begin with what comes next")
	}
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	nc, err := connectStream(ctx, config)
	if err != nil {
		return err
	}
	defer nc.Close()
	o := relay.TailOptions{
		Stream: config.Base.Stream, Prefix: config.Base.SubjectPrefix, Agency: c.Agency, Type: events.Type(c.Type),
		All: c.All, Since: c.Since.Time(time.Now()),
	}
	for e, err := range relay.Tail(ctx, nc, o) {
		switch {
		case errors.Is(err, relay.ErrForeign):
			fmt.Fprintln(p.stderr, "a message that is no event was stepped over")
		case err != nil:
			return failed(err, "check NATS_URL and DOORBELL_STREAM")
		default:
			if err := printEvent(p.stdout, e, c.JSON, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// printEvent writes one event: as CloudEvents JSON, or as a line for people.
func printEvent(w io.Writer, e events.Event, asJSON bool, line func(events.Event) string) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, line(e))
		return err
	}
	b, err := e.AppendJSON(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// line describes an event in one line without people.
func line(e events.Event) string { return ops.Line(e, false) }
