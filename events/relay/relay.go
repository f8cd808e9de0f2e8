// Package relay moves the event log to JetStream: each event once, in the order of its agency, however often the process,
// the server or the network breaks in between.
//
// # How it stays exact
//
// The log is the truth and the stream a copy. Of every agency the log holds a cursor: the newest event that the stream
// has acknowledged, its place n in the stream, and when that stream was created. The relay reads what is unsent, gives it the
// numbers that follow the cursor's, and publishes it in atomic batches. The first message of a batch carries a fence: it is
// refused if the last message of this agency is not the one that the relay saw last. So a late copy of a batch, a second relay,
// or a foreign publisher cannot slip in between unseen. Only after the acknowledgement do the numbers and the cursor come into
// the log, in one durable commit. Were the process to end before, the next reconcile would find what has arrived, by its id.
//
// Every failure is in doubt: a timeout does not say whether the batch has arrived. After any failure, at the start, after
// every reconnect and once an hour the relay therefore reconciles before it sends ([worker.reconcile]); when it has, the agency
// is synced:
//
//   - Messages after n that are the next unsent events have arrived, under the numbers that they carry: the cursor moves over
//     them. Messages that are no events of this agency are stepped over, counted and reported.
//   - Events of this agency that the log does not have are taken into it, as acknowledged: the stream is the second memory
//     where the log is a restored backup, a new one after a lost store, or that of a second doorbell. Unsent events, which nobody
//     has seen yet, get the numbers behind them, and those that the stream holds are dropped: ids decide what is the same,
//     ce-storeid only tells whose it was. Where two stores have both published under one number, the ids alone are remembered.
//   - Another creation time, a last sequence below n, or another message at n: the stream has lost what it had
//     acknowledged. All that it holds is read; what it lacks behind the newest event still in place, or in a stream that was made
//     anew, is sent again, with the same id and sequence and the header doorbell-resent.
//   - Nothing at n, but the stream goes on beyond it: it expired, or somebody erased or purged it. It stays removed.
//
// What was found is announced by watch.stream_repaired, an event like any other. [Relay.Compare] reads both from end to end. What is
// missing in the middle of an embedded stream, from which nobody can erase, is found so in the background after each start of
// the server, and once a day, and sent again; what any other stream lacks is logged once a day, and a person decides about [Relay.Resend].
//
// # What it promises
//
// Where another doorbell publishes the same agency, the fence refuses whichever of the two comes second.
// It imports what the other has published and continues, so each id is in the stream once. The log warns
// of it: one of them should be stopped.
//
// Nothing that goes wrong at the server or on the way stops a relay for good; it backs off and tries for ever. Agencies do
// not wait for each other, but share a bound on the bytes in flight. Only an error of the log itself, whose outcome nobody
// knows, ends [Relay.Run]. The relay never knows what an insertion is, and never writes to the log but through [Log].
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// Log is the event log, and with it the outbox. All methods may be called from any goroutine. An error of any of them
// ends the relay: a commit that failed may have happened.
type Log interface {
	// Agencies lists the agencies that have an event log.
	Agencies() ([]string, error)
	// Cursor is how far an agency is published; the zero value: nothing is.
	Cursor(agency string) (events.Cursor, error)
	// SetCursor moves it, in one durable commit.
	SetCursor(agency string, c events.Cursor) error
	// Read returns published events with a sequence above after, ascending: at least one if there is any, at most maxEvents,
	// and more than one only while their payloads together stay under maxBytes.
	Read(agency string, after uint64, maxEvents, maxBytes int) ([]events.Event, error)
	// Unsent returns, within the same bounds, the first events that the stream has not taken: they have no sequence. Those that
	// Import has shown to be published are dropped.
	Unsent(agency string, maxEvents, maxBytes int) ([]events.Event, error)
	// CountUnsent says how many there are; some of them may be dropped.
	CountUnsent(agency string) (int, error)
	// Publish gives the first unsent events the sequences under which the stream has taken them, and moves the cursor to c, in
	// one durable commit.
	Publish(agency string, list []events.Event, c events.Cursor) error
	// Append adds an event made by events.New, in a commit of its own.
	Append(e events.Event) error
	// Import adds events that the stream holds and the log does not, in the order of the stream, and moves the cursor to c:
	// they count as acknowledged. One whose sequence is not above those of the log, and of all before it in the list, is
	// remembered by its id alone.
	Import(agency string, list []events.Event, c events.Cursor) error
	// OnAppend lets wake be called after every commit that appended events to the log of an agency, by who has committed: it
	// waits for nothing. The last call counts.
	OnAppend(wake func(agency string))
}

// Options configure New. Log, Conn, Prefix and Stream are required.
type Options struct {
	Log      Log
	Conn     *nats.Conn // stays the caller's to close
	Prefix   string     // of subjects: <prefix>.v1.<agency>.<type>
	Stream   string
	MaxAge   time.Duration // of the stream; also: older events are not sent again. 0: unlimited
	MaxBytes int64         // of the stream; 0: unlimited
	Manage   bool          // make the stream if it is missing
	Embedded bool          // the server is ours: the stream is changed to what it should be
	Replicas int           // of a stream that is made; default 1
	StoreID  string        // names the store in the stream's metadata
	Logger   *slog.Logger  // default: nothing is logged

	BatchEvents    int           // most events in one batch; default and most 1,000
	BatchBytes     int           // most payload bytes in one batch that has several events; default 2 MiB
	AckWait        time.Duration // how long to wait for an answer; default 5 s
	ReconcileEvery time.Duration // how often to reconcile without a reason; default 1 h
	CompareIn      time.Duration // how long after a connect the stream is compared with the log; default 3 min

	// Synced is called after each reconcile, when the log has all that the stream holds of an agency. It must not block.
	Synced func(agency string)
}

