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
	ErrUnreadable = errors.New("it cannot be read, as no forwarder wrote it")
	// ErrNoReceiver means that no configured receiver takes the letter.
	ErrNoReceiver = errors.New("no receiver is configured for this letter")
	// ErrNotErased means that the letter could not be erased. Guests of the embedded server may not
	// do so.
	ErrNotErased = errors.New("the letter stays: this user of NATS may not erase it, or the server does not answer")
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
	conn   stream.Conn
	js     jetstream.JetStream
	prefix string
	stream string
	next   map[string]time.Time // when the next message may be sent, by destination
}

// answerLimit is how long a response of the NATS server may take.
const answerLimit = 5 * time.Second

// OpenDeadLetters opens the dead letters beside a stream of events, whose name it takes. It makes
// no network calls.
func OpenDeadLetters(conn stream.Conn, prefix, events string) (*DeadLetters, error) {
	js, err := conn.JetStream()
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return &DeadLetters{conn: conn, js: js, prefix: prefix, stream: stream.DeadLetters(events), next: map[string]time.Time{}}, nil
}

// List yields the letters, oldest first. A missing stream is an empty list.
func (d *DeadLetters) List(ctx context.Context) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for m, err := range letters(d.conn, d.stream).Read(ctx, deadSubjects(d.prefix), 0) {
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
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s, err := d.js.Stream(ctx, d.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("dead letters: %w", err)
	}
	return s.CachedInfo().State.Msgs, nil
}

// Resend sends a letter once more, as a delivery of its own, by the routes of the letter's
// forwarder. It leaves the letter where it is: dropping it may need another user of NATS.
func (d *DeadLetters) Resend(ctx context.Context, number uint64, routes func(forwarder string) []Route) error {
	m, err := d.get(ctx, number)
	if err != nil {
		return err
	}
	l, e := d.read(m)
	if l.Unreadable {
		return fmt.Errorf("dead letter %d: %w", number, ErrUnreadable)
	}
	from := slices.Clone(routes(l.Forwarder))
	for n := range from {
		from[n].Forwarder = l.Forwarder
	}
	o := choose(from, l.Forwarder+"."+l.Destination, e)
	if o == nil {
		return fmt.Errorf("%w: number %d, of forwarder %s", ErrNoReceiver, number, l.Forwarder)
	}
	traits := o.Traits()
	if !sleep(ctx, time.Until(d.next[traits.Destination])) {
		return ctx.Err()
	}
	err = send(ctx, o, Delivery{Events: []events.Event{e}})
	d.next[traits.Destination] = time.Now().Add(traits.Pace)
	if err != nil {
		return fmt.Errorf("dead letter %d: %w", number, err)
	}
	return nil
}

// choose returns the receiver of a letter: its own if the present routes name it for the event,
// otherwise the first one that they do name, and if they name none, its own all the same.
func choose(routes []Route, own string, e events.Event) Receiver {
	to := tableOf(routes).to(e)
	if len(to) == 0 || slices.Contains(to, own) {
		to = []string{own}
	}
	for _, r := range routes {
		if r.key() == to[0] {
			return r.Receiver
		}
	}
	return nil
}

// Drop erases a letter, even an unreadable one, from the server's files too.
func (d *DeadLetters) Drop(ctx context.Context, number uint64) error {
	if _, err := d.get(ctx, number); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s, err := d.js.Stream(ctx, d.stream)
	if err == nil {
		err = s.SecureDeleteMsg(ctx, number)
	}
	if err != nil {
		return fmt.Errorf("dead letter %d: %w (%w)", number, ErrNotErased, err)
	}
	return nil
}

// get returns the message of a letter.
func (d *DeadLetters) get(ctx context.Context, number uint64) (*stream.Message, error) {
	if number == 0 {
		return nil, fmt.Errorf("%w: 0", ErrNoLetter)
	}
	m, err := look(ctx, d.conn, d.stream, stream.Query{Sequence: number})
	if err == nil && (m == nil || !strings.HasPrefix(m.Subject, strings.TrimSuffix(deadSubjects(d.prefix), ">"))) {
		return nil, fmt.Errorf("%w: %d", ErrNoLetter, number)
	}
	return m, err
}

func letters(nc stream.Conn, name string) stream.Client {
	return stream.Client{Conn: nc, Stream: name, Wait: answerLimit}
}

// look returns a message of the stream of dead letters, nil if there is none. The stream is created
// with its first letter, so it may be missing.
func look(ctx context.Context, nc stream.Conn, name string, q stream.Query) (*stream.Message, error) {
	m, err := letters(nc, name).Get(ctx, q)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return m, nil
}

