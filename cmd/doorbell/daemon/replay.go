package daemon

import (
	"context"
	"errors"
	"iter"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/store"
)

// reportEvery is how often a replay says how far it is.
const reportEvery = 200 * time.Millisecond

// replay publishes events of the daemon's log once more and reports how far it is: at the
// beginning, now and then, and at the end. It has a connection of its own: what is published as
// news does not wait for it.
func (a *Daemon) replay(ctx context.Context, q ops.ReplayRequest, progress func(ops.ReplayProgress) error) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	a.o.Log.Info("replay begins", "job", q.Job)
	o, last := a.o, time.Time{}
	report := func(p relay.Replayed) error {
		last = time.Now()
		return progress(ops.ReplayProgress{
			Job: q.Job, Subject: relay.ReplaySubjects(o.SubjectPrefix, q.Job), Stream: stream.Replays(o.Stream),
			Total: q.Total, Published: p.Published, AlreadyThere: p.AlreadyThere,
		})
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p, err := relay.Replay(running, relay.ReplayOptions{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: stream.Replays(o.Stream), Job: q.Job, MaxBytes: o.StreamMax,
		Manage: o.ManageStream, Embedded: o.NATS.URL == "", Rate: q.Rate, Erased: erasedIn(a.store),
	}, eventsOf(ops.Log{Store: a.store}.Events(running, q.Query)), func(p relay.Replayed) {
		if time.Since(last) >= reportEvery {
			if err := report(p); err != nil {
				stop(err)
			}
		}
	})
	err = stream.Explain(conn, err)
	log := a.o.Log.With("job", q.Job, "published", p.Published, "already_there", p.AlreadyThere)
	switch {
	case ctx.Err() != nil: // the command has ended
		log.Info("replay stopped")
		return ctx.Err()
	case errors.Is(err, relay.ErrNotConnected):
		err = ops.WithHint(err, "is NATS up? If it is not, --to - prints the events")
	case err == nil || !last.IsZero():
		err = errors.Join(err, report(p))
	}
	log.Info("replay ends", "err", err)
	return err
}

// erasedIn reports whether the log has erased the person of an event since, or no longer has the
// event.
func erasedIn(s *store.Store) func(events.Event) (bool, error) {
	return func(e events.Event) (bool, error) {
		now, found, err := s.Lookup(e.Sequence)
		return err == nil && (!found || now.Erased()), err
	}
}

func eventsOf(logged iter.Seq2[ops.LoggedEvent, error]) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for e, err := range logged {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}
