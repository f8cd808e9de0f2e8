package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// This file is a worker's consumer: how it is found, created, and deleted.

// attach finds the worker's consumer or creates it. If messages await an acknowledgement, it waits
// until the server offers them again: otherwise the messages behind them would be delivered first.
func (w *worker) attach(ctx context.Context) (jetstream.Consumer, error) {
	w.queue = nil // the server offers these again
	if !w.f.o.Conn.IsConnected() {
		return nil, stream.ErrNotConnected
	}
	asking, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	s, err := w.f.js.Stream(asking, w.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %s", errNoStream, w.f.o.Stream)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", w.f.o.Stream, err)
	}
	byServer := func(read time.Time) time.Time { return s.CachedInfo().TimeStamp.Add(-time.Since(read)) }
	w.f.begin(byServer(w.f.o.Since))
	w.stream, w.busy = s.CachedInfo().Created, time.Now()
	c, err := s.Consumer(asking, w.done.Consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		// It begins when the routes were read that first named the receiver. A replacement begins
		// with the stream: the worker knows which events are done, and which were not its own when
		// they were recorded.
		want := jetstream.ConsumerConfig{Durable: w.done.Consumer, DeliverPolicy: jetstream.DeliverAllPolicy}
		if w.fresh {
			since := byServer(w.since)
			want.DeliverPolicy, want.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
		}
		w.log.Info("consumer created", "consumer", w.done.Consumer, "again", !w.fresh)
		c, err = s.CreateConsumer(asking, w.config(want))
	case err == nil && w.fresh && !w.shares(c.CachedInfo().Config):
		return nil, errOther
	case err == nil:
		c, err = s.UpdateConsumer(asking, w.config(c.CachedInfo().Config))
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", w.done.Consumer, err)
	}
	info := c.CachedInfo()
	w.mu.Lock()
	// A consumer that begins with the stream is a replacement, perhaps one that a process created
	// just before it died.
	w.done.Early = w.done.Early || info.Config.DeliverPolicy == jetstream.DeliverAllPolicy
	w.done.streamIs(w.stream)
	w.mu.Unlock()
	w.fresh, w.floor, w.pending = false, info.AckFloor.Stream, info.NumPending
	w.save()
	if info.NumAckPending > 0 {
		w.waiting(info.NumPending + uint64(info.NumAckPending))
		if !sleep(ctx, info.Config.AckWait+settled) {
			return nil, ctx.Err()
		}
		// they come in the order in which their AckWait ended
		if err := w.more(c, info.NumAckPending); err != nil {
			return nil, err
		}
		slices.SortFunc(w.queue, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	}
	return c, nil
}

// config returns the desired configuration of a consumer, with the name and the start of the given
// one.
func (w *worker) config(c jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	c.Description = "doorbell: events for " + w.name
	c.AckPolicy, c.AckWait = jetstream.AckExplicitPolicy, w.f.o.AckWait
	c.MaxDeliver = -1 // with a limit, the server would drop the message
	c.MaxAckPending, c.InactiveThreshold = maxPending+maxLost, w.f.o.Retention
	c.FilterSubject, c.FilterSubjects = "", w.subjects
	w.agencies = strings.Fields(c.Metadata[agenciesKey])
	w.agencies = append(w.agencies, without(w.own(), w.agencies)...)
	if len(w.agencies) > 0 {
		c.Metadata = map[string]string{agenciesKey: strings.Join(w.agencies, " ")}
	}
	return c
}

// agenciesKey is the metadata of a consumer that lists the agencies of its doorbell, as tokens.
const agenciesKey = "doorbell-agencies"

// own returns the agencies of this doorbell, as tokens; none: all.
func (w *worker) own() (tokens []string) {
	if w.f.o.Agencies != nil {
		for _, agency := range w.f.o.Agencies() {
			tokens = append(tokens, events.Token(agency))
		}
	}
	return tokens
}

// shares reports whether a consumer can be ours by the agencies that it names.
func (w *worker) shares(c jetstream.ConsumerConfig) bool {
	named, own := strings.Fields(c.Metadata[agenciesKey]), w.own()
	return len(named) == 0 || len(own) == 0 || len(without(own, named)) < len(own)
}

// ours reports whether an agency is this doorbell's, or was one when the consumer was attached: its
// waiting events are still delivered.
func (w *worker) ours(agency string) bool {
	own, token := w.own(), events.Token(agency)
	return len(own) == 0 || slices.Contains(own, token) || slices.Contains(w.agencies, token)
}

// errRetired means that the receiver was removed and no event waits for it.
var errRetired = errors.New("the receiver is gone")

// retire deletes the consumer and the file of a removed receiver, once no message has come for a
// while: the relay may still publish events from the time before the removal.
func (w *worker) retire(ctx context.Context) error {
	if w.f.o.Behind != nil && w.f.o.Behind() {
		w.busy = time.Now()
	}
	if !w.gone || w.status.Waiting > 0 || time.Since(w.busy) < leaving {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := w.f.js.DeleteConsumer(ctx, w.f.o.Stream, w.done.Consumer)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s: %w", w.done.Consumer, err)
	}
	_ = os.Remove(w.f.path(w.name))
	return errRetired
}
