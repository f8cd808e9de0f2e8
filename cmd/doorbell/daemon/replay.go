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
	p, err := a.replayOver(ctx, conn, q, progress)
	log := a.o.Log.With("job", q.Job, "published", p.Published, "already_there", p.AlreadyThere)
	switch {
	case ctx.Err() != nil:
		log.Info("replay stopped")
	case err != nil:
		log.Warn("replay ends early", "err", err.Error())
	default:
		log.Info("replay is done")
	}
	return err
}

func (a *Daemon) replayOver(ctx context.Context, conn stream.Conn, q ops.ReplayRequest, progress func(ops.ReplayProgress) error) (relay.Replayed, error) {
	o := a.o
	report := func(p relay.Replayed) error {
		return progress(ops.ReplayProgress{
			Job: q.Job, Subject: relay.ReplaySubjects(o.SubjectPrefix, q.Job), Stream: stream.Replays(o.Stream),
			Total: q.Total, Published: p.Published, AlreadyThere: p.AlreadyThere,
		})
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next, begun := time.Now().Add(reportEvery), false
	p, err := relay.Replay(running, relay.ReplayOptions{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: stream.Replays(o.Stream), Job: q.Job, MaxBytes: o.StreamMax,
		Manage: o.ManageStream, Embedded: o.NATS.URL == "", Rate: q.Rate, Erased: erasedIn(a.store),
	}, eventsOf(ops.Log{Store: a.store}.Events(running, q.Query)), func(p relay.Replayed) {
		if now := time.Now(); !begun || now.After(next) {
			begun, next = true, now.Add(reportEvery)
			if err := report(p); err != nil {
				stop(err)
			}
		}
	})
	if ctx.Err() != nil {
		return p, ctx.Err() // the command has ended
	}
	err = hintOf(stream.Explain(conn, err), o.SubjectPrefix)
	if err != nil && !begun {
		return p, err
	}
	return p, errors.Join(err, report(p))
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

// hintOf gives an error of a replay what can be done about it, other than to run it again.
func hintOf(err error, prefix string) error {
	var hint string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, relay.ErrNotConnected):
		hint = "is NATS up? If it is not, --to - prints the events"
	case errors.Is(err, stream.ErrMissing):
		hint = "make it with the subjects " + prefix + ".replay.> and a max age of 24 hours, set DOORBELL_STREAM_MANAGE to auto, or print the events with --to -"
	case errors.Is(err, stream.ErrUnfit):
		hint = "the stream is not changed by doorbell; change it or remove it, or print the events with --to -"
	case errors.Is(err, relay.ErrJob):
		hint = "write 1 to 64 letters, digits, _ and -"
	default:
		return err
	}
	return ops.WithHint(err, hint)
}
