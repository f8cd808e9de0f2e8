package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Options configure New. Conn, Prefix, Stream, Dir and Name are required. Names, prefix and filters
// are checked where the configuration is read.
type Options struct {
	Conn   stream.Conn // the caller closes it after Run has returned
	Prefix string
	Stream string
	Dir    string // the data directory; the files are in its subdirectory forward
	Name   string // tells apart forwarders that share a directory: 1 to 32 letters, digits, _ and -
	Routes []Route

	// Forwarders are the values that Route.Forwarder may have, now or after a change; default Name.
	Forwarders []string
	// Untaken counts the leads that no route takes.
	Untaken bool
	// Behind reports whether events recorded long ago may still be published; nil: no.
	Behind func() bool

	// Instance is part of the names of consumers. Agencies returns the agencies of this doorbell:
	// another one may have others on the same stream, and the same receivers. Nil: all agencies.
	Instance string
	Agencies func() []string

	Retention time.Duration // how long dead letters and unused consumers are kept; 0: forever
	Manage    bool          // create the stream of dead letters if it is missing
	Log       *slog.Logger  // default: nothing is logged

	// Since is when the routes were read: a new route takes what is recorded from then on. Default:
	// when New is called.
	Since time.Time

	AckWait time.Duration // of the consumers; default 30 s
}

const (
	sendLimit = time.Minute     // how long one Send may take
	drain     = 5 * time.Second // how long a Send may continue after the end of Run's context
)

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Since.IsZero() {
		o.Since = time.Now()
	}
	if o.Forwarders == nil {
		o.Forwarders = []string{o.Name}
	}
	o.AckWait = cmp.Or(o.AckWait, 30*time.Second)
	o.Routes = slices.Clone(o.Routes)
	for n := range o.Routes {
		o.Routes[n].Forwarder = cmp.Or(o.Routes[n].Forwarder, o.Name)
	}
	return o
}

// ValidName checks the name of a forwarder, which becomes part of subjects and of file names. The
// error does not quote it.
func ValidName(name string) error {
	if name == "" || len(name) > 32 || events.Token(name) != name {
		return errors.New("a name of a forwarder or an instance is 1 to 32 letters, digits, _ and -")
	}
	return nil
}

// Forwarder delivers events of the stream to receivers. [New] makes one, [Forwarder.Run] runs it
// once.
type Forwarder struct {
	o       Options
	js      jetstream.JetStream
	locks   []*os.File
	changes chan Options

	mu           sync.Mutex // guards o.Routes, o.Since and the following
	tables       history
	destinations map[string]*destination
	workers      []*worker

	cut func(step string) error // for tests: ends a worker at a step, as a crash would
}

// New takes the locks of the names, and reads the files. It makes no network calls. The forwarder
// keeps the locks until Run returns or Close is called. [ErrBusy] means that another process has
// one of them, [ErrState] that a file cannot be used.
func New(o Options) (*Forwarder, error) {
	o = o.withDefaults()
	js, err := o.Conn.JetStream()
	if err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", o.Name, err)
	}
	f := &Forwarder{
		o: o, js: js, changes: make(chan Options, 1), destinations: map[string]*destination{},
		cut: func(string) error { return nil },
	}
	if err := f.open(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// open takes the locks, reads the tables, and puts the present one into force.
func (f *Forwarder) open() error {
	for _, name := range append([]string{f.o.Name}, without(f.o.Forwarders, []string{f.o.Name})...) {
		l, err := lock(f.o.Dir, name)
		if err != nil {
			return err
		}
		f.locks = append(f.locks, l)
	}
	tables, _, err := read(f.path(f.o.Name), func(h history) bool {
		return h.Version == stateVersion && h.Name == f.o.Name && len(h.Tables) > 0
	})
	if err != nil {
		return err
	}
	f.tables = tables
	f.tables.Version, f.tables.Name = stateVersion, f.o.Name
	return f.putIntoForce()
}

// Close releases the locks, as Run does when it returns.
func (f *Forwarder) Close() {
	for _, l := range f.locks {
		l.Close()
	}
}

// path returns the file of a worker, or with the forwarder's name that of the tables.
func (f *Forwarder) path(name string) string { return filepath.Join(folder(f.o.Dir), name+".json") }

// putIntoForce puts the present routes into force. There is a worker for each receiver, and for
// each file that a former table has left.
func (f *Forwarder) putIntoForce() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := tableOf(f.o.Routes)
	now.From = f.o.Since.UTC().Truncate(time.Millisecond) // the precision of recorded times
	f.tables.change(now, f.o.Retention)

	var names []string
	for _, r := range f.o.Routes {
		names = append(names, r.key())
		if d := f.destinations[r.key()]; d == nil {
			f.destinations[r.key()] = newDestination(r.Receiver)
		} else {
			d.receiver, d.traits = r.Receiver, r.Receiver.Traits()
		}
	}
	files, err := os.ReadDir(folder(f.o.Dir))
	if err != nil {
		return fmt.Errorf("forwarder %s: %w", f.o.Name, err)
	}
	for _, file := range files {
		name, json := strings.CutSuffix(file.Name(), ".json")
		forwarder, _, ofWorker := strings.Cut(name, ".")
		if json && ofWorker && slices.Contains(f.o.Forwarders, forwarder) {
			names = append(names, name)
		}
	}
	if f.o.Untaken {
		names = append(names, f.o.Name+"."+untaken)
	}
	for _, name := range names {
		if slices.ContainsFunc(f.workers, func(w *worker) bool { return w.name == name }) {
			continue
		}
		w, err := newWorker(f, name)
		if err != nil {
			return err
		}
		f.workers = append(f.workers, w)
	}
	for _, w := range f.workers {
		w.routed()
	}
	return nil
}

