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

// Tail yields events from the stream in order, without gaps across reconnects, until ctx ends,
// which is not an error. Each message that is not an event yields an error that wraps ErrForeign,
// and a recreated stream yields one that wraps ErrRecreated; the new stream is read from its
// beginning. Reading continues after both. Any other error is the last value. The server deletes
// the consumer some minutes after Tail has ended.
func Tail(ctx context.Context, nc stream.Conn, o TailOptions) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for o.read(ctx, nc, yield) {
			o.All = true
		}
	}
}

// read yields the events of one stream, and reports whether the stream was recreated.
func (o TailOptions) read(ctx context.Context, nc stream.Conn, yield func(events.Event, error) bool) bool {
	fail := func(err error) bool {
		if ctx.Err() == nil {
			yield(events.Event{}, fmt.Errorf("read stream %s: %w", o.Stream, err))
		}
		return false
	}
	js, err := nc.JetStream()
	if err != nil {
		return fail(err)
	}
	s, err := js.Stream(ctx, o.Stream)
	if err != nil {
		return fail(err)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	list, err := o.open(reading, s)
	if err != nil {
		return fail(err)
	}
	tick := time.NewTicker(tailCheck)
	defer tick.Stop()
	for consumer := ""; ; {
		var next delivery
		select {
		case <-ctx.Done():
			return false
		case next = <-list:
		case <-tick.C:
		}
		m := next.message
		if next.err != nil {
			return fail(next.err)
		}
		// A consumer whose start lies beyond the end of a recreated stream waits forever. A
		// consumer that nats.go made again may read another stream.
		if by := deliveredBy(m); m == nil || by != consumer {
			now, err := js.Stream(ctx, o.Stream)
			if err == nil && !now.CachedInfo().Created.Equal(s.CachedInfo().Created) {
				return yield(events.Event{}, fmt.Errorf("stream %s: %w", o.Stream, ErrRecreated)) // m is read again
			}
			if err == nil && m != nil {
				consumer = by
			}
		}
		if m == nil {
			continue
		}
		e, err := events.Decode(m.Headers(), m.Data())
		if err != nil {
			err = fmt.Errorf("message in stream %s: %w", o.Stream, errors.Join(ErrForeign, err))
		}
		if !yield(e, err) {
			return false
		}
	}
}

// deliveredBy returns the name of the consumer that delivered a message; empty if there is no
// message.
func deliveredBy(m jetstream.Msg) string {
	if m == nil {
		return ""
	}
	at, err := m.Metadata()
	if err != nil {
		return ""
	}
	return at.Consumer
}

// tailCheck is how often Tail checks that the stream is still the same.
const tailCheck = 5 * time.Second

// tailHeartbeat is how often a consumer sends a heartbeat. Without one for twice as long nats.go
// makes the consumer again.
const tailHeartbeat = jetstream.PullHeartbeat(2 * time.Second)

// ErrRecreated is wrapped by the error that Tail yields when the stream was recreated.
var ErrRecreated = errors.New("it was recreated; continuing from its beginning")

// ErrForeign is wrapped by the error that Tail yields for a message that is not an event of
// doorbell.
var ErrForeign = errors.New("not an event of ours")

// open begins to read a stream. New events start after its present end. That place is given as a
// sequence, so that it stays the same if the consumer is made again.
func (o TailOptions) open(ctx context.Context, s jetstream.Stream) (<-chan delivery, error) {
	c := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{o.filter()}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.CachedInfo().State.LastSeq + 1,
	}
	switch {
	case o.All:
		c.DeliverPolicy = jetstream.DeliverAllPolicy
	case !o.Since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
	}
	consumer, err := s.OrderedConsumer(ctx, c)
	if err != nil {
		return nil, err
	}
	return deliveries(ctx, consumer, tailHeartbeat)
}
