package daemon

import (
	"context"
	"iter"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/store"
)

// replay publishes events of the daemon's log once more. It has a connection of its own: what is
// published as news does not wait for it.
func (a *Daemon) replay(ctx context.Context, q ops.ReplayRequest) (ops.ReplayAnswer, error) {
	o, log := a.o, a.o.Log.With("job", q.Job)
	r := ops.ReplayAnswer{
		Job: q.Job, Subject: relay.ReplaySubjects(o.SubjectPrefix, q.Job),
		Stream: stream.Replays(o.Stream()), Total: q.Total,
	}
	conn, err := a.dial()
	if err != nil {
		return r, err
	}
	defer conn.Close()
	log.Info("replay started")
	p, err := relay.Replay(ctx, relay.ReplayOptions{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: r.Stream, Job: q.Job,
		MaxBytes: int64(o.StreamMax), Manage: o.ManagesStream(), Embedded: a.server != nil,
		Rate: q.Rate, Erased: erasedIn(a.store),
	}, eventsOf(ops.Log{Store: a.store}.Events(ctx, q.Query)))
	err = stream.Explain(conn, err)
	r.Published, r.AlreadyThere = p.Published, p.AlreadyThere
	log = log.With("published", p.Published, "already_there", p.AlreadyThere)
	if ctx.Err() != nil { // the command has ended
		log.Info("replay stopped")
		return r, ctx.Err()
	}
	log.Info("replay finished", "err", err)
	return r, err
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
