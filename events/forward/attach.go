package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reasons why nothing comes from NATS.
var (
	errNoStream = errors.New("the stream is missing")
	errInUse    = errors.New("another forwarder of this name, with another data directory, uses this NATS; stop it, or give this one another name")
	// ErrClosed: the connection was closed for good.
	ErrClosed = errors.New("the connection to NATS was closed")
)

// attach finds the worker's consumer, or makes it where the worker goes on.
func (l *worker) attach(ctx context.Context) (jetstream.Consumer, error) {
	if !l.f.o.Conn.IsConnected() {
		return nil, stream.ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	events, err := l.f.js.Stream(ctx, l.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %s", errNoStream, l.f.o.Stream)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", l.f.o.Stream, err)
	}
	if l.stream.IsZero() {
		began := events.CachedInfo().TimeStamp.Add(-time.Since(l.started)) // what came while NATS or the stream was away is new
		l.f.state.change(func(m *memory) { m.begunBy(began) })
	}
	l.stream = events.CachedInfo().Created
	l.f.clean(ctx, events)
	c, err := events.Consumer(ctx, l.consumer)
	missing := errors.Is(err, jetstream.ErrConsumerNotFound)
	switch {
	case err != nil && !missing:
		return nil, fmt.Errorf("consumer %s: %w", l.consumer, err)
	case !missing && l.isNew() && l.inUse(c.CachedInfo()):
		return nil, errInUse
	case !missing:
		l.follow(ctx, c.CachedInfo())
		l.save()
	}
	same, err := l.stands(ctx, events) // before the consumer goes: a failure in between would leave nothing to follow
	if err != nil {
		return nil, err
	}
	// What was in hand of the one that is there would come back only after AckWait.
	if err := events.DeleteConsumer(ctx, l.consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("consumer %s: %w", l.consumer, err)
	}
	return l.make(ctx, events, same)
}

// follow goes on where the consumer stands, if that is further on than the state: which was lost, could not be written, or comes from a
// backup. A consumer of the worker's name may be that of another worker, of a destination that is no more.
func (l *worker) follow(ctx context.Context, info *jetstream.ConsumerInfo) {
	var lost, behind bool
	floor, known := info.AckFloor.Stream, info.AckFloor.Consumer > 0
	if start := info.Config.OptStartSeq; !known && start > 0 { // made anew behind what was done, and nothing more has come since
		floor, known = start-1, true
	}
	l.remembered(func(s *workerState) {
		lost = l.f.fresh && s.Since.IsZero()
		behind = s.Consumer == l.consumer && known && (s.Position == nil || s.Position.Sequence < floor)
	})
	if lost || behind {
		at := l.at(ctx, floor)
		l.remembered(func(s *workerState) { s.Position = at })
	}
	if lost {
		l.begin(info.Created)
	}
}

// at is a message of the stream as a position; without an id where there is none.
func (l *worker) at(ctx context.Context, sequence uint64) *position {
	p := &position{Sequence: sequence, Stream: l.stream}
	if sequence == 0 {
		return p
	}
	m, err := l.messages().Get(ctx, stream.Query{Sequence: sequence})
	if err == nil && m != nil {
		p.ID = m.Header.Get(nats.MsgIdHdr)
	}
	return p
}

// stands says whether the stream is the one in which the worker was: what it did last is there, or nothing is there any more: it was erased.
// Where the consumer stood at a message without an id, none is there either. Another message at the place is
// of another history, whose tail was lost. What is not seen is a tail that was lost, has grown again beyond
// the place, and lacks a message there because the one that took it was erased as well: what then stands
// before the place is not sent.
func (l *worker) stands(ctx context.Context, in jetstream.Stream) (bool, error) {
	var p *position
	l.remembered(func(s *workerState) {
		if !s.Since.IsZero() {
			p = s.Position
		}
	})
	if p == nil {
		return false, nil
	}
	var m *stream.Message
	var err error
	if p.Sequence > 0 {
		m, err = l.messages().Get(ctx, stream.Query{Sequence: p.Sequence})
	}
	switch {
	case err != nil:
		return false, nil
	case m != nil && p.ID != "":
		return m.Header.Get(nats.MsgIdHdr) == p.ID, nil
	case m != nil && m.Header.Get(nats.MsgIdHdr) != "":
		return false, nil
	}
	info, err := in.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", l.f.o.Stream, err)
	}
	return p.Stream.Equal(info.Created) && info.State.FirstSeq <= p.Sequence && p.Sequence <= info.State.LastSeq, nil
}

// messages reads the stream of the events.
func (l *worker) messages() stream.Client {
	return stream.Client{Conn: l.f.o.Conn, Stream: l.f.o.Stream, Wait: answerLimit}
}

