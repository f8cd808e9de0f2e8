package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// TailOptions select what Tail reads.
type TailOptions struct {
	Stream, Prefix string
	Agency         string      // empty: all
	Type           events.Type // empty: all
	// Where to begin: at a time, at the beginning of the stream, or, if neither is set, with the
	// next event that is published.
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

// ErrForeign is wrapped by the error that Tail yields for a message that is not an event of
// doorbell.
var ErrForeign = errors.New("not one of our events")

// errRecreated ends Tail: its consumer, whose place may lie beyond the end of the new stream, would
// wait forever.
var errRecreated = errors.New("it was recreated")

// tailCheck is how often Tail checks that the stream is still the same.
const tailCheck = 5 * time.Second

// Tail yields events from the stream in order, without gaps across reconnects, until ctx ends,
// which is not an error. Each message that is not an event yields an error that wraps ErrForeign,
// and reading continues. Any other error is the last value; so is that of a stream that was
// recreated. The server deletes the consumer some minutes after Tail has ended.
func Tail(ctx context.Context, nc stream.Conn, o TailOptions) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		if err := o.read(ctx, nc, yield); err != nil && ctx.Err() == nil {
			yield(events.Event{}, fmt.Errorf("read stream %s: %w", o.Stream, err))
		}
	}
}

// read yields events until ctx ends, yield returns false, or reading fails.
func (o TailOptions) read(ctx context.Context, nc stream.Conn, yield func(events.Event, error) bool) error {
	js, err := nc.JetStream()
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, o.Stream)
	if err != nil {
		return err
	}
	consumer, err := s.OrderedConsumer(ctx, o.consumer(s))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	list := make(chan jetstream.Msg)
	reading, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case list <- m:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	defer reading.Stop()
	tick := time.NewTicker(tailCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if now, err := js.Stream(ctx, o.Stream); err == nil &&
				!now.CachedInfo().Created.Equal(s.CachedInfo().Created) {
				return errRecreated
			}
		case m := <-list:
			e, err := events.Decode(m.Headers(), m.Data())
			if err != nil {
				err = fmt.Errorf("message in stream %s: %w", o.Stream, errors.Join(ErrForeign, err))
			}
			if !yield(e, err) {
				return nil
			}
		}
	}
}

// consumer says where to begin. New events start after the present end of the stream. That place is
// given as a sequence, so that it stays the same if the consumer is made again.
func (o TailOptions) consumer(s jetstream.Stream) jetstream.OrderedConsumerConfig {
	c := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{o.filter()}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: s.CachedInfo().State.LastSeq + 1,
	}
	switch {
	case o.All:
		c.DeliverPolicy = jetstream.DeliverAllPolicy
	case !o.Since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
	}
	return c
}
