package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	leads "doorbell/cmd/doorbell/report"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/stream"
)

// EventsCmd groups the commands about events.
type EventsCmd struct {
	Ls   EventsLsCmd   `cmd:"" group:"commands" help:"Print events from the event log, the newest by default."`
	Show EventsShowCmd `cmd:"" group:"commands" help:"Print one event from the event log in full."`
	Tail EventsTailCmd `cmd:"" group:"commands" help:"Print events from the stream as they arrive."`
}

// EventForm is how events are printed.
type EventForm struct {
	JSON bool `name:"json" xor:"form" help:"Print CloudEvents JSON, one object a line, with personal data."`
	CSV  bool `name:"csv" xor:"form" help:"Print CSV for a spreadsheet, one line per event, with personal data."`
}

// print prints events in this form, until ctx ends, and returns how many they are. For people an
// event is what text returns.
func (f EventForm) print(ctx context.Context, p *program, list iter.Seq2[ops.LoggedEvent, error],
	text func(e ops.LoggedEvent, width int) string,
) (n int, err error) {
	width := p.terminalOf(p.stdout).Width
	put := func(e ops.LoggedEvent) error { return p.print(text(e, width)) }
	switch {
	case f.CSV:
		put, err = csvOf(p.stdout)
	case f.JSON:
		put = func(e ops.LoggedEvent) error { return printJSONEvent(p.stdout, e.Event) }
	}
	if err != nil {
		return 0, err
	}
	for e, err := range list {
		if err == nil {
			err = put(e)
		}
		switch {
		case ctx.Err() != nil:
			return n, nil
		case err != nil:
			return n, err
		}
		n++
	}
	return n, nil
}

// csvOf returns a function that writes events as rows of a table for an office, with people's data.
func csvOf(w io.Writer) (func(ops.LoggedEvent) error, error) {
	c, err := leads.NewCSV(w, "recorded_utc", "created_utc", "agency", "type", "reference", "title",
		"street", "postal_code", "locality",
		"name", "email", "phone", "message", "score", "origin", "published", "ce_id", "ce_sequence")
	return func(e ops.LoggedEvent) error { return c.Row(cellsOf(e)...) }, err
}

func cellsOf(l ops.LoggedEvent) []string {
	e := l.Event
	var p struct {
		CreatedAt time.Time
		Score     json.RawMessage
		Contact   events.Contact
		Insertion events.InsertionSummary
	}
	_ = json.Unmarshal(e.Data, &p) // what cannot be read stays empty
	person, i := p.Contact, p.Insertion
	name := cmp.Or(strings.TrimSpace(person.FirstName+" "+person.LastName), person.FullName)
	if person.Company != "" {
		name = strings.TrimPrefix(name+", "+person.Company, ", ")
	}
	published := "yes"
	if !l.Acknowledged {
		published = "no"
	}
	return []string{
		spreadsheetTime(e.RecordedTime), spreadsheetTime(p.CreatedAt), e.AgencyID, string(e.Type),
		e.Reference, i.Title, i.Street, i.PostalCode, i.Locality, name, person.Email,
		cmp.Or(person.Phone, person.PhoneRaw), person.Message,
		strings.Trim(strings.TrimPrefix(string(p.Score), "null"), `"`), string(e.Origin), published,
		e.ID, strconv.FormatUint(e.Sequence, 10),
	}
}

// spreadsheetTime is a time as a spreadsheet recognises it; empty if it is unknown.
func spreadsheetTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime)
}

// printJSONEvent writes one event as CloudEvents JSON on one line.
func printJSONEvent(w io.Writer, e events.Event) error {
	b, err := e.AppendJSON(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

const noEvent = "the event log has no such event"

// EventsLsCmd is `doorbell events ls`.
type EventsLsCmd struct {
	EventFilter
	EventForm
	Limit int `default:"50" placeholder:"N" help:"Print only the newest N; 0 for all."`
}

func (c *EventsLsCmd) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: must not be negative")
	}
	return c.EventFilter.Validate()
}

func (c *EventsLsCmd) Run(ctx context.Context, p *program, log *eventLog) error {
	q := c.query()
	q.Newest = c.Limit
	n, err := c.print(ctx, p, log.Events(ctx, q), listed)
	switch {
	case err != nil:
		return err
	case n == 0:
		p.note(noEvent)
	case n == c.Limit && !c.JSON:
		p.note("these are the newest %d; --limit 0 prints all", n)
	}
	return nil
}

// listed describes an event of the log in one line without people's data.
func listed(e ops.LoggedEvent, width int) string {
	head := fmt.Sprintf("%6d  %s", e.Event.Sequence, e.Event.RecordedTime.Format(time.DateTime))
	waits := waits(e)
	if waits != "" {
		width = max(width-len(waits), 0)
	}
	return ops.LineAfter(head, e.Event, false, width) + waits
}

// waits marks an event that the stream does not have yet.
func waits(e ops.LoggedEvent) string {
	if e.Acknowledged {
		return ""
	}
	return "  (waits)"
}

// EventsShowCmd is `doorbell events show`.
type EventsShowCmd struct {
	Which string `arg:"" name:"event" help:"Id of the event (its ce-id), or its position in the log (its ce-sequence)."`
	EventForm

	query ops.EventQuery
}

var eventID = regexp.MustCompile(`^[a-z2-7]{26}$`)

