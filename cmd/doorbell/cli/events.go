package cli

import (
	"bytes"
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
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/store"
)

// EventsCmd groups the commands about events.
type EventsCmd struct {
	Ls   EventsLsCmd   `cmd:"" group:"commands" help:"Print events of the event log, the newest by default."`
	Show EventsShowCmd `cmd:"" group:"commands" help:"Print one event of the event log in full."`
	Tail EventsTailCmd `cmd:"" group:"commands" help:"Print events of the stream as they arrive."`
}

// EventsLsCmd is `doorbell events ls`.
type EventsLsCmd struct {
	EventFilter
	Limit int  `default:"50" placeholder:"N" help:"Print the newest N of them; 0 for all."`
	JSON  bool `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data."`
	CSV   bool `name:"csv" help:"Print CSV for a spreadsheet, one line an event, with people's data."`
}

func (EventsLsCmd) Help() string {
	return "Reads the event log: events that the stream has, that wait for it, and that it has lost. The oldest comes " +
		"first. Times are UTC. Works with and without a running daemon.\n\nExamples:\n  doorbell events ls --agency A100 --type 'access.>' --since 24h\n" +
		"  doorbell events ls --type contact_request.created --since 30d --limit 0 --csv > leads.csv"
}

func (c *EventsLsCmd) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: must not be negative")
	}
	if c.JSON && c.CSV {
		return errJSONAndCSV
	}
	return c.valid()
}

var errJSONAndCSV = errors.New("--json and --csv: write one of them")

func (c *EventsLsCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	q.Newest = c.Limit
	log, err := openLog(ctx, cfg.Base)
	if err != nil {
		return err
	}
	defer log.close()
	n, t := 0, p.terminalOf(p.stdout)
	put := func(e ops.LoggedEvent) error {
		return printEvent(p.stdout, t, e.Event, c.JSON, listed(e, t.Width))
	}
	if c.CSV {
		if put, err = csvOf(p.stdout); err != nil {
			return err
		}
	}
	for e, err := range log.Events(ctx, q) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return logError(err, cfg.Base)
		}
		if err := put(e); err != nil {
			return err
		}
		n++
	}
	switch {
	case n == 0:
		p.note("%s", noEvent(ctx, log))
	case n == c.Limit && !c.JSON:
		p.note("these are the newest %d; --limit 0 prints all", n)
	}
	return nil
}

// listed describes an event of the log in one line without people's data.
func listed(e ops.LoggedEvent, width int) string {
	head := fmt.Sprintf("%6d  %s", e.Event.Sequence, e.Event.RecordedTime.Format(time.DateTime))
	state := ""
	if !e.Acknowledged {
		state = "  (waits)"
		width = max(width-len(state), 0)
	}
	return ops.LineAfter(head, e.Event, false, width) + state
}

// EventsShowCmd is `doorbell events show`.
type EventsShowCmd struct {
	Which string `arg:"" name:"event" help:"Id of the event (its ce-id), or its position in the log (its ce-sequence)."`
	JSON  bool   `name:"json" help:"Print CloudEvents JSON, with people's data."`
}

func (EventsShowCmd) Help() string {
	return "Prints an event of the event log, and whether the stream has confirmed it. People and the API's record are masked unless --json.\n\n" +
		"Example:\n  doorbell events show 1842\n  doorbell events show uiztpjutghje6ctysbx22p2x4w --json"
}

var eventID = regexp.MustCompile(`^[a-z2-7]{26}$`)

func (c *EventsShowCmd) Validate() error {
	_, err := c.query()
	return err
}

func (c *EventsShowCmd) query() (ops.EventQuery, error) {
	if eventID.MatchString(c.Which) {
		return ops.EventQuery{ID: c.Which, Newest: 1}, nil
	}
	n, err := strconv.ParseUint(c.Which, 10, 64)
	if err != nil || n == 0 {
		return ops.EventQuery{}, errors.New("EVENT: write a position, a number from 1 as events ls prints it, or the 26 characters of a ce-id, which --json prints")
	}
	return ops.EventQuery{FromSequence: n, ToSequence: n}, nil
}

