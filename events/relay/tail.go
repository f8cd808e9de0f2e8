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
// from its beginning; the reading goes on. Any other error is the last thing yielded. The server forgets its consumer after some minutes.
func Tail(ctx context.Context, nc stream.Conn, o TailOptions) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for o.read(ctx, nc, yield) {
			o.All = true
		}
	}
}

// read yields what the stream holds and gets, and returns whether the stream was made anew.
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
		// A consumer waits for ever behind the end of a shorter stream. One that was made again may read another stream.
		if by := deliveredBy(m); m == nil || by != consumer {
			now, err := js.Stream(ctx, o.Stream)
			if err == nil && !now.CachedInfo().Created.Equal(s.CachedInfo().Created) {
				return yield(events.Event{}, fmt.Errorf("stream %s: %w", o.Stream, ErrAnew)) // what is in hand is read again
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

// deliveredBy names the consumer of a message, if there is one.
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

// tailCheck is how often it is asked whether the stream is still the same.
const tailCheck = 5 * time.Second

// tailHeartbeat is how often a consumer shows that it is there: one that does not for twice as long is made again.
const tailHeartbeat = jetstream.PullHeartbeat(2 * time.Second)

// ErrAnew is wrapped by what Tail yields where the stream was made anew.
var ErrAnew = errors.New("it was recreated; continuing from its beginning")

// ErrForeign is wrapped by what Tail yields for a message that is no event of ours.
var ErrForeign = errors.New("not an event of ours")

// open begins to read a stream. What is new is what comes after its present end, also where the consumer is made again.
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
