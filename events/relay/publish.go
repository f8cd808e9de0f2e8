package relay

import (
	"context"
	"fmt"
	"strconv"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

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

// fenceEvents lets a message be refused if the agency's last event in the stream does not stand at fence.
func (l *worker) fenceEvents(m *nats.Msg, fence uint64) {
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fence, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{l.filter}
}

// publish sends messages, all or none, and returns the place of the last one. After an error it is not known what the stream holds:
// reconcile.
func (r *Relay) publish(ctx context.Context, messages []*nats.Msg) (uint64, error) {
	for _, m := range messages {
		// A message that the client refuses in the middle would leave the batch open.
		if int64(m.Size()-len(m.Subject)) > r.o.Conn.MaxPayload() {
			return 0, fmt.Errorf("message of %d bytes: %w", m.Size(), nats.ErrMaxPayload)
		}
	}
	if len(messages) == 1 {
		a, err := r.js.PublishMsg(ctx, messages[0])
		switch {
		case err != nil:
			return 0, err
		case a.Duplicate: // its place may be before the fence
			return 0, &jetstream.APIError{Code: 400, ErrorCode: 10201, Description: "the id is in the stream already"}
		}
		return a.Sequence, nil
	}
	batch, err := jetstreamext.NewBatchPublisher(r.js, jetstreamext.BatchFlowControl{})
	if err != nil {
		return 0, err
	}
	for _, m := range messages[:len(messages)-1] {
		if err := batch.AddMsg(m); err != nil {
			return 0, fmt.Errorf("fill batch: %w", err)
		}
	}
	a, err := batch.CommitMsg(ctx, messages[len(messages)-1])
	if err != nil {
		return 0, fmt.Errorf("commit batch: %w", err)
	}
	return a.Sequence, nil
}

// send publishes events of the agency in order, and moves the fence behind the last one, whose place it returns. Where they are too many
// for the server, it sends fewer from then on.
func (l *worker) send(ctx context.Context, s session, list []events.Event, resent bool) (place uint64, err error) {
	messages := make([]*nats.Msg, len(list))
	for i, e := range list {
		messages[i] = l.r.message(e, s.maxMessage, resent)
	}
	l.fenceEvents(messages[0], l.fence)
	place, err = l.r.publish(ctx, messages)
	switch {
	case err == nil:
		l.fence = place
	case classify(err) == classTooMany:
		l.most = max(1, len(list)/2)
	}
	return place, err
}

// inOne is how many events may go in one batch.
func (l *worker) inOne(s session) int {
	if !s.atomic {
		return 1
	}
	return l.most
}