// Run prints one event of the log in full.
func (c *EventsShowCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	log, err := openLog(ctx, cfg.Base)
	if err != nil {
		return err
	}
	defer log.close()
	for e, err := range log.Events(ctx, q) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return logError(err, cfg.Base)
		case c.JSON:
			return printJSONEvent(p.stdout, e.Event)
		}
		return showEvent(p, e, cfg.Base)
	}
	if ctx.Err() != nil {
		return nil
	}
	return exit.Failed(errors.New(noEvent(ctx, log)), "doorbell events ls lists them; what is older than DOORBELL_RETENTION may be gone")
}

// showEvent prints an event for people to read, with people's data masked: what happened, the
// envelope, the payload.
func showEvent(p *program, e ops.LoggedEvent, b config.Base) error {
	head := string(e.Event.Type) + " of " + e.Event.AgencyID
	if told := ops.Told(e.Event, false); len(told) > 0 {
		head += ": " + strings.Join(told, " ")
	}
	var rows []string
	for _, f := range envelopeOf(e, b) {
		if f[1] != "" {
			rows = append(rows, f[0]+"\t"+f[1])
		}
	}
	return p.printTable(printable(head)+"\n\n", rows, "\n"+string(maskedPayload(e.Event)))
}

// envelopeOf returns the names and values around the payload.
func envelopeOf(e ops.LoggedEvent, b config.Base) [][2]string {
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

// maskedPayload returns the payload, indented, without the API's record and people's data.
func maskedPayload(e events.Event) []byte {
	masked, ok := ops.Masked(e)
	var b bytes.Buffer
	if !ok || json.Indent(&b, masked.Data, "", "  ") != nil {
		return []byte("the payload cannot be read\n")
	}
	return append(b.Bytes(), '\n')
}

// EventsTailCmd is `doorbell events tail`.
type EventsTailCmd struct {
	JSON   bool   `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data."`
	Agency string `placeholder:"AGENCY" help:"Only events of this agency."`
	Type   string `placeholder:"TYPE" help:"Only events of this type: contact_request.created, or access.> for several."`
	All    bool   `xor:"from" help:"Begin with the oldest event that is kept."`
	Since  Moment `xor:"from" placeholder:"MOMENT" help:"Begin at this moment: 2026-11-20T09:00:00Z, or 2h or 5d for that long ago."`
}

func (EventsTailCmd) Help() string {
	return "Without --all and --since it begins with the next event. Times are UTC.\n\n" +
		"Example:\n  doorbell events tail --type contact_request.created --since 2h"
}

func (c *EventsTailCmd) Validate() error {
	if c.Type != "" && !config.KnownType(c.Type) {
		return noType("--type", c.Type)
	}
	return validAgency("--agency", c.Agency)
}

func noType(argument, name string) error {
	return fmt.Errorf("%s: there is no event type %q; %s", argument, name, config.TypeHint(name))
}

// Run prints events of the stream as they arrive.
func (c *EventsTailCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if c.Since.Time(time.Now()).After(time.Now()) {
		return exit.Usage("--since: lies in the future", "leave it out to begin with the next event")
	}
	nc, err := connectStream(ctx, cfg)
	switch {
	case err != nil && ctx.Err() != nil: // interrupted while connecting
		return nil
	case err != nil:
		return err
	}
	defer nc.Close()
	o := relay.TailOptions{
		Stream: cfg.Base.Stream(), Prefix: cfg.Base.SubjectPrefix, Agency: c.Agency, Type: events.Type(c.Type),
		All: c.All, Since: c.Since.Time(time.Now()),
	}
	t := p.terminalOf(p.stdout)
	for e, err := range relay.Tail(ctx, nc, o) {
		switch {
		case errors.Is(err, relay.ErrForeign):
			p.note("skipped a message that is not an event")
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return exit.Failed(stream.Explain(nc, err), "check NATS_URL and DOORBELL_SUBJECT_PREFIX")
		default:
			if err := printEvent(p.stdout, t, e, c.JSON, ops.Line(e, false, t.Width)); err != nil {
				return err
			}
		}
	}
	return nil
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

// printEvent writes one event as JSON or as the given line.
func printEvent(w io.Writer, t Terminal, e events.Event, asJSON bool, line string) error {
	if asJSON {
		return printJSONEvent(w, e)
	}
	_, err := fmt.Fprintln(w, t.paintEvent(line, e.Type))
	return err
}

// EventFilter is the flags that select events of the log.
type EventFilter struct {
	Agency       string  `placeholder:"AGENCY" help:"Only events of this agency."`
	Type         string  `placeholder:"TYPE" help:"Only events of this type: contact_request.created, or access.> for several."`
	Insertion    string  `placeholder:"REFERENCE" help:"Only events of this insertion and its contact requests."`
	Since        Moment  `placeholder:"MOMENT" help:"Only events recorded at this moment or later: 2026-11-20T09:00:00Z, or 2h or 5d for that long ago."`
	Until        Moment  `placeholder:"MOMENT" help:"Only events recorded before this moment."`
	FromSequence *uint64 `placeholder:"N" help:"Only events at this position of the log (ce-sequence) or a higher one."`
	ToSequence   *uint64 `placeholder:"N" help:"Only events at this position or a lower one."`
}

// valid rejects values that no event can have.
func (f *EventFilter) valid() error {
	switch {
	case f.Type != "" && !config.KnownType(f.Type):
		return noType("--type", f.Type)
	case f.FromSequence != nil && *f.FromSequence == 0:
		return errors.New("--from-sequence: positions begin with 1")
	case f.ToSequence != nil && *f.ToSequence == 0:
		return errors.New("--to-sequence: positions begin with 1")
	case f.FromSequence != nil && f.ToSequence != nil && *f.FromSequence > *f.ToSequence:
		return errors.New("--from-sequence: is higher than --to-sequence")
	}
	return validAgency("--agency", f.Agency)
}

// query returns the query that the flags mean at a moment.
func (f *EventFilter) query(now time.Time) (ops.EventQuery, error) {
	q := ops.EventQuery{
		AgencyID: f.Agency, Type: f.Type, PropertyReferenceID: f.Insertion,
		Since: f.Since.Time(now), Until: f.Until.Time(now),
	}
	if f.FromSequence != nil {
		q.FromSequence = *f.FromSequence
	}
	if f.ToSequence != nil {
		q.ToSequence = *f.ToSequence
	}
	switch {
	case q.Since.After(now):
		return q, exit.Usage("--since: lies in the future", "write a moment like 2026-11-20T09:00:00Z, or 2h or 5d for that long ago")
	case !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until):
		return q, exit.Usage("--until: is not after --since", "write a later moment, or leave one of them out")
	}
	return q, nil
}

// eventLog is the event log of a running daemon, or of a store that no daemon has open.
type eventLog interface {
	Events(ctx context.Context, q ops.EventQuery) iter.Seq2[ops.LoggedEvent, error]
	CountEvents(ctx context.Context, q ops.EventQuery) (ops.EventCounts, error)
}

// openedLog is an event log that a command reads.
type openedLog struct {
	eventLog
	kept *store.Store // opened here; nil if a daemon answers
}

// openLog returns the log of the daemon in the data directory. If none runs, it opens the store,
// which no process can write to until the log is closed.
func openLog(ctx context.Context, b config.Base) (openedLog, error) {
	client := options.Client(b)
	if _, err := client.Status(ctx); err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return openedLog{client, nil}, nil
	}
	kept, err := readStopped(b)
	return openedLog{ops.Log{Store: kept}, kept}, err
}