// inFlight is how many batches are read and sent at once, over all agencies, and of how many the stream is read.
const inFlight = 4

// serverBatch is the most messages that a server takes in one atomic batch, unless configured lower.
const serverBatch = 1000

func (o Options) withDefaults() Options {
	o.BatchEvents = min(cmp.Or(o.BatchEvents, serverBatch), serverBatch)
	o.BatchBytes = cmp.Or(o.BatchBytes, 2<<20)
	o.AckWait = cmp.Or(o.AckWait, 5*time.Second)
	o.ReconcileEvery = cmp.Or(o.ReconcileEvery, time.Hour)
	o.CompareIn = cmp.Or(o.CompareIn, 3*time.Minute) // by then the server has forgotten the ids of what it lost
	if o.Synced == nil {
		o.Synced = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrLog is wrapped by an error of the Log. It ends the relay, and should end the process: a commit that failed may have
// happened.
var ErrLog = errors.New("event log")

// ErrClosed is returned when the connection has been closed and will not come back: the caller makes a new one.
var ErrClosed = errors.New("the NATS connection is closed")

// Relay publishes one event log. Its methods may be called from any goroutine; Run only once at a time.
type Relay struct {
	o           Options
	js          jetstream.JetStream
	stream      stream.Client
	link        *link
	budget      *semaphore.Weighted // in batches
	reconciling *semaphore.Weighted // in agencies: each may hold a page of what it imports

	mu        sync.Mutex
	workers   map[string]*worker
	published map[events.Type]uint64 // see Status
	failures  map[string]uint64

	begun chan struct{} // capacity 1: a log has grown whose worker does not run yet

	turned atomic.Pointer[time.Time] // when the supervisor did last
}

// New checks the options and makes a relay. It asks the server nothing.
func New(o Options) (*Relay, error) {
	o = o.withDefaults()
	if o.Log == nil || o.Conn == nil || o.Prefix == "" || o.Stream == "" {
		return nil, errors.New("relay: log, connection, prefix and stream are required")
	}
	js, err := jetstream.New(o.Conn, jetstream.WithDefaultTimeout(o.AckWait))
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r := &Relay{
		o: o, js: js, stream: stream.Client{Conn: o.Conn, Stream: o.Stream, Wait: o.AckWait}, link: newLink(), workers: map[string]*worker{}, begun: make(chan struct{}, 1),
		published: map[events.Type]uint64{}, failures: map[string]uint64{},
		budget: semaphore.NewWeighted(inFlight), reconciling: semaphore.NewWeighted(inFlight),
	}
	r.turn()
	return r, nil
}

// Run publishes until ctx ends, then returns nil. It returns earlier only with ErrLog or ErrClosed.
func (r *Relay) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.supervise(ctx, g) })
	g.Go(func() error { return r.compareAll(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}

// RunOnce publishes all that is there, agency after agency, and returns when it is done. The error says which agencies
// were left behind and why; what it can mean see Drain.
func (r *Relay) RunOnce(ctx context.Context) error {
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return fmt.Errorf("relay: %w: %w", ErrLog, err)
	}
	s, err := r.check(ctx)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	var failed []error
	for _, a := range agencies {
		l := r.worker(a)
		if err := l.finish(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("agency %s: %w", l.token, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}

// Drain publishes what is there before the process ends, and tries until ctx ends. The error is what stood in the way:
// the events are still in the log. Drain may be called while Run runs, and after it has ended.
func (r *Relay) Drain(ctx context.Context) error {
	retry := newRetry()
	for {
		pending, err := r.pending()
		if err != nil || !pending {
			return err
		}
		if err = r.RunOnce(ctx); err == nil || errors.Is(err, ErrLog) || errors.Is(err, ErrClosed) {
			return err
		}
		if !sleep(ctx, retry.NextBackOff(), nil) {
			return err
		}
	}
}

// pending says whether any agency has an unsent event.
func (r *Relay) pending() (bool, error) {
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return false, fmt.Errorf("relay: %w: %w", ErrLog, err)
	}
	for _, a := range agencies {
		n, err := r.o.Log.CountUnsent(a)
		if err != nil {
			return false, fmt.Errorf("relay: %w: %w", ErrLog, err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (r *Relay) worker(agency string) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.workers[agency]
	if !ok {
		l = newWorker(r, agency)
		r.workers[agency] = l
	}
	return l
}

// Begin makes Run look for agencies that are new to the log, though nothing was appended of them yet.
func (r *Relay) Begin() { poke(r.begun) }

// appended wakes who publishes the log of an agency. It is called by who has committed.
func (r *Relay) appended(agency string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.workers[agency]; l != nil && l.running {
		poke(l.poked)
	} else {
		poke(r.begun)
	}
}

func (r *Relay) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*worker, 0, len(r.workers))
	for _, l := range r.workers {
		all = append(all, l)
	}
	return all
}