// erased says whether a contact request that was fetched has been removed from the stream: then nobody may get it any more. One that has
// expired, or was lost with the stream or its tail, has not.
func (l *worker) erased(ctx context.Context, i *item) (bool, error) {
	if !i.event.HoldsPerson() {
		return false, nil
	}
	m, err := l.messages().Get(ctx, stream.Query{Sequence: i.place})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil || m != nil { // another one too: it is of another history
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s, err := l.f.js.Stream(ctx, l.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", l.f.o.Stream, err)
	}
	info := s.CachedInfo()
	if !l.stream.Equal(info.Created) || i.place > info.State.LastSeq {
		return false, nil
	}
	return i.place >= info.State.FirstSeq || !forgets(info, i.stored), nil
}

// forgets says whether a stream may have let go by itself what was stored at a time, and stood before its first message.
func forgets(info *jetstream.StreamInfo, stored time.Time) bool {
	c := info.Config
	return c.MaxAge > 0 && info.TimeStamp.Sub(stored) >= c.MaxAge ||
		c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0)
}

// inUse says whether somebody else pulls from the consumer, or did a minute ago: each would acknowledge what is for the other.
func (l *worker) inUse(info *jetstream.ConsumerInfo) bool {
	if info.NumWaiting > 0 || !l.usedAt.IsZero() && info.Delivered.Consumer != l.usedTo {
		l.usedAt, l.usedTo = time.Now(), info.Delivered.Consumer
	}
	return !l.usedAt.IsZero() && time.Since(l.usedAt) < time.Minute
}

// isNew says that the worker has not begun, as far as it knows.
func (l *worker) isNew() (is bool) {
	l.remembered(func(s *workerState) { is = s.Since.IsZero() })
	return is
}

// config is the consumer but for where it begins.
func (l *worker) config() jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable: l.consumer, Name: l.consumer,
		Description:       "doorbell: " + string(l.kind) + " for " + l.dest.name,
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           l.f.o.AckWait,
		MaxDeliver:        -1, // our own limit does not forget the message
		MaxAckPending:     maxPending,
		InactiveThreshold: l.f.o.Retention,
	}
	if subjects := l.subjects(l.f.o.Prefix); len(subjects) == 1 {
		c.FilterSubject = subjects[0]
	} else {
		c.FilterSubjects = subjects
	}
	return c
}

// make makes the consumer. What it must not deliver again is passed over later: it may begin too early, never too late.
func (l *worker) make(ctx context.Context, stream jetstream.Stream, same bool) (jetstream.Consumer, error) {
	c := l.config()
	var since, began time.Time
	var at *position
	var early bool
	l.remembered(func(s *workerState) { since, at, early = s.Since, s.Position, s.Early })
	waited := time.Since(l.started)
	switch {
	case same: // the stream is the one in which the worker was
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, at.Sequence+1
	case !since.IsZero() && at == nil && !early && stream.CachedInfo().Created.Before(since): // nothing came yet: by the server's clock
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	case !since.IsZero():
		c.DeliverPolicy = jetstream.DeliverAllPolicy
		l.remembered(func(s *workerState) { s.Early = true })
	case waited < time.Second && !l.late:
		c.DeliverPolicy = jetstream.DeliverNewPolicy
	default: // NATS or the stream was away at first: what came meanwhile is new
		began = stream.CachedInfo().TimeStamp.Add(-waited)
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &began
	}
	made, err := stream.CreateConsumer(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", l.consumer, err)
	}
	info := made.CachedInfo()
	l.f.o.Log.Info("consumer created", "forwarder", l.f.o.Name, "consumer", l.consumer, "again", !since.IsZero())
	if began.IsZero() {
		began = info.Created
	}
	if at == nil && since.IsZero() { // else a crash before the first message would begin anew, or with all there is
		if before := l.at(ctx, info.AckFloor.Stream); before.ID != "" {
			l.remembered(func(s *workerState) { s.Position = before })
		}
	}
	l.begin(began)
	return made, nil
}

// begin remembers the consumer, and when the worker began if that is not known.
func (l *worker) begin(began time.Time) {
	l.f.state.change(func(m *memory) {
		s := m.Workers[l.key]
		s.Consumer = l.consumer
		if s.Since.IsZero() {
			s.Since = began.UTC().Truncate(time.Millisecond) // recorded times have no more digits
		}
		if first := &m.Periods[0]; first.From.IsZero() || s.Since.Before(first.From) {
			first.From = s.Since
		}
	})
	l.save()
}

// clean deletes consumers that nobody needs any more. What fails is tried again at the next start; and a consumer that nobody uses
// goes by itself.
func (f *Forwarder) clean(ctx context.Context, stream jetstream.Stream) {
	var leftover []string
	f.state.look(func(m *memory) { leftover = slices.Clone(m.Leftover) })
	for _, c := range leftover {
		err := stream.DeleteConsumer(ctx, c)
		if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
			f.state.change(func(m *memory) {
				m.Leftover = slices.DeleteFunc(m.Leftover, func(other string) bool { return other == c })
			})
		}
	}
}
