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
// error. Messages that are no events of ours are yielded as an error each, and so is that the stream was made anew, which is then read
// from its beginning; the reading goes on. Any other error is the last thing yielded. It leaves nothing behind on the server.
func Tail(ctx context.Context, nc *nats.Conn, o TailOptions) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		fail := func(err error) { yield(events.Event{}, fmt.Errorf("read stream %s: %w", o.Stream, err)) }
		js, err := jetstream.New(nc)
		if err != nil {
			fail(err)
			return
		}
		created, err := o.created(ctx, js)
		if err != nil {
			fail(err)
			return
		}
		messages, err := o.open(ctx, js)
		if err != nil {
			fail(err)
			return
		}
		defer func() { messages.Stop() }()
		for checked := time.Now(); ; {
			waiting, cancel := context.WithTimeout(ctx, tailCheck)
			m, err := messages.Next(jetstream.NextContext(waiting))
			idle := errors.Is(err, context.DeadlineExceeded)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err != nil && !idle {
				fail(err)
				return
			}
			if idle || time.Since(checked) > tailCheck { // a consumer waits for ever behind the end of a shorter stream
				checked = time.Now()
				if now, err := o.created(ctx, js); err == nil && !now.Equal(created) {
					created, o.All = now, true
					again, err := o.open(ctx, js)
					if err != nil {
						fail(err)
						return
					}
					messages.Stop()
					messages = again
					if !yield(events.Event{}, fmt.Errorf("stream %s: %w", o.Stream, ErrAnew)) {
						return
					}
					continue // what was in hand is read again
				}
			}
			if idle {
				continue
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

// tailCheck is how often it is asked whether the stream is still the same.
const tailCheck = 5 * time.Second

// created is when the stream was made.
func (o TailOptions) created(ctx context.Context, js jetstream.JetStream) (time.Time, error) {
	s, err := js.Stream(ctx, o.Stream)
	if err != nil {
		return time.Time{}, err
	}
	return s.CachedInfo().Created, nil
}

// ErrAnew is wrapped by what Tail yields where the stream was made anew.
var ErrAnew = errors.New("it was made anew; going on from its beginning")

// ErrForeign is wrapped by what Tail yields for a message that is no event of ours.
var ErrForeign = errors.New("not an event of ours")

func (o TailOptions) open(ctx context.Context, js jetstream.JetStream) (jetstream.MessagesContext, error) {
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
