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
	// Watch logs new routes and calls changed with them, or with the reason why they are not used,
	// until ctx ends.
	Watch(ctx context.Context, log *slog.Logger, changed func(routes []forward.Route, problem string))
	// Close releases the connections of the receivers.
	Close()
}

// forwarding is the forwarder that runs, or the reason why there is none.
type forwarding struct {
	mu      sync.Mutex
	now     *forward.Forwarder
	problem string // why it does not run
	refused string // why the routes that were read last are not in force
}

// is changes the state, which others read meanwhile.
func (f *forwarding) is(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// working returns the running forwarder; nil: there is none.
func (f *forwarding) working() (now *forward.Forwarder) {
	f.is(func() { now = f.now })
	return now
}

// table is the routes as they were read once.
type table struct {
	routes  []forward.Route
	read    time.Time
	refused string // why they are not used
}

// forward delivers events to the configured receivers. No failure in it ends the daemon or holds up
// its other parts. It alone knows which routes are in force, so no change is missed while a
// forwarder begins.
func (a *Daemon) forward(ctx context.Context) error {
	r := a.o.Receivers
	defer r.Close()
	changes := make(chan table)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		r.Watch(ctx, a.o.Log.With("part", "forward"), func(routes []forward.Route, problem string) {
			select {
			case changes <- table{routes, time.Now(), problem}:
			case <-ctx.Done():
			}
		})
	})
	in := table{routes: r.Routes(), read: a.started}
	for {
		err := a.forwardOnce(ctx, &in, changes)
		if ctx.Err() != nil {
			return nil
		}
		a.forwarding.is(func() { a.forwarding.now, a.forwarding.problem = nil, err.Error() })
		// the log suppresses repetitions
		a.o.Log.Error("forwarders failed; retrying", "err", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
	}
}

// forwardOnce runs a forwarder on a connection of its own, with the routes that are in force.
func (a *Daemon) forwardOnce(ctx context.Context, in *table, changes <-chan table) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer HangUp(conn)
	o := a.o.ForwardOptions(conn)
	o.Name, o.Forwarders, o.Untaken = "run", a.o.ForwarderNames, true
	o.Agencies, o.Behind = a.ids, a.publishesLate
	o.Routes, o.Since = in.routes, in.read
	now, err := forward.New(o)
	if err != nil {
		return err
	}
	a.forwarding.is(func() { a.forwarding.now = now })
	ended := make(chan error, 1)
	go func() { ended <- now.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return cmp.Or(err, errors.New("it stopped"))
		case next := <-changes:
			if next.refused == "" {
				*in = next
				now.Change(next.routes, next.read)
			}
			a.forwarding.is(func() { a.forwarding.refused = next.refused })
		}
	}
}

// publishesLate reports whether events older than a minute still wait to be published.
func (a *Daemon) publishesLate() bool {
	all, err := a.store.Progress()
	for _, p := range all {
		if p.Pending > 0 && time.Since(p.OldestWaiting) > time.Minute {
			return true
		}
	}
	return err != nil
}

// ForwardOptions returns the options that the daemon's forwarder and a separate one have in common.
func (o Options) ForwardOptions(conn stream.Conn) forward.Options {
	return forward.Options{
		Conn: conn, Prefix: o.SubjectPrefix, Stream: o.Stream(), Dir: o.DataDir,
		Instance: o.Instance, Retention: o.Retention, Manage: o.ManagesStream(),
		Log: o.Log.With("part", "forward"),
	}
}

// keepDeadLetters counts the dead letters for the status; while NATS is away, the number stays. On
// the embedded server it first makes their stream, also for forwarders that run beside the daemon:
// they are guests there, and guests may not create streams.
func (a *Daemon) keepDeadLetters(ctx context.Context) error {
	o, made := a.o, a.server == nil
	every(ctx, 10*time.Second, func() {
		if !made {
			c := forward.DeadLetterConfig(o.SubjectPrefix, o.Stream(), o.Retention,
				int64(o.StreamMax))
			err := forward.EnsureDeadLetters(ctx, a.conn, c, true)
			if made = err == nil; !made && ctx.Err() == nil {
				o.Log.Warn("no stream for dead letters yet; retrying", "err", err.Error())
			}
		}
		if n, err := a.letters().Count(ctx); err == nil {
			a.deadLetters.Store(n)
		}
	})
	return nil
}

// letters are the dead letters.
func (a *Daemon) letters() *forward.DeadLetters {
	return forward.OpenDeadLetters(a.conn, a.o.SubjectPrefix, a.o.Stream())
}

// dropLetter erases a dead letter for commands whose user of NATS may not do so.
func (a *Daemon) dropLetter(ctx context.Context, q ops.DropLetterRequest) (none ops.Nothing, err error) {
	return none, a.letters().Drop(ctx, q.Number)
}

// forwarderStatus adds the state of the forwarder, worker by worker.
func (a *Daemon) forwarderStatus(s *ops.Status) {
	if a.o.Receivers == nil {
		return
	}
	f, problem := &a.forwarding, ""
	var now *forward.Forwarder
	f.is(func() { now, problem, s.RoutesProblem = f.now, f.problem, f.refused })
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
