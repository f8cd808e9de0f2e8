package forward

import (
	"context"
	"errors"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// worker sends one kind of events to one destination, in the order of the stream.
type worker struct {
	f        *Forwarder
	key      string
	kind     Kind
	dest     *destination
	filters  []Filter
	consumer string
	status   board

	started  time.Time // from when on what comes is new
	late     bool      // it was not there at once
	stream   time.Time // when the stream of its consumer was made
	usedAt   time.Time // when somebody else was seen to use the consumer, and how far it was then
	usedTo   uint64
	queue    []*item              // fetched and not acknowledged, in the order of the stream
	batch    int                  // how many of them are tried as one: what is tried again is the same delivery
	attempts int                  // how often they were tried
	proven   uint64               // the place of a message that the receiver does not take, though it takes others
	singly   uint64               // up to this place there are no digests: one was refused
	causes   map[string]time.Time // when halts of a cause were sent last
	said     string               // the problem that was logged last
	unsaved  bool                 // it was logged that the state cannot be written
	strange  bool                 // it was logged that there are foreign messages
}

func newWorker(f *Forwarder, d *destination, k Kind) *worker {
	l := &worker{f: f, key: workerKey(d.name, k), kind: k, dest: d, causes: map[string]time.Time{}}
	l.status.s = WorkerStatus{Destination: d.name, Kind: k, Turned: time.Now()}
	return l
}

// remembered reads or changes what is remembered of the worker.
func (l *worker) remembered(do func(*workerState)) {
	l.f.state.change(func(m *memory) { do(m.Workers[l.key]) })
}

// save writes the state. The server knows the worker's position too: a state that is not written is no reason to stop.
func (l *worker) save() {
	err := l.f.state.save()
	if err != nil && !l.unsaved {
		l.f.o.Log.Error("state file cannot be written: after a crash messages may be sent twice", "forwarder", l.f.o.Name, "err", err.Error())
	}
	l.unsaved = err != nil
}

// run forwards until ctx ends. What fails on the side of NATS is tried again.
func (l *worker) run(ctx context.Context) error {
	const most = 10 * time.Second
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))
	l.started = l.f.o.Since
	if l.started.IsZero() {
		l.started = time.Now()
	}
	for {
		l.turn()
		c, err := l.attach(ctx)
		if err == nil {
			l.report(nil)
			began := time.Now()
			if err = l.pull(ctx, c); time.Since(began) > most { // else two of one name would make each other's consumer anew without end
				retry.Reset()
			}
		}
		switch {
		case ctx.Err() != nil:
			l.save()
			for _, i := range l.queue {
				_ = i.message.Nak() // for whoever goes on without the state
			}
			return nil
		case l.f.o.Conn.IsClosed():
			return ErrClosed
		case errors.Is(err, errCut):
			return err
		}
		l.late = true
		l.report(err)
		if !sleep(ctx, retry.NextBackOff()) {
			return nil
		}
	}
}

// turn notes that the worker is not stuck.
func (l *worker) turn() { l.status.write(func(s *WorkerStatus) { s.Turned = time.Now() }) }

// report logs why nothing comes from NATS, once. A stream that is missing in the first minute is being made: that is no problem yet.
func (l *worker) report(err error) {
	text, early := "", errors.Is(err, errNoStream) && time.Since(l.started) < time.Minute
	if err != nil && !early {
		text = stream.Explain(l.f.o.Conn, err).Error()
	}
	l.status.write(func(s *WorkerStatus) { s.Problem = text })
	switch {
	case early:
		l.f.early.Do(func() {
			l.f.o.Log.Info("waiting for the stream, which is not there yet", "forwarder", l.f.o.Name, "stream", l.f.o.Stream)
		})
		return
	case text == l.said:
	case err != nil:
		l.f.o.Log.Warn("no events from NATS; retrying", "forwarder", l.f.o.Name, "lane", l.key, "err", text)
	default:
		l.f.o.Log.Info("events come from NATS again", "forwarder", l.f.o.Name, "lane", l.key)
	}
	l.said = text
}

