package daemon

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/replay"
	"doorbell/events/stream"
	"doorbell/store"
)

// tellEvery is how often a replay says how far it is.
const tellEvery = 200 * time.Millisecond

// replay publishes events of the daemon's log once more, over a connection of its own: what is published as news does not
// wait for it.
func (a *Daemon) replay(ctx context.Context, q ops.ReplayRequest, told func(ops.ReplayProgress) error) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	a.o.Log.Info("replay begins", "job", q.Job)
	p, err := Replay(ctx, a.o, a.store, conn, q, told)
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

// Replay publishes what a request means from a store, and tells how far it is: at the beginning, now and then, and at the end.
func Replay(ctx context.Context, o Options, s *store.Store, conn *nats.Conn, q ops.ReplayRequest, told func(ops.ReplayProgress) error) (replay.Progress, error) {
	job, err := replay.Open(ctx, replay.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: stream.Replays(o.Stream), Job: q.Job, MaxBytes: o.StreamMax,
		Manage: o.ManageStream, Embedded: o.NATS.URL == "", Rate: q.Rate,
		Choice: choiceOf(q.Query),
		Erased: erasedIn(s),
	})
	if err != nil {
		return replay.Progress{}, hintOf(stream.Explain(conn, err), o.SubjectPrefix)
	}
	tell := func(p replay.Progress) error {
		return told(ops.ReplayProgress{
			Job: q.Job, Subject: replay.Subjects(o.SubjectPrefix, q.Job), Stream: stream.Replays(o.Stream),
			Total: q.Total, Published: p.Published, AlreadyThere: p.AlreadyThere,
		})
	}
	if err := tell(replay.Progress{}); err != nil {
		return replay.Progress{}, err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := time.Now().Add(tellEvery)
	p, err := job.Run(running, eventsOf(ops.Log{Store: s}.Events(running, q.Query)), func(p replay.Progress) {
		if now := time.Now(); now.After(next) {
			next = now.Add(tellEvery)
			if err := tell(p); err != nil {
				stop(err)
			}
		}
	})
	if ctx.Err() != nil {
		return p, ctx.Err() // nobody listens
	}
	return p, errors.Join(hintOf(stream.Explain(conn, err), o.SubjectPrefix), tell(p))
}

// erasedIn says of an event with a person whether the log has erased the person since; it holds nobody either where it has let the event go.
func erasedIn(s *store.Store) func(events.Event) (bool, error) {
	return func(e events.Event) (bool, error) {
		now, found, err := s.Lookup(e)
		return err == nil && (!found || now.Erased()), err
	}
}

// choiceOf is which events of the log a query means.
func choiceOf(q ops.EventQuery) replay.Choice {
	kind := ""
	if q.Type != "" || q.PropertyReferenceID != "" || q.Origin != "" {
		kind = strings.Join([]string{q.Type, q.PropertyReferenceID, string(q.Origin)}, "\x00")
	}
	return replay.Choice{Kind: kind, From: q.FromSequence, Since: q.Since}
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
	case errors.Is(err, replay.ErrNoStream):
		hint = "make it with the subjects " + prefix + ".replay.> and a max age of 24 hours, set DOORBELL_STREAM_MANAGE to auto, or print the events with --to -"
	case errors.Is(err, replay.ErrUnfit):
		hint = "the stream is not changed by doorbell; change it or remove it, or print the events with --to -"
	case errors.Is(err, replay.ErrBusy):
		hint = "wait for the other one, or choose another --job"
	case errors.Is(err, replay.ErrForeign), errors.Is(err, replay.ErrChoice):
		hint = "choose another --job"
	case errors.Is(err, replay.ErrJob):
		hint = "write 1 to 64 letters, digits, _ and -"
	default:
		return err
	}
	return ops.WithHint(err, hint)
}
