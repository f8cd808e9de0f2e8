package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Headers of a batch.
const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchPlace  = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// errNoBatches: the server acknowledged a message of a batch singly, so it has stored it.
var errNoBatches = errors.New("the server does not treat the batch as one")

// errNotSeen: a message came after the reconcile.
var errNotSeen = &jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: a message came in between"}

// message is an event as it is published, without fence and batch.
func (r *Relay) message(e events.Event, maxMessage int, resent bool) *nats.Msg {
	e = e.Fit(maxMessage)
	m := &nats.Msg{Subject: events.Subject(r.o.Prefix, e.AgencyID, e.Type), Header: nats.Header(e.Header()), Data: e.Data}
	m.Header[jetstream.ExpectedStreamHeader] = []string{r.o.Stream}
	if resent {
		m.Header[events.ResentHeader] = []string{"1"}
	}
	return m
}

// publish sends messages of one agency, all or none, if the last message of a filter, or where it is empty of the first message's own
// subject, still stands at fence. It returns the place of the last one. After an error it is not known what the stream holds: reconcile.
func (r *Relay) publish(ctx context.Context, filter string, fence uint64, messages []*nats.Msg) (uint64, error) {
	first := messages[0]
	first.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fence, 10)}
	if filter != "" {
		first.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{filter}
	}
	if len(messages) > 1 {
		mark(messages)
	}
	for _, m := range messages {
		// A message that the client refuses in the middle would leave the batch open.
		if int64(m.Size()-len(m.Subject)) > r.o.Conn.MaxPayload() {
			return 0, fmt.Errorf("message of %d bytes: %w", m.Size(), nats.ErrMaxPayload)
		}
	}
	if len(messages) == 1 {
		return r.publishOne(ctx, first)
	}
	return r.publishBatch(ctx, messages)
}

// mark makes messages a batch. Every attempt is a batch of its own.
func mark(messages []*nats.Msg) {
	id := nuid.Next()
	for i, m := range messages {
		m.Header[headerBatch] = []string{id}
		m.Header[headerBatchPlace] = []string{strconv.Itoa(i + 1)}
	}
	messages[len(messages)-1].Header[headerBatchCommit] = []string{"1"}
}

// publishOne returns the place of a message that is published alone.
func (r *Relay) publishOne(ctx context.Context, m *nats.Msg) (uint64, error) {
	a, err := r.stream.Publish(ctx, m)
	switch {
	case err != nil:
		return 0, err
	case a.Sequence == 0 || a.Stream != r.o.Stream:
		return 0, stream.ErrAnswer
	case a.Duplicate: // its place may be before the fence
		return 0, &jetstream.APIError{Code: 400, ErrorCode: 10201, Description: "the id is in the stream already"}
	}
	return a.Sequence, nil
}

// publishBatch is the client's side of ADR-50: the first message asks, so that an error comes early, those between are
// only sent, the last one commits.
func (r *Relay) publishBatch(ctx context.Context, messages []*nats.Msg) (uint64, error) {
	last := len(messages) - 1
	a, err := r.stream.Publish(ctx, messages[0])
	switch {
	case err != nil:
		return 0, fmt.Errorf("begin batch: %w", err)
	case a.Sequence != 0:
		return 0, errNoBatches
	}
	for _, m := range messages[1:last] {
		if err := r.o.Conn.PublishMsg(m); err != nil {
			return 0, fmt.Errorf("fill batch: %w", err)
		}
	}
	a, err = r.stream.Publish(ctx, messages[last])
	switch {
	case err != nil:
		return 0, fmt.Errorf("commit batch: %w", err)
	case a.Stream != r.o.Stream || a.Batch != messages[0].Header.Get(headerBatch) || a.Count != len(messages) || a.Sequence == 0:
		return 0, stream.ErrAnswer
	}
	return a.Sequence, nil
}

// manner is how a server takes events.
type manner int

const (
	inBatches manner = iota // atomic, with one fence over the agency
	singly                  // each with a fence over the agency
	bySubject               // each with a fence over its own subject, the only one that servers before batches know
)

func (f features) manner(allowed bool) manner {
	switch {
	case f.batches() && allowed:
		return inBatches
	case f.batches():
		return singly
	}
	return bySubject
}

func (m manner) String() string {
	if m == inBatches {
		return "in atomic batches"
	}
	return "one by one"
}

// send publishes events of the agency in order, and moves the fence behind the last one, whose place it returns. One by one, some
// may have arrived when there is an error: the reconcile that follows finds them.
func (l *worker) send(ctx context.Context, s session, list []events.Event, resent bool) (place uint64, err error) {
	messages := make([]*nats.Msg, len(list))
	for i, e := range list {
		messages[i] = l.r.message(e, s.maxMessage, resent)
	}
	if s.manner == inBatches {
		place, err = l.r.publish(ctx, l.filter, l.fence, messages)
	} else {
		place, err = l.sendSingly(ctx, s, messages)
	}
	if err != nil {
		return 0, err
	}
	l.fence = place
	return place, nil
}

func (l *worker) sendSingly(ctx context.Context, s session, messages []*nats.Msg) (last uint64, err error) {
	last = l.fence
	for _, m := range messages {
		filter, fence := l.filter, last
		if s.manner == bySubject {
			if filter, fence, err = l.ownFence(ctx, m.Subject, last); err != nil {
				return 0, err
			}
		}
		if last, err = l.r.publish(ctx, filter, fence, []*nats.Msg{m}); err != nil {
			return 0, err
		}
		if s.manner == bySubject {
			l.fences[m.Subject] = last
		}
	}
	return last, nil
}

// sendAgain publishes events that the stream held once. They stand behind later ones then.
func (l *worker) sendAgain(ctx context.Context, s session, list []events.Event) error {
	for batch := range slices.Chunk(list, l.most) {
		if _, err := l.send(ctx, s, batch, true); err != nil {
			return err
		}
	}
	return nil
}

// ownFence is the place of the last message of one subject. It is asked for once after each reconcile. Where there is none it would
// fence nothing: so the agency's last message has to be where we saw it, also for the others of a stream that was made anew.
func (l *worker) ownFence(ctx context.Context, subject string, last uint64) (filter string, fence uint64, err error) {
	if fence, known := l.fences[subject]; known {
		return "", fence, nil
	}
	if fence, err = l.r.placeOfLast(ctx, subject); err != nil {
		return "", 0, err
	}
	newest, err := l.r.placeOfLast(ctx, l.filter)
	if err != nil {
		return "", 0, err
	}
	if newest != last || fence > last { // it came after the reconcile
		return "", 0, errNotSeen
	}
	l.fences[subject] = fence
	return "", fence, nil
}

// placeOfLast is where the last message of a filter stands, 0 if there is none.
func (r *Relay) placeOfLast(ctx context.Context, filter string) (uint64, error) {
	m, err := r.stream.Get(ctx, stream.Query{Last: filter})
	if err != nil || m == nil {
		return 0, err
	}
	return m.Sequence, nil
}
