package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/forward"
	"doorbell/events/stream"
)

// retryAfter is the pause before retry runs a part again.
const retryAfter = 10 * time.Second

// retry runs a part of the daemon whose failure must not end the others, until it returns nil or
// ctx ends. It calls failed before each pause; the log suppresses repetitions.
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

// connected is retry for a part with its own connection to NATS.
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

// every calls do immediately and then at each interval, until ctx ends.
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

// Receivers is the table of routes, with its receivers.
type Receivers interface {
	// Routes returns the routes in force at the start.
	Routes() []forward.Route
	// Watch calls changed with new routes, or with the reason why they are not used, until ctx
	// ends.
	Watch(ctx context.Context, changed func(routes []forward.Route, problem string))
	// Close releases the connections of the receivers.
	Close()
}

// forwarding is the running forwarder of the daemon, or the reason why there is none.
type forwarding struct {
	mu      sync.Mutex
	now     *forward.Forwarder
	problem string // why it does not run
	routes  []forward.Route
	read    time.Time // when routes were read
	refused string    // why the routes that were read last are not in force
}

func (f *forwarding) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.problem = nil, err.Error()
}

// open makes a forwarder with the present routes. It keeps the lock meanwhile, so that the
// forwarder does not miss a change.
func (f *forwarding) open(o forward.Options) (*forward.Forwarder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.Routes, o.Since = f.routes, f.read
	now, err := forward.New(o)
	if err == nil {
		f.now, f.problem = now, ""
	}
	return now, err
}

// working returns the running forwarder; nil: there is none.
func (f *forwarding) working() *forward.Forwarder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// change puts other routes into force, now or when the forwarder runs again.
func (f *forwarding) change(log *slog.Logger, routes []forward.Route, refused string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = refused
	if refused != "" {
		log.Error("the changed table of routes is refused; the one before stays in force", "err", refused)
		return
	}
	f.routes, f.read = routes, time.Now()
	log.Info("the table of routes was read again", "outlets", len(routes))
	if f.now == nil {
		return
	}
	if err := f.now.Change(routes, f.read); err != nil {
		f.refused = err.Error()
		log.Error("the changed table of routes cannot be used", "err", err.Error())
	}
}

// forward delivers events to the configured receivers. No failure in it ends the daemon or holds up
// its other parts.
func (a *Daemon) forward(ctx context.Context) {
	var all sync.WaitGroup
	if a.server != nil {
		all.Go(func() { a.keepDeadLetters(ctx) })
	}
	if r := a.o.Receivers; r != nil {
		log := a.o.Log.With("part", "forward")
		a.forwarding.mu.Lock()
		a.forwarding.routes, a.forwarding.read = r.Routes(), time.Now()
		a.forwarding.mu.Unlock()
		all.Go(func() {
			r.Watch(ctx, func(routes []forward.Route, problem string) { a.forwarding.change(log, routes, problem) })
		})
		all.Go(func() { a.keepForwarding(ctx) })
		all.Go(func() { a.countDeadLetters(ctx) })
		defer r.Close()
	}
	all.Wait()
}

// keepForwarding keeps the forwarder running.
func (a *Daemon) keepForwarding(ctx context.Context) {
	f := &a.forwarding
	connected(ctx, a.dial, func(ctx context.Context, conn stream.Conn) error {
		o := a.o.ForwardOptions(conn)
		o.Name, o.Forwarders, o.Untaken = "run", a.o.ForwarderNames, true
		o.Agencies, o.Behind = a.agencies.ids, a.publishesLate
		now, err := f.open(o)
		if err != nil {
			return err
		}
		return cmp.Or(now.Run(ctx), errors.New("it ended"))
	}, func(err error) {
		f.failed(err)
		a.o.Log.Error("forwarders failed; retrying", "err", err.Error())
	})
}

// publishesLate reports whether events older than a minute still wait to be published.
func (a *Daemon) publishesLate() bool {
	progress, err := a.store.Progress()
	for _, p := range progress {
		if p.Unsent > 0 && time.Since(p.Oldest) > time.Minute {
			return true
		}
	}
	return err != nil
}

// ForwardOptions returns the options that the daemon's forwarder and a separate one have in common.
func (o Options) ForwardOptions(conn stream.Conn) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: o.Stream, Dir: o.DataDir, Instance: o.Instance,
		Retention: o.Retention, Manage: o.ManageStream, Log: o.Log.With("part", "forward"),
	}
}

// keepDeadLetters creates the stream of dead letters on the embedded server, also for forwarders
// that run beside the daemon: they are guests there, and guests may not create streams.
func (a *Daemon) keepDeadLetters(ctx context.Context) {
	connected(ctx, a.dial, func(ctx context.Context, conn stream.Conn) error {
		o := a.o
		return forward.EnsureDeadLetters(ctx, conn, forward.DeadLetterConfig(o.SubjectPrefix, o.Stream, o.Retention, o.StreamMax, 1), true)
	}, func(err error) { a.o.Log.Warn("no stream for dead letters yet; retrying", "err", err.Error()) })
}

// countDeadLetters keeps the number of dead letters for the status. While NATS is away, the number
// stays.
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

// dropLetter erases a dead letter for commands whose user of NATS may not do so.
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

// forwarderStatus adds the state of the forwarder, worker by worker.
func (a *Daemon) forwarderStatus(s *ops.Status) {
	if a.o.Receivers == nil {
		return
	}
	f := &a.forwarding
	f.mu.Lock()
	now, problem := f.now, f.problem
	s.RoutesProblem = f.refused
	f.mu.Unlock()
	if now == nil {
		s.Forwarders = append(s.Forwarders, ops.ForwarderStatus{Name: "forwarders", Problem: problem})
		return
	}
	for _, l := range now.Status().Workers {
		if l.Destination == "" {
			if s.Untaken = l.Lost; l.Problem == "" {
				continue
			}
		}
		s.Forwarders = append(s.Forwarders, ops.ForwarderStatus{
			Name: l.Forwarder, Destination: l.Destination, Whose: l.Whose, Kind: string(l.Kind), Waiting: l.Waiting, Events: l.Events,
			LastSent: l.LastSent.UTC(), Attempts: l.Attempts, LastError: l.LastError, LastErrorAt: l.LastErrorAt.UTC(),
			FailingSince: l.FailingSince.UTC(), DeadLetters: l.DeadLetters, Failed: l.Failed, Problem: l.Problem,
			WaitingSince: l.WaitingSince.UTC(), Lost: l.Lost,
		})
	}
}
