package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/events"
	"doorbell/events/natsd"
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
	nc, err := subscribe(ctx, config)
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

// subscribe connects to the NATS that holds the stream: the configured one, or that of the daemon in the data directory.
func subscribe(ctx context.Context, c *Config) (*nats.Conn, error) {
	dial, err := c.streamServer(ctx)
	if err != nil {
		return nil, err
	}
	quiet, _ := newLogger(io.Discard, c.Base)
	nc, err := natsd.Connect(dial, quiet)
	if err != nil {
		return nil, configError(err, "check the NATS_* settings")
	}
	for deadline := time.Now().Add(5 * time.Second); !nc.IsConnected(); {
		if ctx.Err() != nil || time.Now().After(deadline) {
			nc.Close()
			return nil, failed(fmt.Errorf("no NATS server answers at %s", natsd.Redact(dial.URL)), "start doorbell run, or set NATS_URL")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nc, nil
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

// line describes an event in one line without people: time, agency, type, insertion.
func line(e events.Event) string { return eventLine(e, false) }

// lineWithPeople is for the demo, where people are made up.
func lineWithPeople(e events.Event) string { return eventLine(e, true) }

func eventLine(e events.Event, people bool) string {
	head := fmt.Sprintf("%s  %-6s %-25s", e.RecordedTime.Format("15:04:05.000"), e.AgencyID, e.Type)
	return printable(strings.Join(append([]string{head}, told(e, people)...), "  "))
}

// told is what an event says, in parts.
func told(e events.Event, people bool) []string {
	var v struct {
		Insertion struct{ Title, Locality string }
		Contact   struct {
			FirstName, LastName, FullName, Message string
		}
		Score                                             json.RawMessage
		Changes                                           []events.Change
		ChangedFields                                     []string
		RedactedFields                                    []string
		Scope                                             string
		ProbableReason                                    string
		Cause                                             string
		Resume                                            string
		Status                                            int
		Insertions                                        int
		Operation, Reason, Ends, Expected, Found, Approve string
		Missing, Known, Reached, SentAgain                int
		From, To                                          json.RawMessage
	}
	// What cannot be read is left out: the line is for the eye, --json is for programs.
	_ = json.Unmarshal(e.Data, &v)
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Reference != "" {
		add("%s", e.Reference)
	}
	if v.Insertion.Title != "" {
		add("“%s”", short(v.Insertion.Title, 40))
	}
	if people && e.Type == events.TypeContactRequestCreated {
		add("from %s: %s", strings.TrimSpace(v.Contact.FirstName+" "+v.Contact.LastName+v.Contact.FullName), short(v.Contact.Message, 50))
	}
	if len(v.Score) > 0 && e.Type == events.TypeContactRequestCreated {
		add("score %s", v.Score)
	}
	for n, c := range v.Changes {
		if n == 3 {
			add("… and %d more", len(v.Changes)-n)
			break
		}
		add("%s", change(c))
	}
	if fields := append(v.ChangedFields, v.RedactedFields...); len(fields) > 0 {
		add("%s", strings.Join(fields, ", "))
	}
	switch e.Type {
	case events.TypeAccessHalted:
		add("%d, reason %s: nothing is asked for this %s until %s, or another key", v.Status, v.ProbableReason, strings.ReplaceAll(v.Scope, "_", " "), v.Resume)
	case events.TypeAccessResumed:
		add("this %s is asked for again: %s", strings.ReplaceAll(v.Scope, "_", " "), strings.ReplaceAll(v.Cause, "_", " "))
	case events.TypeAccessKeySwitched:
		add("the %s key is refused; the %s one works and is used from now on", slot(v.From), slot(v.To))
	}
	words := func(s string) string { return strings.ReplaceAll(s, "_", " ") }
	switch e.Type {
	case events.TypeWatchBaselined:
		add("%d insertions known; from here on what appears is news", v.Insertions)
	case events.TypeWatchStale:
		add("nothing good is heard of %s", words(v.Operation))
	case events.TypeWatchRecovered:
		add("%s is over", strings.TrimSpace(words(v.Operation)+" "+words(v.Ends)))
	case events.TypeWatchGapDetected:
		add("%s: not everything can be seen (%s), %d reached", words(v.Operation), words(v.Reason), v.Reached)
	case events.TypeWatchSchemaDrifted:
		add("%s: expected %s, found %s", words(v.Operation), short(v.Expected, 60), short(v.Found, 80))
	case events.TypeWatchChangeHeld:
		add("%d of %d insertions are missing (%s): %s tells it now", v.Missing, v.Known, words(v.Reason), v.Approve)
	case events.TypeWatchStreamRepaired:
		add("the stream was mended (%s), %s sent again", words(v.Reason), eventsText(v.SentAgain))
	}
	return parts
}

// slot names a key. Other types have times where this one has keys, so it is read only when the type is known.
func slot(v json.RawMessage) string {
	var key struct{ Slot string }
	_ = json.Unmarshal(v, &key)
	return key.Slot
}

// change shows one change in short.
func change(c events.Change) string {
	return fmt.Sprintf("%s: %s → %s", c.Path, value(c.Before), value(c.After))
}

// value shows one side of a change.
func value(v json.RawMessage) string {
	if v == nil {
		return "(none)"
	}
	return short(string(v), 20)
}

// short cuts a text to n characters, on one line.
func short(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
