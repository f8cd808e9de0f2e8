package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Options configure New. Conn, Prefix, Stream, Dir and Name are required.
type Options struct {
	Conn   stream.Conn // stays the caller's to close, after Run has returned
	Prefix string
	Stream string
	Dir    string // the data directory; files are in its folder forward
	Name   string // tells instances apart that share a directory. 1 to 32 letters, digits, _ and -
	Routes []Route

	// Forwarders are the names that routes may have, now or after a change; default Name.
	Forwarders []string
	// Untaken counts the leads that no route takes.
	Untaken bool
	// Behind reports whether events may still be published that were recorded long ago; nil: no.
	Behind func() bool

	// Instance is part of the names of consumers. Agencies are those of this doorbell: another one
	// may have others on the same stream, and the same receivers. Nil: all.
	Instance string
	Agencies func() []string

	Retention time.Duration // how long dead letters are kept, and consumers that are not used; 0: forever
	Manage    bool          // make the stream of dead letters if it is missing
	Since     time.Time     // when the routes were read: a new one takes what is recorded from then on; default: when New is called
	Replicas  int           // of that stream; default 1
	Log       *slog.Logger  // default: nothing is logged

	AckWait   time.Duration // after which the server offers again what was fetched and not acknowledged; default 30 s
	SendLimit time.Duration // how long one Send may take; default 1 min
	Drain     time.Duration // how long a Send may go on after the end of Run's context; default 5 s
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Since.IsZero() {
		o.Since = time.Now()
	}
	if o.Forwarders == nil {
		o.Forwarders = []string{o.Name}
	}
	o.Routes = slices.Clone(o.Routes)
	for n := range o.Routes {
		o.Routes[n].Forwarder = cmp.Or(o.Routes[n].Forwarder, o.Name)
	}
	for _, d := range []struct {
		of      *time.Duration
		without time.Duration
	}{{&o.AckWait, 30 * time.Second}, {&o.SendLimit, time.Minute}, {&o.Drain, 5 * time.Second}} {
		if *d.of <= 0 {
			*d.of = d.without
		}
	}
	return o
}

// ErrOptions is wrapped by errors about the options themselves.
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
	if o.Instance != "" && ValidName(o.Instance) != nil {
		return fmt.Errorf("%w: an instance's name is 1 to 32 letters, digits, _ and -", ErrOptions)
	}
	for _, f := range o.Forwarders {
		if err := ValidName(f); err != nil {
			return fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	for _, r := range o.Routes {
		if !slices.Contains(o.Forwarders, r.Forwarder) {
			return fmt.Errorf("%w %s: a route is of another forwarder", ErrOptions, o.Name)
		}
		if d := r.Receiver.Traits().Destination; d == "" || len(d) > 64 || events.Token(d) != d {
			return fmt.Errorf("%w %s: a destination is named with other than 1 to 64 letters, digits, _ and -", ErrOptions, o.Name)
		}
		if err := r.Filter.validate(); err != nil {
			return fmt.Errorf("%w %s: %w", ErrOptions, o.Name, err)
		}
	}
	return nil
}

// ValidName checks the name of a forwarder, which becomes part of subjects and of file names. The
// error does not quote it.
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
	release func() // gives the locks back
	changes chan Options

	mu           sync.Mutex // guards all of these
	tables       history
	first        bool // the forwarder had not begun
	destinations map[string]*destination
	workers      []*worker

	early sync.Once // logs that the stream is missing yet
	kept  sync.Once // logs that a dead letter cannot be erased

	cut func(step string) bool // for tests: ends a worker at a step, as a crash would
}

