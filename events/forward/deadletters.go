package forward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of DeadLetters that a caller may test for.
var (
	// ErrNoLetter means that no dead letter has the number.
	ErrNoLetter = errors.New("there is no such dead letter")
	// ErrUnreadable means that the message with the number was not written by a forwarder, or is
	// damaged. It can only be dropped.
	ErrUnreadable = errors.New("it cannot be read, because no forwarder wrote it")
	// ErrNoReceiver means that no configured receiver takes the letter.
	ErrNoReceiver = errors.New("no receiver is configured for this dead letter")
)

// Letter describes a dead letter without its payload: it contains no person's data.
type Letter struct {
	Number      uint64      `json:"number"` // for Resend and Drop
	Forwarder   string      `json:"forwarder"`
	Destination string      `json:"destination"`
	Type        events.Type `json:"type"`
	AgencyID    string      `json:"agencyId"`
	Reference   string      `json:"propertyReferenceId,omitempty"`
	ID          string      `json:"id"` // of the event
	Reason      string      `json:"reason"`
	Attempts    int         `json:"attempts"`
	At          time.Time   `json:"at"` // when it was written
	// Unreadable means that no forwarder wrote the message. Only Number, Reason and At are set.
	Unreadable bool `json:"unreadable,omitempty"`
}

// DeadLetters gives access to the events that receivers permanently rejected, of all forwarders. It
// is for one goroutine at a time.
type DeadLetters struct {
	prefix string
	stream stream.Client
}

// answerLimit is how long a response of the NATS server may take.
const answerLimit = 5 * time.Second

// OpenDeadLetters opens the dead letters beside a stream of events, whose name it takes. It makes
// no network calls.
func OpenDeadLetters(conn stream.Conn, prefix, events string) *DeadLetters {
	return &DeadLetters{prefix, client(conn, stream.DeadLetters(events))}
}

// List yields the letters, oldest first. A missing stream is an empty list.
func (d *DeadLetters) List(ctx context.Context) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for m, err := range d.stream.Read(ctx, deadSubjects(d.prefix), 0) {
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return
			}
			if err != nil {
				yield(Letter{}, fmt.Errorf("dead letters: %w", err))
				return
			}
			if l, _ := d.read(m); !yield(l, nil) {
				return
			}
		}
	}
}

// Count returns the number of letters; 0 if their stream does not exist yet.
func (d *DeadLetters) Count(ctx context.Context) (uint64, error) {
	s, err := d.stream.State(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, fmt.Errorf("dead letters: %w", err)
	}
	return s.Messages, nil
}

// Resend sends a letter once more, as a delivery of its own: to its own receiver if the routes of
// its forwarder name that for the event, otherwise to the first one that they do name, and if they
// name none, to its own all the same. It leaves the letter where it is: dropping it may need
// another user of NATS.
func (d *DeadLetters) Resend(ctx context.Context, number uint64, routes []Route) error {
	m, err := d.get(ctx, number)
	if err != nil {
		return err
	}
	l, e := d.read(m)
	if l.Unreadable {
		return fmt.Errorf("dead letter %d: %w", number, ErrUnreadable)
	}
	routes = slices.Clone(routes)
	for n := range routes {
		routes[n].Forwarder = l.Forwarder
	}
	own, to := l.Forwarder+"."+l.Destination, tableOf(routes).to(e)
	if len(to) == 0 || slices.Contains(to, own) {
		to = []string{own}
	}
	at := slices.IndexFunc(routes, func(r Route) bool { return r.key() == to[0] })
	if at < 0 {
		return fmt.Errorf("%w: number %d, of forwarder %s", ErrNoReceiver, number, l.Forwarder)
	}
	receiver := routes[at].Receiver
	if err := send(ctx, receiver, Delivery{Events: []events.Event{e}}); err != nil {
		return fmt.Errorf("dead letter %d: %w", number, err)
	}
	sleep(ctx, receiver.Traits().Pace) // another letter may follow
	return nil
}

// Drop erases a letter, even an unreadable one, from the server's files too. Guests of the embedded
// server may not do so.
func (d *DeadLetters) Drop(ctx context.Context, number uint64) error {
	if _, err := d.get(ctx, number); err != nil {
		return err
	}
	if _, err := d.stream.EraseAt(ctx, number); err != nil {
		return fmt.Errorf("dead letter %d remains: %w", number, err)
	}
	return nil
}

