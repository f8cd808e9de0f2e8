package daemon

import (
	"context"
	"errors"
	"fmt"
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
	Forwarder
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
func (a *Daemon) forward(ctx context.Context) {
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
func (a *Daemon) forwardTo(ctx context.Context, r *running) {
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

func (a *Daemon) forwardOnce(ctx context.Context, r *running) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer HangUp(conn)
	f, err := forward.New(a.o.ForwardOptions(r.Forwarder, conn))
	if err != nil {
		return err
	}
	r.set(f, "")
	return f.Run(ctx)
}

// ForwardOptions are what all forwarders have in common.
func (o Options) ForwardOptions(f Forwarder, conn *nats.Conn) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: o.Stream, Dir: o.DataDir, Name: f.Name, Routes: f.Routes,
		Retention: o.Retention, Manage: o.ManageStream, Log: o.Log.With("part", "forward"),
	}
}

// keepDeadLetters makes the stream of dead letters of the embedded server, also for forwarders that run beside the daemon: they are
// guests, and guests make no streams.
func (a *Daemon) keepDeadLetters(ctx context.Context) {
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

func (a *Daemon) makeDeadLetters(ctx context.Context) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer HangUp(conn)
	o := a.o
	return forward.EnsureDeadLetters(ctx, conn, forward.DeadLetterConfig(o.SubjectPrefix, o.Stream, o.Retention, o.StreamMax, 1), true)
}

// dropLetter erases a dead letter for those who may not do it themselves.
func (a *Daemon) dropLetter(ctx context.Context, number uint64) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	letters, err := forward.OpenDeadLetters(conn, a.o.SubjectPrefix, a.o.Stream)
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
func (a *Daemon) forwarderStatus() []ops.ForwarderStatus {
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

// failingSince is since when the outlet of a destination takes nothing.
func (f Forwarder) failingSince(destination string) time.Time {
	for _, r := range f.Routes {
		o, ok := r.Outlet.(interface{ FailingSince() time.Time })
		if ok && r.Outlet.Traits().Destination == destination && !o.FailingSince().IsZero() {
			return o.FailingSince()
		}
	}
	return time.Time{}
}

// close gives back what the outlets have kept open.
func (f Forwarder) close() {
	for _, r := range f.Routes {
		if o, ok := r.Outlet.(interface{ Close() }); ok {
			o.Close()
		}
	}
}
