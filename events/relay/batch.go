package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Headers of JetStream that a relay sends.
const (
	headerStream       = "Nats-Expected-Stream"
	headerFence        = "Nats-Expected-Last-Subject-Sequence"
	headerFenceSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerBatch        = "Nats-Batch-Id"
	headerBatchPlace   = "Nats-Batch-Sequence"
	headerBatchCommit  = "Nats-Batch-Commit"
	// headerResent marks what the stream held before and had lost.
	headerResent = "doorbell-resent"
)

// errNoBatches: the server acknowledged a message of a batch singly, so it has stored it.
var errNoBatches = errors.New("the server does not treat the batch as one")

// errNotSeen: a message came after the look.
var errNotSeen = &jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: a message came in between"}

// errAnswer: an answer that no JetStream gives.
var errAnswer = errors.New("answer that cannot be understood")

// message is an event as it is published, without fence and batch.
func (r *Relay) message(e events.Event, maxMessage int, resent bool) *nats.Msg {
	e = e.Fit(maxMessage)
	m := &nats.Msg{Subject: events.Subject(r.o.Prefix, e.AgencyID, e.Type), Header: nats.Header(e.Header()), Data: e.Data}
	m.Header[headerStream] = []string{r.o.Stream}
	if resent {
		m.Header[headerResent] = []string{"1"}
	}
	return m
}

// publish sends messages of one agency, all or none, if the last message of the agency still stands at fence. It returns
// the place of the last one. After an error nobody knows what the stream holds: look.
func (r *Relay) publish(ctx context.Context, filter string, fence uint64, messages []*nats.Msg) (uint64, error) {
	first := messages[0]
	setFence(first, filter, fence)
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
	a, err := r.request(ctx, m)
	switch {
	case err != nil:
		return 0, err
	case a.Sequence == 0 || a.Stream != r.o.Stream:
		return 0, errAnswer
	case a.Duplicate: // its place may be before the fence
		return 0, &jetstream.APIError{Code: 400, ErrorCode: 10201, Description: "the id is in the stream already"}
	}
	return a.Sequence, nil
}

// publishBatch is the client's side of ADR-50: the first message asks, so that an error comes early, those between are
// only sent, the last one commits.
func (r *Relay) publishBatch(ctx context.Context, messages []*nats.Msg) (uint64, error) {
	last := len(messages) - 1
	a, err := r.request(ctx, messages[0])
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
	a, err = r.request(ctx, messages[last])
	switch {
	case err != nil:
		return 0, fmt.Errorf("commit batch: %w", err)
	case a.Stream != r.o.Stream || a.Batch != messages[0].Header.Get(headerBatch) || a.Count != len(messages) || a.Sequence == 0:
		return 0, errAnswer
	}
	return a.Sequence, nil
}

// answer is what JetStream says to a message; all zero where it only staged it.
type answer struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Batch     string              `json:"batch"`
	Count     int                 `json:"count"`
	Error     *jetstream.APIError `json:"error"`
}

func (r *Relay) request(ctx context.Context, m *nats.Msg) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	reply, err := r.o.Conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return answer{}, err
	}
	var a answer
	if len(reply.Data) == 0 {
		return a, nil
	}
	if json.Unmarshal(reply.Data, &a) != nil {
		return answer{}, errAnswer
	}
	if a.Error != nil {
		return answer{}, a.Error
	}
	return a, nil
}
