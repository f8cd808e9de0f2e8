package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/forward"
	"doorbell/events/stream"
)

// retryAfter is how long what ended, or could not begin, waits for its next attempt.
const retryAfter = 10 * time.Second

// retry runs what ends nothing else when it fails, again and again, until it returns nil or ctx ends. failed is called before each
// wait; the log keeps back what is said again and again.
func retry(ctx context.Context, run func(context.Context) error, failed func(error)) {
	for {
		err := run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		failed(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// connected is retry of what needs a connection of its own.
func connected(ctx context.Context, dial func(...nats.Option) (stream.Conn, error), run func(context.Context, stream.Conn) error, failed func(error)) {
	retry(ctx, func(ctx context.Context) error {
		conn, err := dial()
		if err != nil {
			return err
		}
		defer HangUp(conn)
		return run(ctx, conn)
	}, failed)
}

// every does something at once and then again and again, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

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

// forward brings events to the receivers that are configured, beside everything else: nothing of it ends the daemon or holds it up.
func (a *Daemon) forward(ctx context.Context) {
	var all sync.WaitGroup
	if a.server != nil {
		all.Go(func() { a.keepDeadLetters(ctx) })
	}
	for _, r := range a.forwarders {
		all.Go(func() { a.forwardTo(ctx, r) })
	}
	if len(a.forwarders) > 0 {
		all.Go(func() { a.countDeadLetters(ctx) })
	}
	all.Wait()
	for _, r := range a.forwarders {
		r.Close()
	}
}

// forwardTo keeps a forwarder at work.
func (a *Daemon) forwardTo(ctx context.Context, r *running) {
	connected(ctx, a.dial, func(ctx context.Context, conn stream.Conn) error {
		o := a.o.ForwardOptions(r.Forwarder, conn)
		o.Agencies = a.agencies.ids
		f, err := forward.New(o)
		if err != nil {
			return err
		}
		r.set(f, "")
		return cmp.Or(f.Run(ctx), errors.New("it ended"))
	}, func(err error) {
		r.set(nil, err.Error())
		a.o.Log.Error("forwarder failed; retrying", "forwarder", r.Name, "err", err.Error())
	})
}

// Forwarder brings events to receivers.
type Forwarder struct {
	Name   string
	Routes []forward.Route
}

// Close gives back what the receivers have kept open.
func (f Forwarder) Close() {
	for _, r := range f.Routes {
		if o, ok := r.Receiver.(interface{ Close() }); ok {
			o.Close()
		}
	}
}

// Distinct has each receiver once, the first route to it.
func (f Forwarder) Distinct() (routes []forward.Route) {
	for _, r := range f.Routes {
		if !slices.ContainsFunc(routes, func(other forward.Route) bool { return other.Receiver == r.Receiver }) {
			routes = append(routes, r)
		}
	}
	return routes
}

// ForwardOptions are what all forwarders have in common.
func (o Options) ForwardOptions(f Forwarder, conn stream.Conn) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: o.Stream, Dir: o.DataDir, Name: f.Name, Routes: f.Routes, Instance: o.Instance,
		Retention: o.Retention, Manage: o.ManageStream, Log: o.Log.With("part", "forward"),
	}
}

// keepDeadLetters makes the stream of dead letters of the embedded server, also for forwarders that run beside the daemon: they are
// guests, and guests make no streams.
func (a *Daemon) keepDeadLetters(ctx context.Context) {
	connected(ctx, a.dial, func(ctx context.Context, conn stream.Conn) error {
		o := a.o
		return forward.EnsureDeadLetters(ctx, conn, forward.DeadLetterConfig(o.SubjectPrefix, o.Stream, o.Retention, o.StreamMax, 1), true)
	}, func(err error) { a.o.Log.Warn("no stream for dead letters yet; retrying", "err", err.Error()) })
}

// countDeadLetters keeps their number for the status. While NATS is away it is what it was.
func (a *Daemon) countDeadLetters(ctx context.Context) {
	connected(ctx, a.dial, func(ctx context.Context, conn stream.Conn) error {
		letters, err := forward.OpenDeadLetters(conn, a.o.SubjectPrefix, a.o.Stream)
		if err != nil {
			return err
		}
		every(ctx, a.o.CountEvery, func() {
			if n, err := letters.Count(ctx); err == nil {
				a.deadLetters.Store(n)
			}
		})
		return nil
	}, func(err error) { a.o.Log.Warn("dead letters cannot be counted; retrying", "err", err.Error()) })
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
		for _, l := range now.Status().Workers {
			all = append(all, ops.ForwarderStatus{
				Name: r.Name, Destination: l.Destination, Whose: l.Whose, Kind: string(l.Kind), Waiting: l.Waiting, Sent: l.Sent, Events: l.Events,
				LastSent: l.LastSent.UTC(), Attempts: l.Attempts, LastError: l.LastError, LastErrorAt: l.LastErrorAt.UTC(),
				FailingSince: l.FailingSince.UTC(), DeadLetters: l.DeadLetters, Problem: l.Problem,
				WaitingSince: l.WaitingSince.UTC(), Lost: l.Lost,
			})
		}
	}
	return all
}
