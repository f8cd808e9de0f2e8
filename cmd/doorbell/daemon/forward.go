package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/forward"
	"doorbell/events/stream"
)

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

// open makes a forwarder with the present routes. It keeps the lock meanwhile, so that the
// forwarder does not miss a change.
func (f *forwarding) open(o forward.Options) (now *forward.Forwarder, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.Routes, o.Since = f.routes, f.read
	if now, err = forward.New(o); err == nil {
		f.now = now
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
	if refused == "" {
		f.routes, f.read = routes, time.Now()
		log.Info("the table of routes was read again", "outlets", len(routes))
		if f.now != nil {
			if err := f.now.Change(routes, f.read); err != nil {
				refused = err.Error()
			}
		}
	}
	if f.refused = refused; refused != "" {
		log.Error("the changed table of routes is refused; the one before stays in force", "err", refused)
	}
}

// forward delivers events to the configured receivers. No failure in it ends the daemon or holds up
// its other parts.
func (a *Daemon) forward(ctx context.Context) error {
	r, f := a.o.Receivers, &a.forwarding
	defer r.Close()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		r.Watch(ctx, func(routes []forward.Route, problem string) {
			f.change(a.o.Log.With("part", "forward"), routes, problem)
		})
	})
	for {
		err := a.forwardOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.mu.Lock()
		f.now, f.problem = nil, err.Error()
		f.mu.Unlock()
		a.o.Log.Error("forwarders failed; retrying", "err", err.Error()) // the log suppresses repetitions
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
	}
}

// forwardOnce runs a forwarder on a connection of its own.
func (a *Daemon) forwardOnce(ctx context.Context) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer HangUp(conn)
	o := a.o.ForwardOptions(conn)
	o.Name, o.Forwarders, o.Untaken = "run", a.o.ForwarderNames, true
	o.Agencies, o.Behind = a.ids, a.publishesLate
	now, err := a.forwarding.open(o)
	if err != nil {
		return err
	}
	return cmp.Or(now.Run(ctx), errors.New("it ended"))
}

// publishesLate reports whether events older than a minute still wait to be published.
func (a *Daemon) publishesLate() bool {
	all, err := a.store.Progress()
	for _, p := range all {
		if p.Unsent > 0 && time.Since(p.Oldest) > time.Minute {
			return true
		}
	}
	return err != nil
}

// ForwardOptions returns the options that the daemon's forwarder and a separate one have in common.
func (o Options) ForwardOptions(conn stream.Conn) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: o.Stream(), Dir: o.DataDir, Instance: o.Instance,
		Retention: o.Retention, Manage: o.ManagesStream(), Log: o.Log.With("part", "forward"),
	}
}

// keepDeadLetters counts the dead letters for the status; while NATS is away, the number stays. On
// the embedded server it first makes their stream, also for forwarders that run beside the daemon:
// they are guests there, and guests may not create streams.
func (a *Daemon) keepDeadLetters(ctx context.Context) error {
	o, made := a.o, a.server == nil
	every(ctx, 10*time.Second, func() {
		if !made {
			c := forward.DeadLetterConfig(o.SubjectPrefix, o.Stream(), o.Retention, int64(o.StreamMax))
			err := forward.EnsureDeadLetters(ctx, a.conn, c, true)
			if made = err == nil; !made && ctx.Err() == nil {
				o.Log.Warn("no stream for dead letters yet; retrying", "err", err.Error())
			}
		}
		letters, err := a.letters()
		if err != nil || o.Receivers == nil {
			return
		}
		if n, err := letters.Count(ctx); err == nil {
			a.deadLetters.Store(n)
		}
	})
	return nil
}

// letters are the dead letters.
func (a *Daemon) letters() (*forward.DeadLetters, error) {
	return forward.OpenDeadLetters(a.conn, a.o.SubjectPrefix, a.o.Stream())
}

// dropLetter erases a dead letter for commands whose user of NATS may not do so.
func (a *Daemon) dropLetter(ctx context.Context, q ops.DropLetterRequest) (none ops.Nothing, err error) {
	letters, err := a.letters()
	if err != nil {
		return none, err
	}
	return none, letters.Drop(ctx, q.Number)
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
		s.Forwarders = []forward.WorkerStatus{{Forwarder: "forwarders", Problem: problem}}
		return
	}
	for _, w := range now.Status() {
		if w.Destination == "" { // it counts the leads that no route takes
			s.Untaken, w.Lost = w.Lost, 0
		}
		if w.Destination != "" || w.Problem != "" {
			s.Forwarders = append(s.Forwarders, w)
		}
	}
}