// errChanged ends the workers of a former table.
var errChanged = errors.New("the routes were changed")

// Change has Run put other routes into force, once the deliveries under way have ended. Read is
// when the routes were read. If Change is called again before that, only the last routes count.
func (f *Forwarder) Change(routes []Route, read time.Time) {
	f.mu.Lock()
	o := f.o
	f.mu.Unlock()
	o.Routes, o.Since = routes, read
	select {
	case <-f.changes: // an earlier change that never came into force
	default:
	}
	f.changes <- o.withDefaults()
}

// Run forwards until ctx ends, and then lets a Send under way finish, for at most 5 s. It
// waits while NATS is away, and while the stream or a consumer is missing: its only errors are a
// connection that was closed for good and files that can no longer be read. It may be called once.
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

// change puts the routes of other options into force. It is called while no worker runs.
func (f *Forwarder) change(o Options) error {
	f.mu.Lock()
	f.o.Routes = o.Routes
	if f.tables.begun() { // otherwise events since the first table was read belong to this one
		f.o.Since = o.Since
	}
	f.workers = slices.DeleteFunc(f.workers, func(w *worker) bool { return w.retired })
	f.mu.Unlock()
	return f.putIntoForce()
}

func (f *Forwarder) saveTables() {
	if err := write(f.path(f.o.Name), &f.tables); err != nil {
		f.o.Log.Error("the routes cannot be saved: after they change, messages may be missed",
			"forwarder", f.o.Name, "err", err.Error())
	}
}

// begin sets the time of the present table by the server's clock, once that is known; read is when
// the routes were read, on that clock. A table whose time lies ahead is moved back: until then,
// events would count as the former table's.
func (f *Forwarder) begin(read time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := &f.tables.Tables[len(f.tables.Tables)-1]
	if read = read.UTC().Truncate(time.Millisecond); !f.tables.begun() || last.From.After(read) {
		last.From = read
		f.saveTables()
	}
}

// WorkerStatus is the state of one worker. Counters start at 0 with the process.
type WorkerStatus struct {
	Forwarder string `json:"name"`
	// empty: the worker counts the leads that no route takes
	Destination string `json:"destination,omitempty"`
	Whose       string `json:"whose,omitempty"` // the agencies, as they were configured
	// Waiting is how many messages wait, including the current one. The count is the server's, and
	// at most half a minute old.
	Waiting uint64 `json:"waiting"`
	// WaitingSince is since when messages have waited without a delivery being accepted.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// leads that wait because no route takes them any more
	Lost     uint64    `json:"lost,omitempty"`
	Events   uint64    `json:"events"` // that were delivered
	LastSent time.Time `json:"lastSent,omitzero"`
	Attempts int       `json:"attempts,omitempty"` // of the current delivery
	// why the last attempt failed; empty if it did not
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	// FailingSince is since when all attempts have failed; zero if the last one was accepted or
	// refused.
	FailingSince time.Time `json:"failingSince,omitzero"`
	DeadLetters  uint64    `json:"deadLetters"`
	// Failed counts attempts that failed, by reason: receiver, busy, unanswered or refused.
	Failed  map[string]uint64 `json:"failed,omitempty"`
	Problem string            `json:"problem,omitempty"` // why no events come from NATS

	// Turned is the time of the last loop iteration: at least every half minute, or after a
	// Retry.After of the receiver.
	Turned time.Time `json:"-"`
}

// Status returns the state of all workers. It may be called at any time.
func (f *Forwarder) Status() (all []WorkerStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		w.mu.Lock()
		if !w.retired { // its heartbeat has not ended
			all = append(all, w.status)
		}
		w.mu.Unlock()
	}
	return all
}