// New checks the options, takes the locks of the names, and reads the files. It makes no network
// calls. The forwarder has the locks until Run returns or Close is called: [ErrBusy] means that
// another process has one, [ErrState] that a file cannot be used.
func New(o Options) (*Forwarder, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	js, err := o.Conn.JetStream()
	if err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", o.Name, err)
	}
	release, err := lockAll(o.Dir, append([]string{o.Name}, o.Forwarders...))
	if err != nil {
		return nil, err
	}
	f := &Forwarder{o: o, js: js, release: sync.OnceFunc(release), changes: make(chan Options, 1), destinations: map[string]*destination{}}
	if err := f.open(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close gives the locks back. Run does it too.
func (f *Forwarder) Close() { f.release() }

// path is the file of a worker; without one, the file that holds the tables.
func (f *Forwarder) path(worker string) string {
	return filepath.Join(folder(f.o.Dir), cmp.Or(worker, f.o.Name)+".json")
}

// open reads the files, and puts the present table into force.
func (f *Forwarder) open() error {
	tables, _, err := read(f.path(""), func(h history) bool {
		return h.Version == stateVersion && h.Name == f.o.Name && len(h.Tables) > 0
	})
	if err != nil {
		return err
	}
	f.tables = tables
	f.tables.Version, f.tables.Name = stateVersion, f.o.Name
	return f.putIntoForce()
}

// putIntoForce begins with the present table, and has a worker for each receiver's leads and alerts,
// as far as its routes take any, and for each that has a file.
func (f *Forwarder) putIntoForce() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := tableOf(f.o.Routes)
	now.From = f.o.Since.UTC().Truncate(time.Millisecond) // recorded times have no more digits
	f.tables.change(now, f.o.Retention)

	var names []string
	for _, r := range f.o.Routes {
		if d := f.destinations[r.key()]; d == nil {
			f.destinations[r.key()] = newDestination(r.Receiver)
		} else {
			d.receiver, d.traits = r.Receiver, r.Receiver.Traits()
		}
		for _, k := range []Kind{Leads, Alerts} {
			if r.Filter.Takes(k) {
				names = append(names, r.key()+"."+string(k))
			}
		}
	}
	files, err := os.ReadDir(folder(f.o.Dir))
	if err != nil {
		return fmt.Errorf("forwarder %s: %w", f.o.Name, err)
	}
	for _, file := range files {
		name, json := strings.CutSuffix(file.Name(), ".json")
		if json && strings.Contains(name, ".") && slices.Contains(f.o.Forwarders, forwarderOf(name)) {
			names = append(names, name)
		}
	}
	if f.o.Untaken {
		names = append(names, f.o.Name+untaken)
	}
	workers := slices.Clone(f.workers)
	for _, name := range names {
		if slices.ContainsFunc(workers, func(w *worker) bool { return w.name == name }) {
			continue
		}
		w, err := newWorker(f, name)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		w.routed()
	}
	f.workers = workers
	return nil
}

// errChanged ends the workers of a former table.
var errChanged = errors.New("the routes were changed")

// Change puts other routes into force, which were read at a time. What is being sent comes to its end
// before. It may be called while Run runs.
func (f *Forwarder) Change(routes []Route, read time.Time) error {
	f.mu.Lock()
	o := f.o
	f.mu.Unlock()
	o.Routes, o.Since = routes, read
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	select {
	case <-f.changes: // it never came into force
	default:
	}
	f.changes <- o
	return nil
}

// Run forwards until ctx ends, and then lets a message that is being sent come to an end, for
// Options.Drain at most. It waits for NATS that is away, a stream that is missing and a consumer
// that was deleted: the only errors are a connection that was closed for good, and files that can no
// longer be read. It may be called once.
func (f *Forwarder) Run(ctx context.Context) error {
	defer f.Close()
	for {
		f.saveTables()
		working, stop := context.WithCancelCause(ctx)
		g, working := errgroup.WithContext(working)
		for _, w := range f.workers {
			g.Go(func() error { return w.run(working) })
		}
		var next *Options
		g.Go(func() error {
			select {
			case <-working.Done():
			case o := <-f.changes:
				next = &o
				stop(errChanged)
			}
			return nil
		})
		err := g.Wait()
		stop(nil)
		if err != nil || next == nil || ctx.Err() != nil {
			return err
		}
		if err := f.change(*next); err != nil {
			return err
		}
	}
}

