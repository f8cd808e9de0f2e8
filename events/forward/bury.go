package forward

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a dead letter beside those of its event.
const (
	headerReason      = "doorbell-reason"
	headerAttempts    = "doorbell-attempts"
	headerForwarder   = "doorbell-forwarder"
	headerDestination = "doorbell-destination"
	headerHad         = "doorbell-had"
)

// deadWindow is how long the server knows that a letter is there already. They are few.
const deadWindow = time.Hour

func deadStream(stream string) string { return stream + "_DLQ" }

func deadSubjects(prefix string) string { return prefix + ".dlq.>" }

func deadSubject(prefix, name string, e events.Event) string {
	return prefix + ".dlq." + name + "." + events.Token(e.AgencyID) + "." + string(e.Type)
}

// DeadLetterConfig is the stream of dead letters as it should be, beside a stream of events.
func DeadLetterConfig(prefix, stream string, retention time.Duration, maxBytes int64, replicas int) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:              deadStream(stream),
		Description:       "doorbell: what outlets refused for good",
		Subjects:          []string{deadSubjects(prefix)},
		Retention:         jetstream.LimitsPolicy,
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		MaxBytes:          -1,
		MaxAge:            retention,
		Discard:           jetstream.DiscardNew,
		Storage:           jetstream.FileStorage,
		Replicas:          max(1, replicas),
		Duplicates:        deadWindow,
		AllowDirect:       true,
	}
	if maxBytes > 0 {
		c.MaxBytes = maxBytes
	}
	if retention > 0 {
		c.Duplicates = min(c.Duplicates, retention)
	}
	return c
}

// EnsureDeadLetters makes a stream if it is missing. One that is there is changed only if the server is the daemon's own, where guests,
// as forwarders beside it are, may make none.
func EnsureDeadLetters(ctx context.Context, conn *nats.Conn, c jetstream.StreamConfig, embedded bool) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	found, err := stream.Ensure(ctx, js, c, stream.Rights{Manage: true, Embedded: embedded})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another at this moment
		return fmt.Errorf("dead letters: %w", err)
	}
	return found.Unchanged
}

// bury writes a dead letter. The same one twice is one: the server tells it by its id for a while, and afterwards by a look at the
// newest on its subject.
func (l *lane) bury(ctx context.Context, m *item, attempts int, reason string, had []string) error {
	js, o := l.f.js, l.f.o
	subject := deadSubject(o.Prefix, o.Name, m.event)
	id := o.Name + "/" + l.dest.name + "/" + m.event.ID
	last, err := getMessage(ctx, js, deadStream(o.Stream), map[string]any{"last_by_subj": subject})
	if err == nil && last.header.Get(nats.MsgIdHdr) == id {
		return nil
	}
	if err != nil && !errors.Is(err, ErrNoLetter) {
		return fmt.Errorf("dead letters: %w", err)
	}
	letter := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: m.event.Data}
	for name, values := range m.message.Headers() {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") { // a fence or a batch would be obeyed once more
			letter.Header[name] = values
		}
	}
	letter.Header.Set(nats.MsgIdHdr, id)
	letter.Header.Set(headerForwarder, o.Name)
	letter.Header.Set(headerDestination, l.dest.name)
	letter.Header.Set(headerReason, reason)
	letter.Header.Set(headerAttempts, strconv.Itoa(attempts))
	if len(had) > 0 {
		letter.Header.Set(headerHad, strings.Join(had, " "))
	}
	fit(letter, m.event, o.Conn.MaxPayload())
	return l.post(ctx, letter)
}

// fit makes room for what a letter says beside its event, where that fills a message by itself.
func fit(letter *nats.Msg, e events.Event, most int64) {
	over := letter.Size() - len(letter.Subject) - int(most)
	if over <= 0 || most <= 0 {
		return
	}
	const margin = 64
	alone := nats.Msg{Header: nats.Header(e.Header()), Data: e.Data}
	letter.Data = e.Fit(alone.Size() - over - margin).Data
}

// post publishes a letter and makes the stream, if it is missing and ours to make.
func (l *lane) post(ctx context.Context, letter *nats.Msg) error {
	o := l.f.o
	publish := func() error {
		ctx, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		_, err := l.f.js.PublishMsg(ctx, letter, jetstream.WithExpectStream(deadStream(o.Stream)), jetstream.WithRetryAttempts(0))
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
		return fmt.Errorf("dead letters: stream %s: %w", deadStream(o.Stream), err)
	}
	return nil
}