// erased reports whether a person was erased from an event since it was read. That may be long ago,
// so an event that the log no longer has counts as erased too. Nothing is erased from a store that
// is open here.
func (l openedLog) erased(ctx context.Context, e events.Event) (bool, error) {
	if l.kept != nil || !e.HoldsPerson() {
		return false, nil
	}
	for _, err := range l.Events(ctx, ops.EventQuery{AgencyID: e.AgencyID, FromSequence: e.Sequence, ToSequence: e.Sequence, Unerased: true}) {
		return false, err
	}
	return true, nil
}

func (l openedLog) close() {
	if l.kept != nil {
		l.kept.Close()
	}
}

// noEvent returns the message for an empty result: nothing matched, or the log is empty.
func noEvent(ctx context.Context, log eventLog) string {
	for range log.Events(ctx, ops.EventQuery{Newest: 1}) {
		return "the event log holds no such event"
	}
	return "the event log is empty: nothing has happened since the watch began"
}

// logError adds to an error of the log what to do about it.
func logError(err error, b config.Base) error {
	switch {
	case errors.Is(err, ops.ErrNoAnswer):
		return exit.Failed(fmt.Errorf("the daemon was asked: %w", err), "look at its log, and ask again")
	case errors.Is(err, store.ErrDamaged):
		return exit.Store(err, b.DataDir)
	}
	return exit.Failed(err, ops.Hint(err))
}