// get returns the message of a letter. Their stream is created with the first one, so it may be
// missing.
func (d *DeadLetters) get(ctx context.Context, number uint64) (m *stream.Message, err error) {
	if number > 0 {
		m, err = d.stream.Get(ctx, stream.Query{Sequence: number})
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && m == nil,
		err == nil && !strings.HasPrefix(m.Subject, strings.TrimSuffix(deadSubjects(d.prefix), ">")):
		return nil, fmt.Errorf("%w: %d", ErrNoLetter, number)
	case err != nil:
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return m, nil
}

// client reads and erases messages of a stream.
func client(conn stream.Conn, name string) stream.Client {
	return stream.Client{Conn: conn, Stream: name, Wait: answerLimit}
}

// read returns a letter and its event. A message that no forwarder wrote is Unreadable.
func (d *DeadLetters) read(m *stream.Message) (Letter, events.Event) {
	e, err := events.Decode(m.Header, m.Data)
	forwarder := m.Header.Get(headerForwarder)
	if err != nil || ValidName(forwarder) != nil ||
		m.Subject != deadSubject(d.prefix, forwarder, e) {
		return Letter{
			Number: m.Sequence, At: m.Time.UTC(), Reason: ErrUnreadable.Error(),
			Unreadable: true,
		}, e
	}
	l := Letter{
		Number: m.Sequence, Type: e.Type, AgencyID: e.AgencyID, Reference: e.Reference, ID: e.ID,
		At: m.Time.UTC(), Forwarder: forwarder, Destination: m.Header.Get(headerDestination),
		Reason: m.Header.Get(headerReason),
	}
	l.Attempts, _ = strconv.Atoi(m.Header.Get(headerAttempts))
	return l, e
}

// Headers of a dead letter in addition to those of its event.
const (
	headerReason      = "doorbell-reason"
	headerAttempts    = "doorbell-attempts"
	headerForwarder   = "doorbell-forwarder"
	headerDestination = "doorbell-destination"
)

const (
	// deadWindow is how long the server recognises a letter that is published twice, as after a
	// crash.
	deadWindow = 72 * time.Hour
	// maxLetterHeader is more than the headers of a letter add to those of its event.
	maxLetterHeader = 1 << 10
)

func deadSubjects(prefix string) string { return prefix + ".dlq.>" }

func deadSubject(prefix, name string, e events.Event) string {
	return prefix + ".dlq." + name + "." + events.Token(e.AgencyID) + "." + string(e.Type)
}

// DeadLetterConfig returns the desired configuration of the stream of dead letters beside a stream
// of events.
func DeadLetterConfig(prefix, listings string, retention time.Duration,
	maxBytes int64,
) jetstream.StreamConfig {
	return stream.Complete(jetstream.StreamConfig{
		Name:        stream.DeadLetters(listings),
		Description: "doorbell: events that receivers permanently rejected",
		Subjects:    []string{deadSubjects(prefix)},
		MaxBytes:    maxBytes,
		MaxAge:      retention,
		Duplicates:  deadWindow,
	})
}

// EnsureDeadLetters creates the stream if it is missing. It changes an existing one only on the
// embedded server, which belongs to the daemon.
func EnsureDeadLetters(ctx context.Context, conn stream.Conn, c jetstream.StreamConfig, embedded bool) error {
	js, err := conn.JetStream()
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err = stream.Ensure(ctx, js, c, stream.Rights{Manage: true, Embedded: embedded})
	// another process has just created it
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

// toDeadLetters writes a dead letter. Writing the same one again has no effect. If the contact
// request was erased, it returns false and leaves no letter.
func (w *worker) toDeadLetters(ctx context.Context, i *item, reason string) (written bool, err error) {
	if gone, err := w.erased(ctx, i); gone || err != nil {
		return false, err
	}
	o, e := w.f.o, i.event
	if most := int(o.Conn.MaxPayload()); most > 0 {
		e = e.Fit(most - maxLetterHeader)
	}
	forwarder, destination, _ := strings.Cut(i.to[0], ".")
	letter := &nats.Msg{
		Subject: deadSubject(o.Prefix, forwarder, e),
		Header:  nats.Header(e.Header()), Data: e.Data,
	}
	letter.Header.Set(nats.MsgIdHdr, forwarder+"/"+destination+"/"+e.ID)
	letter.Header.Set(headerForwarder, forwarder)
	letter.Header.Set(headerDestination, destination)
	letter.Header.Set(headerReason, reason)
	letter.Header.Set(headerAttempts, strconv.Itoa(i.tries))
	number, err := w.post(ctx, letter)
	if err != nil {
		return false, err
	}
	gone, err := w.erased(ctx, i)
	if gone { // while the letter was written: the erasure may have looked for letters before that
		if _, err := client(o.Conn, stream.DeadLetters(o.Stream)).EraseAt(ctx, number); err != nil {
			w.log.Error("the dead letter of an erased contact request cannot be erased: drop it",
				"event_id", e.ID, "err", err.Error())
		}
	}
	return !gone, err
}

// post publishes a letter and returns its number. It creates the stream if that is missing and
// Options.Manage allows it.
func (w *worker) post(ctx context.Context, letter *nats.Msg) (number uint64, err error) {
	o, name := w.f.o, stream.DeadLetters(w.f.o.Stream)
	ctx, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	publish := func() (*jetstream.PubAck, error) {
		return w.f.js.PublishMsg(ctx, letter, jetstream.WithExpectStream(name),
			jetstream.WithRetryAttempts(0))
	}
	ack, err := publish()
	if errors.Is(err, jetstream.ErrNoStreamResponse) && o.Manage {
		c := DeadLetterConfig(o.Prefix, o.Stream, o.Retention, 0)
		if err := EnsureDeadLetters(ctx, o.Conn, c, false); err != nil {
			return 0, err
		}
		ack, err = publish()
	}
	if err != nil {
		return 0, fmt.Errorf("dead letters: stream %s: %w", name, err)
	}
	return ack.Sequence, nil
}
