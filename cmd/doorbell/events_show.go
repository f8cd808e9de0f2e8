package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// EventsShowCmd is `doorbell events show`.
type EventsShowCmd struct {
	Which []string `arg:"" name:"id" help:"Id of the event (its ce-id), or its agency and sequence."`
	JSON  bool     `name:"json" help:"Print CloudEvents JSON, with people's data."`
}

// Help is printed by --help below the flags.
func (EventsShowCmd) Help() string {
	return "Prints an event of the event log, and whether the stream has confirmed it. People and the API's record are masked unless --json.\n\n" +
		"Example:\n  doorbell events show A100 1842\n  doorbell events show uiztpjutghje6ctysbx22p2x4w --json"
}

var eventID = regexp.MustCompile(`^[a-z2-7]{26}$`)

// Validate refuses what names no event.
func (c *EventsShowCmd) Validate() error {
	_, err := c.query()
	return err
}

func (c *EventsShowCmd) query() (q ops.EventQuery, err error) {
	switch len(c.Which) {
	case 1:
		if !eventID.MatchString(c.Which[0]) {
			return q, errors.New("ID: is not the id of an event; write its ce-id, 26 characters, or agency and sequence: A100 1842")
		}
		return ops.EventQuery{ID: c.Which[0], Newest: 1}, nil
	case 2:
		n, err := strconv.ParseUint(c.Which[1], 10, 64)
		if err != nil || n == 0 {
			return q, errors.New("SEQUENCE: is no number from 1 on; write agency and sequence: A100 1842")
		}
		return ops.EventQuery{AgencyID: c.Which[0], FromSequence: n, ToSequence: n}, validAgency("AGENCY", c.Which[0], false)
	}
	return q, errors.New("ID: write the ce-id of one event, or agency and sequence: A100 1842")
}

// Run prints.
func (c *EventsShowCmd) Run(ctx context.Context, p *program) error { return cmdEventsShow(ctx, p, c) }

// cmdEventsShow prints one event of the log whole.
func cmdEventsShow(ctx context.Context, p *program, c *EventsShowCmd) error {
	q, err := c.query()
	if err != nil {
		return err
	}
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
	for e, err := range log.Events(ctx, q) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return logError(err, config.Base)
		case c.JSON:
			return printEvent(p.stdout, e.Event, true, nil)
		}
		return showEvent(p.stdout, e, config.Base)
	}
	if ctx.Err() != nil {
		return nil
	}
	return failed(errors.New(noEvent(ctx, log)), "doorbell events ls lists them; what is older than DOORBELL_RETENTION may be gone")
}

// showEvent writes an event for people to read, without people: what happened, the envelope, the payload.
func showEvent(w io.Writer, e ops.LoggedEvent, b Base) error {
	var text bytes.Buffer
	fmt.Fprintln(&text, strings.Join(append([]string{string(e.Event.Type), "of", e.Event.AgencyID}, ops.Told(e.Event, false)...), " "))
	fmt.Fprintln(&text)
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, f := range envelopeOf(e, b) {
		if f[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", f[0], f[1])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(&text)
	text.Write(maskedPayload(e.Event))
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// envelopeOf is what stands around the payload, as names and values.
func envelopeOf(e ops.LoggedEvent, b Base) [][2]string {
	header := e.Event.Header()
	all := [][2]string{{"subject", events.Subject(b.SubjectPrefix, e.Event.AgencyID, e.Event.Type)}}
	for _, name := range []string{"ce-id", "ce-sequence", "ce-subject", "ce-time", "ce-recordedtime", "ce-origin", "ce-dataschema", "ce-storeid"} {
		all = append(all, [2]string{name, strings.Join(header[name], "")})
	}
	stream := "yes, the stream has confirmed it"
	if !e.Acknowledged {
		stream = "no, it waits in the log"
	}
	return append(all, [2]string{"acknowledged", stream})
}

// maskedPayload is the payload, indented, without the API's record and without people.
func maskedPayload(e events.Event) []byte {
	masked, ok := ops.Masked(e)
	var b bytes.Buffer
	if !ok || json.Indent(&b, masked.Data, "", "  ") != nil {
		return []byte("the payload cannot be read\n")
	}
	return append(b.Bytes(), '\n')
}
