package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TailOptions say what Tail reads.
type TailOptions struct {
	Stream, Prefix string
	Agency         string      // empty: all
	Type           events.Type // empty: all
	// Where to begin: the events since a moment, All there are, or, where neither is set, those that are published from
	// now on.
	Since time.Time
	All   bool
}

func (o TailOptions) filter() string {
	agency, kind := "*", ">"
	if o.Agency != "" {
		agency = events.Token(o.Agency)
	}
	if o.Type != "" {
		kind = string(o.Type)
	}
	return o.Prefix + ".v1." + agency + "." + kind
}

// Tail yields events from the stream, in its order and without gaps also over reconnects, until ctx ends, which is no
// error. Messages that are no events of ours are yielded as an error each, and the reading goes on; any other error is the
// last thing yielded. It leaves nothing behind on the server.
func Tail(ctx context.Context, nc *nats.Conn, o TailOptions) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		messages, err := o.open(ctx, nc)
		if err != nil {
			yield(events.Event{}, fmt.Errorf("read stream %s: %w", o.Stream, err))
			return
		}
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(events.Event{}, fmt.Errorf("read stream %s: %w", o.Stream, err))
				return
			}
			e, err := events.Decode(m.Headers(), m.Data())
			if err != nil {
				err = fmt.Errorf("message in stream %s: %w", o.Stream, errors.Join(ErrForeign, err))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// ErrForeign is wrapped by what Tail yields for a message that is no event of ours.
var ErrForeign = errors.New("not an event of ours")

func (o TailOptions) open(ctx context.Context, nc *nats.Conn) (jetstream.MessagesContext, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	c := jetstream.OrderedConsumerConfig{FilterSubjects: []string{o.filter()}, DeliverPolicy: jetstream.DeliverNewPolicy}
	switch {
	case o.All:
		c.DeliverPolicy = jetstream.DeliverAllPolicy
	case !o.Since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
	}
	consumer, err := js.OrderedConsumer(ctx, o.Stream, c)
	if err != nil {
		return nil, err
	}
	return consumer.Messages()
}