// change puts the routes of other options into force. No worker runs.
func (f *Forwarder) change(o Options) error {
	f.mu.Lock()
	f.o.Routes = o.Routes
	begun := !f.tables.Tables[len(f.tables.Tables)-1].From.IsZero()
	if begun { // else what has come since the first table was read is for this one
		f.o.Since = o.Since
	}
	f.first = f.first && !begun
	f.workers = slices.DeleteFunc(f.workers, func(w *worker) bool { return w.retired })
	f.mu.Unlock()
	return f.putIntoForce()
}

func (f *Forwarder) saveTables() {
	if err := write(f.path(""), &f.tables); err != nil {
		f.o.Log.Error("the routes cannot be noted: after a change of them messages may be missed", "forwarder", f.o.Name, "err", err.Error())
	}
}

// begin corrects the times of the tables by the server's clock, once it is known: when the present
// table was read, and, if it is the first one, that the forwarder has begun. What is recorded after
// a time that lies ahead would count as the former table's until then. It returns true if the
// forwarder had not begun before this process.
func (f *Forwarder) begin(read time.Time) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read = read.UTC().Truncate(time.Millisecond)
	last := &f.tables.Tables[len(f.tables.Tables)-1]
	if last.From.IsZero() {
		f.first, last.From = true, read.Add(time.Millisecond) // what was recorded in the same one was there before
		f.saveTables()
	} else if last.From.After(read) && !f.first {
		last.From = read
		f.saveTables()
	}
	return f.first
}

// home is where an event goes that a receiver's worker has fetched; see history.home.
func (f *Forwarder) home(e events.Event, receiver string, early bool) (to []string, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tables.home(e, receiver, early)
}

// Status is the state of a forwarder.
type Status struct {
	Workers []WorkerStatus `json:"workers"`
}

// WorkerStatus is the state of one worker. Counters begin with the process.
type WorkerStatus struct {
	Forwarder   string `json:"forwarder"`
	Destination string `json:"destination"` // empty: of leads that no route takes
	Whose       string `json:"whose"`       // the agencies, as they were configured
	Kind        Kind   `json:"kind"`
	Waiting     uint64 `json:"waiting"` // as the server counts them, with the one in hand; at most half a minute old
	// WaitingSince is since when something has waited without a delivery being accepted.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	Lost         uint64    `json:"lost"`   // leads that wait because no route takes them any more
	Sent         uint64    `json:"sent"`   // deliveries; a digest is one
	Events       uint64    `json:"events"` // in these deliveries
	LastSent     time.Time `json:"lastSent,omitzero"`
	Attempts     int       `json:"attempts,omitempty"`  // of the message in hand
	LastError    string    `json:"lastError,omitempty"` // why the receiver did not accept a message, if it did not
	LastErrorAt  time.Time `json:"lastErrorAt,omitzero"`
	// FailingSince is since when the receiver has accepted nothing; zero if it accepted the last message.
	FailingSince time.Time `json:"failingSince,omitzero"`
	DeadLetters  uint64    `json:"deadLetters"`
	Foreign      uint64    `json:"foreign"`           // foreign messages on our subjects
	Problem      string    `json:"problem,omitempty"` // why nothing comes from NATS

	// Turned is the time of the last loop iteration: at least every half minute, or after a
	// Retry.After of the receiver.
	Turned time.Time `json:"-"`
}

// Status may be called at any time.
func (f *Forwarder) Status() (s Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		one := w.status.read()
		if d := f.destinations[w.receiver]; d != nil {
			if since := d.failing.Load(); since != nil {
				one.FailingSince = *since
			}
		}
		s.Workers = append(s.Workers, one)
	}
	return s
}

// board is a WorkerStatus that is read while it is written.
type board struct {
	mu sync.Mutex
	s  WorkerStatus
}

func (b *board) read() WorkerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s
}

func (b *board) write(change func(*WorkerStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.s)
}
