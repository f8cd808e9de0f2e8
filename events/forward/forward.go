package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Route is a receiver and what it gets. Routes whose receivers have one destination share its workers, and the first one's receiver. What an
// agency's leads are sent to is one destination, and so it is with its alerts.
type Route struct {
	Receiver Receiver
	Filter   Filter
}

// Options configure New. Conn, Prefix, Stream, Dir, Name and Routes are required.
type Options struct {
	Conn   stream.Conn // stays the caller's to close, after Run has returned
	Prefix string
	Stream string
	Dir    string // where the state file is; made if it is missing
	Name   string // tells forwarders apart: slack, say. 1 to 32 letters, digits, _ and -
	Routes []Route

	Retention time.Duration // how long dead letters are kept, and consumers that nobody uses; 0: for ever
	Manage    bool          // make the stream of dead letters if it is missing
	Since     time.Time     // what comes from then on is new for a forwarder that has not begun; default: when Run is called
	Replicas  int           // of that stream; default 1
	Log       *slog.Logger  // default: nothing is logged

	Tries     int           // after how many a message is suspected; default 30, which is about two hours
	AckWait   time.Duration // after which the server gives to another what is in hand here; default 30 s
	SendLimit time.Duration // how long one Send may take; default 1 min
	Drain     time.Duration // how long a Send may go on after the end of Run's context; default 5 s
	Settle    time.Duration // for how long halts that follow another one of the same cause are gathered; default 30 s
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Tries <= 0 {
		o.Tries = 30
	}
	for _, d := range []struct {
		of      *time.Duration
		without time.Duration
	}{{&o.AckWait, 30 * time.Second}, {&o.SendLimit, time.Minute}, {&o.Drain, 5 * time.Second}, {&o.Settle, 30 * time.Second}} {
		if *d.of <= 0 {
			*d.of = d.without
		}
	}
	return o
}

// ErrOptions is wrapped by what is wrong with the options themselves.
var ErrOptions = errors.New("forwarder")

// validate finds what would only show much later.
func (o Options) validate() error {
	if o.Conn.Conn == nil || o.Stream == "" || o.Dir == "" {
		return fmt.Errorf("%w: connection, stream and directory are needed", ErrOptions)
	}
	if err := events.ValidPrefix(o.Prefix); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if err := ValidName(o.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if len(o.Routes) == 0 {
		return fmt.Errorf("%w %s: it has no receiver", ErrOptions, o.Name)
	}
	for _, r := range o.Routes {
		if d := r.Receiver.Traits().Destination; d == "" || len(d) > 64 || events.Token(d) != d {
			return fmt.Errorf("%w %s: a destination is named with other than 1 to 64 letters, digits, _ and -", ErrOptions, o.Name)
		}
		if err := r.Filter.validate(); err != nil {
			return fmt.Errorf("%w %s: %w", ErrOptions, o.Name, err)
		}
	}
	for n, r := range o.Routes {
		for _, other := range o.Routes[:n] {
			if r.Receiver.Traits().Destination != other.Receiver.Traits().Destination && r.Filter.meets(other.Filter) {
				return fmt.Errorf("%w %s: two destinations for one agency need two forwarders", ErrOptions, o.Name)
			}
		}
	}
	return nil
}

// ValidName checks the name of a forwarder, which becomes part of subjects and of file names. The error does not quote it.
func ValidName(name string) error {
	if name == "" || len(name) > 32 || events.Token(name) != name {
		return errors.New("a forwarder's name is 1 to 32 letters, digits, _ and -")
	}
	return nil
}

// Forwarder is a pipeline from the stream to receivers.
type Forwarder struct {
	o       Options
	js      jetstream.JetStream
	state   *stateFile
	workers []*worker
	fresh   bool      // nothing was remembered
	early   sync.Once // says that the stream is not there yet
	kept    sync.Once // says that a letter cannot be erased

	cut func(step string) bool // of tests: ends a worker at a step, as a crash would
}

// New checks the options, takes the lock on the state file, and reads it. It asks nothing of NATS. The forwarder has the lock until
// Run returns or Close is called: [ErrBusy] says that another one has it, [ErrState] that the file cannot be used.
func New(o Options) (*Forwarder, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	js, err := o.Conn.JetStream()
	if err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", o.Name, err)
	}
	s, err := openState(o.Dir, o.Name)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{o: o, js: js, state: s}
	f.workers = f.plan()
	return f, nil
}

// Close gives the lock back. Run does it too.
func (f *Forwarder) Close() { f.state.close() }

// Run forwards until ctx ends, and then lets a message that is being sent come to an end, for Options.Drain at most. NATS that is away,
// a stream that is missing and a consumer that somebody deleted are waited for: the only error is a connection that was closed for
// good. It may be called once.
func (f *Forwarder) Run(ctx context.Context) error {
	defer f.Close()
	f.state.change(func(m *memory) {
		f.fresh = !m.begun()
		m.reroute(f.workers, time.Now(), f.o.Retention)
	})
	if err := f.state.save(); err != nil {
		f.o.Log.Error("state file cannot be written", "forwarder", f.o.Name, "err", err.Error())
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range f.workers {
		g.Go(func() error { return l.run(ctx) })
	}
	return g.Wait()
}