// pull fetches messages and deals with them, until NATS fails.
func (l *worker) pull(ctx context.Context, c jetstream.Consumer) error {
	l.queue, l.batch, l.attempts = nil, 0, 0 // the consumer was made anew: they are delivered again
	for ctx.Err() == nil {
		l.turn()
		if l.dest.off.Load() {
			l.idle(ctx, c)
			continue
		}
		if err := l.fill(ctx, c); err != nil {
			return err
		}
		for len(l.queue) > 0 && !l.queue[0].wanted() {
			if err := l.finish(1); err != nil {
				return err
			}
		}
		if len(l.queue) == 0 {
			continue
		}
		if err := l.work(ctx, c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// fill fetches what a delivery can hold. With an empty queue it waits for the first message.
func (l *worker) fill(ctx context.Context, c jetstream.Consumer) error {
	if len(l.queue) == 0 {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) { // nothing came
			return nil
		}
		if err != nil {
			return err
		}
		l.take(m)
	}
	need := max(2, l.dest.traits.Digest)
	for size := 0; len(l.queue) < maxPending && size < maxBytes; {
		if all := l.kind == Alerts && need > 2; !all && l.wanted() >= need { // halts of many agencies are one delivery
			break
		}
		batch, err := c.FetchNoWait(min(need, maxPending-len(l.queue)))
		if err != nil {
			return err
		}
		came := 0
		for m := range batch.Messages() {
			came++
			size += len(m.Data())
			l.take(m)
		}
		if came == 0 {
			break
		}
	}
	l.status.write(func(s *WorkerStatus) { s.Waiting = l.waiting() })
	return nil
}

// wanted is how many of the queue are to be sent.
func (l *worker) wanted() (n int) {
	for _, i := range l.queue {
		if i.wanted() {
			n++
		}
	}
	return n
}

// waiting is how many are not done, as far as the last message tells.
func (l *worker) waiting() uint64 {
	if n := len(l.queue); n > 0 {
		return uint64(n) + l.queue[n-1].pending
	}
	return 0
}

// take puts a message into the queue, unless it is there: the server delivers again what is not acknowledged for long.
func (l *worker) take(m jetstream.Msg) {
	i := &item{lane: l, message: m, fetched: time.Now()}
	meta, err := m.Metadata()
	if err == nil {
		i.place, i.pending, i.stored = meta.Sequence.Stream, meta.NumPending, meta.Timestamp
		if slices.ContainsFunc(l.queue, func(other *item) bool { return other.place == i.place }) {
			return
		}
		i.event, err = events.Decode(m.Headers(), m.Data())
	}
	i.foreign = err != nil || m.Subject() != events.Subject(l.f.o.Prefix, i.event.AgencyID, i.event.Type)
	l.queue = append(l.queue, i)
}

// idle waits where nothing may be sent any more, and counts what waits.
func (l *worker) idle(ctx context.Context, c jetstream.Consumer) {
	l.status.write(func(s *WorkerStatus) { s.Off = true })
	l.count(ctx, c)
	sleep(ctx, 5*time.Second)
}

// count updates how many wait.
func (l *worker) count(ctx context.Context, c jetstream.Consumer) {
	if info, err := c.Info(ctx); err == nil {
		l.status.write(func(s *WorkerStatus) { s.Waiting = info.NumPending + uint64(info.NumAckPending) })
	}
}

// pause waits between two attempts, and counts meanwhile what waits.
func (l *worker) pause(ctx context.Context, c jetstream.Consumer, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		l.count(ctx, c)
		l.turn()
		left := time.Until(end)
		if !sleep(ctx, min(left, 30*time.Second)) {
			return ctx.Err()
		}
		if left <= 30*time.Second {
			return nil
		}
	}
}