// read returns a letter and its event. A message that no forwarder wrote is Unreadable.
func (d *DeadLetters) read(m *stream.Message) (Letter, events.Event) {
	e, err := events.Decode(m.Header, m.Data)
	forwarder := m.Header.Get(headerForwarder)
	if err != nil || ValidName(forwarder) != nil || m.Subject != deadSubject(d.prefix, forwarder, e) {
		return Letter{Number: m.Sequence, At: m.Time.UTC(), Reason: ErrUnreadable.Error(), Unreadable: true}, e
	}
	l := Letter{
		Number: m.Sequence, Type: e.Type, AgencyID: e.AgencyID, Reference: e.Reference, ID: e.ID, At: m.Time.UTC(),
		Forwarder: forwarder, Destination: m.Header.Get(headerDestination), Reason: m.Header.Get(headerReason),
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

// deadWindow is how long the server recognises a letter that is published twice. Letters are few,
// so it can be long.
const deadWindow = time.Hour

func deadSubjects(prefix string) string { return prefix + ".dlq.>" }

func deadSubject(prefix, name string, e events.Event) string {
	return prefix + ".dlq." + name + "." + events.Token(e.AgencyID) + "." + string(e.Type)
}

// DeadLetterConfig returns the desired configuration of the stream of dead letters beside a stream
// of events.
func DeadLetterConfig(prefix, listings string, retention time.Duration, maxBytes int64, replicas int) jetstream.StreamConfig {
	return stream.Complete(jetstream.StreamConfig{
		Name:        stream.DeadLetters(listings),
		Description: "doorbell: events that receivers permanently rejected",
		Subjects:    []string{deadSubjects(prefix)},
		MaxBytes:    maxBytes,
		MaxAge:      retention,
		Replicas:    replicas,
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
	found, err := stream.Ensure(ctx, js, c, stream.Rights{Manage: true, Embedded: embedded})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has just created it
		return fmt.Errorf("dead letters: %w", err)
	}
	return found.Unchanged
}

// toDeadLetters writes a dead letter. Writing the same one again has no effect: the server
// recognises its id for a while, and after that a look at the newest letter on its subject does. If
// the contact request was erased, it returns false and leaves no letter.
func (w *worker) toDeadLetters(ctx context.Context, m *item, reason string) (written bool, err error) {
	o, receiver := w.f.o, m.to[0]
	forwarder, destination, _ := strings.Cut(receiver, ".")
	subject := deadSubject(o.Prefix, forwarder, m.event)
	id := forwarder + "/" + destination + "/" + m.event.ID
	if gone, err := w.erased(ctx, m); err != nil {
		return false, err
	} else if gone { // a letter may exist that was written before a crash
		return false, w.eraseLetter(ctx, m, subject, id)
	}
	last, err := look(ctx, o.Conn, stream.DeadLetters(o.Stream), stream.Query{Last: subject})
	if err != nil {
		return false, err
	}
	if last != nil && last.Header.Get(nats.MsgIdHdr) == id {
		return true, nil
	}
	letter := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: m.event.Data}
	for name, values := range m.message.Headers() {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") { // the server would obey their fences and batches again
			letter.Header[name] = values
		}
	}
	letter.Header.Set(nats.MsgIdHdr, id)
	letter.Header.Set(headerForwarder, forwarder)
	letter.Header.Set(headerDestination, destination)
	letter.Header.Set(headerReason, reason)
	letter.Header.Set(headerAttempts, strconv.Itoa(m.tries))
	fit(letter, m.event, o.Conn.MaxPayload())
	if err := w.post(ctx, letter); err != nil {
		return false, err
	}
	gone, err := w.erased(ctx, m)
	if gone { // while the letter was written: the erasure may have looked for letters before that
		err = w.eraseLetter(ctx, m, subject, id)
	}
	return !gone, err
}

// eraseLetter erases the letter of a contact request that was erased. If this user of NATS may not
// erase, that is logged and the letter stays.
func (w *worker) eraseLetter(ctx context.Context, i *item, subject, id string) error {
	all := letters(w.f.o.Conn, stream.DeadLetters(w.f.o.Stream))
	_, err := all.Erase(ctx, subject, func(m *stream.Message) bool { return m.Header.Get(nats.MsgIdHdr) == id })
	if err == nil {
		return nil
	}
	may := all.MayErase(ctx)
	if !errors.Is(may, stream.ErrMayNotErase) {
		return fmt.Errorf("dead letters: %w", err)
	}
	w.f.kept.Do(func() {
		w.f.o.Log.Error("the dead letter of an erased contact request cannot be erased, nor others like it: drop it as a user of NATS who may erase",
			"forwarder", w.forwarder, "lane", w.lane, "event_id", i.event.ID, "err", may.Error())
	})
	return nil
}

// fit shortens the event of a letter that the letter's own headers make larger than a message may
// be.
func fit(letter *nats.Msg, e events.Event, maxPayload int64) {
	over := letter.Size() - len(letter.Subject) - int(maxPayload)
	if over <= 0 || maxPayload <= 0 {
		return
	}
	const margin = 64
	alone := nats.Msg{Header: nats.Header(e.Header()), Data: e.Data}
	letter.Data = e.Fit(alone.Size() - over - margin).Data
}

// post publishes a letter. It creates the stream if that is missing and Options.Manage allows it.
func (w *worker) post(ctx context.Context, letter *nats.Msg) error {
	o := w.f.o
	publish := func() error {
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		_, err := w.f.js.PublishMsg(ctx, letter, jetstream.WithExpectStream(stream.DeadLetters(o.Stream)), jetstream.WithRetryAttempts(0))
		return err
	}
	err := publish()
	if errors.Is(err, jetstream.ErrNoStreamResponse) && o.Manage {
		if err := EnsureDeadLetters(ctx, o.Conn, DeadLetterConfig(o.Prefix, o.Stream, o.Retention, 0, o.Replicas), false); err != nil {
			return err
		}
		err = publish()
	}
	if err != nil {
		return fmt.Errorf("dead letters: stream %s: %w", stream.DeadLetters(o.Stream), err)
	}
	return nil
}
