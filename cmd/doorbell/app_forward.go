package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/forward"
)

// forwardAgain is how long a forwarder that could not begin, or lost its connection for good, waits.
const forwardAgain = 10 * time.Second

// running is a forwarder at work in the daemon, or why it is not.
type running struct {
	forwarder
	mu      sync.Mutex
	now     *forward.Forwarder
	problem string
}

func (r *running) set(now *forward.Forwarder, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.problem = now, problem
}

// forward brings events to the outlets that are configured, beside everything else: nothing of it ends the daemon or holds it up.
func (a *app) forward(ctx context.Context) {
	var all sync.WaitGroup
	if a.server != nil {
		all.Go(func() { a.keepDeadLetters(ctx) })
	}
	for _, r := range a.forwarders {
		all.Go(func() { a.forwardTo(ctx, r) })
	}
	all.Wait()
	for _, r := range a.forwarders {
		r.close()
	}
}

// forwardTo keeps a forwarder at work.
func (a *app) forwardTo(ctx context.Context, r *running) {
	said := ""
	for {
		err := a.forwardOnce(ctx, r)
		if ctx.Err() != nil {
			return
		}
		text := "it ended"
		if err != nil {
			text = err.Error()
		}
		r.set(nil, text)
		if text != said {
			a.o.Log.Error("the forwarder does not work; it is tried again", "forwarder", r.Name, "err", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(forwardAgain):
		}
	}
}

func (a *app) forwardOnce(ctx context.Context, r *running) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer hangUp(conn)
	f, err := forward.New(forwardOptions(a.o.Base, r.forwarder, conn, a.o.Log))
	if err != nil {
		return err
	}
	r.set(f, "")
	return f.Run(ctx)
}

// forwardOptions are what all forwarders have in common.
func forwardOptions(b Base, f forwarder, conn *nats.Conn, log *slog.Logger) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: b.SubjectPrefix, Stream: b.Stream, Dir: b.DataDir, Name: f.Name, Routes: f.Routes,
		Retention: b.Retention, Manage: b.StreamManage == "auto", Log: log.With("part", "forward"),
	}
}

// keepDeadLetters makes the stream of dead letters of the embedded server, also for forwarders that run beside the daemon: they are
// guests, and guests make no streams.
func (a *app) keepDeadLetters(ctx context.Context) {
	for {
		err := a.makeDeadLetters(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		a.o.Log.Warn("no stream for dead letters yet", "err", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(forwardAgain):
		}
	}
}

func (a *app) makeDeadLetters(ctx context.Context) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer hangUp(conn)
	b := a.o.Base
	return forward.EnsureDeadLetters(ctx, conn, forward.DeadLetterConfig(b.SubjectPrefix, b.Stream, b.Retention, int64(b.StreamMax), 1), true)
}

// dropLetter erases a dead letter for those who may not do it themselves.
func (a *app) dropLetter(ctx context.Context, number uint64) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	letters, err := forward.OpenDeadLetters(conn, a.o.Base.SubjectPrefix, a.o.Base.Stream)
	if err != nil {
		return err
	}
	err = letters.Drop(ctx, number)
	if errors.Is(err, forward.ErrNoLetter) {
		return fmt.Errorf("%w: %d", forward.ErrNoLetter, number)
	}
	return err
}

// forwarderStatus is how the forwarders are, lane by lane.
func (a *app) forwarderStatus() []ops.ForwarderStatus {
	var all []ops.ForwarderStatus
	for _, r := range a.forwarders {
		r.mu.Lock()
		now, problem := r.now, r.problem
		r.mu.Unlock()
		if now == nil {
			all = append(all, ops.ForwarderStatus{Name: r.Name, Problem: problem})
			continue
		}
		for _, l := range now.Status().Lanes {
			all = append(all, ops.ForwarderStatus{
				Name: r.Name, Destination: l.Destination, Kind: string(l.Kind), Waiting: l.Waiting, Sent: l.Sent, Events: l.Events,
				LastSent: l.LastSent.UTC(), Attempts: l.Attempts, LastError: l.LastError, LastErrorAt: l.LastErrorAt.UTC(),
				FailingSince: r.failingSince(l.Destination).UTC(), DeadLetters: l.DeadLetters, Off: l.Off, Problem: l.Problem,
			})
		}
	}
	return all
}