func (c *EventsShowCmd) Validate() error {
	if eventID.MatchString(c.Which) {
		c.query = ops.EventQuery{ID: c.Which, Newest: 1}
		return nil
	}
	n, err := strconv.ParseUint(c.Which, 10, 64)
	if err != nil || n == 0 {
		return errors.New("EVENT: write a position as events ls prints it, a number from 1, or the 26 characters of a ce-id as --json prints it")
	}
	c.query = ops.EventQuery{FromSequence: n, ToSequence: n}
	return nil
}

// Run prints one event of the log in full.
func (c *EventsShowCmd) Run(ctx context.Context, p *program, log *eventLog) error {
	n, err := c.print(ctx, p, log.Events(ctx, c.query), shown)
	if n == 0 && err == nil {
		err = exit.Failed(errors.New(noEvent),
			"doorbell events ls lists them; events older than DOORBELL_RETENTION may be gone")
	}
	return err
}

// shown describes an event for people: what happened, and the event as CloudEvents JSON, indented,
// without the API's record and people's data.
func shown(e ops.LoggedEvent, _ int) string {
	_, parts := ops.Tell(e.Event, false)
	head := ops.Printable(
		string(e.Event.Type) + " of " + e.Event.AgencyID + ": " + strings.Join(parts, "  ") +
			waits(e))
	masked, ok := ops.Masked(e.Event)
	text, err := masked.AppendJSON(nil)
	var b bytes.Buffer
	if !ok || err != nil || json.Indent(&b, text, "", "  ") != nil {
		return head + "\n\nthe event cannot be read"
	}
	return head + "\n\n" + b.String()
}

// EventsTailCmd is `doorbell events tail`.
type EventsTailCmd struct {
	EventForm
	Kind
	All   bool   `xor:"from" help:"Begin with the oldest event that is kept."`
	Since Moment `xor:"from" placeholder:"MOMENT" help:"Begin at this moment: 2026-11-20T09:00:00Z, or 2h or 5d for that long ago."`
}

func (c *EventsTailCmd) Validate() error { return cmp.Or(c.Kind.Validate(), validSince(c.Since)) }

// Run prints events of the stream as they arrive.
func (c *EventsTailCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	nc, err := p.connectStream(ctx, cfg)
	if ctx.Err() != nil { // interrupted while connecting
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.print(ctx, p, p.tail(ctx, nc, relay.TailOptions{
		Stream: cfg.Base.Stream(), Prefix: cfg.Base.SubjectPrefix, Agency: c.Agency,
		Type: events.Type(c.Type), All: c.All, Since: time.Time(c.Since),
	}), func(e ops.LoggedEvent, width int) string { return ops.Line(e.Event, false, width) })
	if err != nil {
		return exit.Failed(err, "check NATS_URL and DOORBELL_SUBJECT_PREFIX")
	}
	return nil
}

// tail yields what arrives in a stream, and notes what is odd.
func (p *program) tail(ctx context.Context, nc stream.Conn,
	o relay.TailOptions,
) iter.Seq2[ops.LoggedEvent, error] {
	return func(yield func(ops.LoggedEvent, error) bool) {
		for e, err := range relay.Tail(ctx, nc, o) {
			switch {
			case errors.Is(err, relay.ErrForeign):
				p.note("%v", err)
				continue
			case err != nil:
				err = stream.Explain(nc, err)
			}
			if !yield(ops.LoggedEvent{Event: e, Acknowledged: true}, err) {
				return
			}
		}
	}
}

// Kind is the flags that select events by what they are.
type Kind struct {
	Agency string `placeholder:"AGENCY" help:"Only events of this agency."`
	Type   string `placeholder:"TYPE" help:"Only events of this type: contact_request.created, or access.> for several."`
}

func (k *Kind) Validate() error {
	if k.Type != "" && !config.KnownType(k.Type) {
		return fmt.Errorf("--type: there is no event type %q; %s", k.Type, config.TypesAre)
	}
	return validAgency("--agency", k.Agency)
}

// EventFilter is the flags that select events of the log.
type EventFilter struct {
	Kind
	Insertion    string `placeholder:"REFERENCE" help:"Only events of this insertion and its contact requests."`
	Since        Moment `placeholder:"MOMENT" help:"Only events recorded at this moment or later: 2026-11-20T09:00:00Z, or 2h or 5d for that long ago."`
	Until        Moment `placeholder:"MOMENT" help:"Only events recorded before this moment."`
	FromSequence uint64 `placeholder:"N" help:"Only events at this position in the log (ce-sequence) or above."`
	ToSequence   uint64 `placeholder:"N" help:"Only events at this position or below."`
}

// Validate rejects values that no event can have.
func (f *EventFilter) Validate() error {
	since, until := time.Time(f.Since), time.Time(f.Until)
	switch {
	case f.ToSequence > 0 && f.FromSequence > f.ToSequence:
		return errors.New("--from-sequence: is higher than --to-sequence")
	case !since.IsZero() && !until.IsZero() && !since.Before(until):
		return errors.New("--until: is not after --since")
	}
	return cmp.Or(f.Kind.Validate(), validSince(f.Since))
}

// query returns the query that the flags mean.
func (f *EventFilter) query() ops.EventQuery {
	return ops.EventQuery{
		AgencyID: f.Agency, Type: f.Type, PropertyReferenceID: f.Insertion,
		Since: time.Time(f.Since), Until: time.Time(f.Until), FromSequence: f.FromSequence,
		ToSequence: f.ToSequence,
	}
}
