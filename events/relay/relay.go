// Package relay publishes the event log to JetStream. It rests on one idea: the stream takes each
// event once. Every message carries the id of its event as Nats-Msg-Id, ids are deterministic, and
// the duplicate window of the stream is as long as its retention. So publishing again is always
// harmless, and "duplicate" is an acknowledgement.
//
// # One loop
//
// The log is one list, and the cursor is the position up to which it is published. On each
// connection, after each failure and once a minute the relay prepares: it makes sure that the
// stream exists, fits, and still holds what it has acknowledged. Then it publishes one event after
// the other, in order, and moves the cursor. The cursor is a hint: it is written after each page of
// the log, and what was published since then is offered again. After a failure the relay waits,
// longer each time, and continues at the cursor.
//
// # What may happen to the stream
//
// The stream has lost events if it was recreated, if it ends before the last acknowledged message,
// if another message is in that place, or if a new message is stored before it: another doorbell
// may have written behind a lost tail. Then the cursor goes back to the beginning of the log, and
// the stream refuses what it still holds. What is offered after that carries the header
// doorbell-resent. Two kinds of acknowledged events are not offered again: those about to leave the
// duplicate window, whose ids the stream may have forgotten, and those whose person was erased. A
// message that was purged or deleted stays so, because the server still knows its id.
//
// A server does not always know the ids of the messages that it holds. Damaged files may lack any
// message, and after a crash nats-server forgets the ids of messages before an erased one. So after
// each failure and reconnect the relay reads which events the stream has taken since, and after
// each start of the embedded server all that it holds, and offers only the others. The embedded
// stream is then offered the whole log, including messages that another program has deleted: no
// other program may delete there.
//
// # What may happen to the store
//
// A store that was restored from a backup offers its events again, and continues with positions
// above those in the stream. A second doorbell for the same agencies offers the same ids. The relay
// warns about it, and does not stop it.
//
// The relay does not know what an insertion is, and writes to the log only through [Log].
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Log is the event log, and with it the outbox. All methods may be called from any goroutine. An
// error of any of them ends the relay: a commit that failed may have happened.
type Log interface {
	// Agencies lists the agencies that the store knows.
	Agencies() ([]string, error)
	// Events returns events after a position, in order: at least one if there is any, at most
	// limit, and more than one only while they stay below maxBytes.
	Events(after uint64, limit, maxBytes int) ([]events.Event, error)
	// Lookup returns the event at a position, if the log still has it.
	Lookup(position uint64) (e events.Event, found bool, err error)
	// LastPosition is the highest position that is in use or reserved; Reserve raises it.
	LastPosition() (uint64, error)
	Reserve(position uint64) error
	// Cursor is the position up to which the log is published.
	Cursor() (events.Cursor, error)
	// Acknowledge moves the cursor, which may go back, and notes the newest acknowledged positions
	// of agencies, in one commit.
	Acknowledge(c events.Cursor, newest map[string]uint64) error
	// Last is the newest acknowledged position of an agency.
	Last(agency string) (uint64, error)
	// OnAppend registers a callback that runs after every commit that appended events. It does not
	// block.
	OnAppend(wake func())
}

// Options configure New. Log, Conn, Prefix and Stream are required.
type Options struct {
	Log    Log
	Conn   stream.Conn // stays the caller's to close
	Prefix string      // of subjects: <prefix>.v1.<agency>.<type>
	Stream string
	// of the stream, and its duplicate window; 0: the stream keeps everything, the window is 30
	// days
	MaxAge   time.Duration
	MaxBytes int64         // of the stream; 0: unlimited
	Manage   bool          // make the stream if it is missing
	Embedded bool          // the server is ours: the stream is changed to match these options
	Replicas int           // of a stream that is made; default 1
	StoreID  string        // of the store that holds the log
	Logger   *slog.Logger  // default: nothing is logged
	AckWait  time.Duration // how long to wait for a reply; default 5 s

	// Restart restarts the embedded server. Only a restart makes it learn the ids in a widened
	// window, and forget those of deleted messages.
	Restart func(ctx context.Context) error
	// Redacted is called with the contact_request.redacted events of an agency in the stream when
	// the log turns out to be older than the stream. The store erases the requests that they name.
	Redacted func(agency string, list []events.Event) error
	// Pending returns what has to be done before the next publish, while nothing is published:
	// people are erased from the stream. It returns nil if there is nothing. The function calls
	// progress while it works; after an error it is asked for again. The log has erased these
	// people before.
	Pending func() func(ctx context.Context, progress func()) error
	// SetBack is called with each agency of a log that turns out to be older than the stream.
	SetBack func(agency string) error
}

func (o Options) withDefaults() Options {
	o.AckWait = cmp.Or(o.AckWait, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Restart == nil {
		o.Restart = func(context.Context) error { return nil }
	}
	if o.Pending == nil {
		o.Pending = func() func(context.Context, func()) error { return nil }
	}
	if o.SetBack == nil {
		o.SetBack = func(string) error { return nil }
	}
	if o.Redacted == nil {
		o.Redacted = func(string, []events.Event) error { return nil }
	}
	return o
}

const (
	prepareEvery = time.Minute
	// pageEvents and pageBytes bound one read of the log, after which the cursor is written.
	pageEvents = 100
	pageBytes  = 1 << 20
)

// ErrLog is wrapped by every error of the Log. It ends the relay, and should end the process: a
// commit that failed may have happened all the same.
var ErrLog = errors.New("event log")

// ErrClosed is returned when the connection has been closed and will not come back: the caller
// makes a new one.
var ErrClosed = errors.New("the NATS connection is closed")

// Relay publishes one event log. Its methods may be called from any goroutine; Run only once at a
// time.
type Relay struct {
	o        Options
	js       jetstream.JetStream
	stream   stream.Client
	started  time.Time
	appended chan struct{} // capacity 1: signals that the log has grown

	// capacity 1: full while a goroutine prepares, publishes or erases; see lock
	working chan struct{}
	session session // guarded by working

	mu     sync.Mutex
	status Status
}

// New makes a relay. It makes no network calls.
func New(o Options) (*Relay, error) {
	o = o.withDefaults()
	js, err := o.Conn.JetStream(jetstream.WithDefaultTimeout(o.AckWait))
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	now := time.Now()
	return &Relay{
		o: o, js: js, started: now,
		stream:   stream.Client{Conn: o.Conn, Stream: o.Stream, Wait: o.AckWait, Alone: o.Embedded},
		appended: make(chan struct{}, 1), working: make(chan struct{}, 1),
		session: session{doubt: map[uint64]bool{}, newest: map[string]uint64{}},
		status: Status{
			Turned: now, Published: map[events.Type]uint64{}, Failures: map[string]uint64{},
			Rivals: map[string]time.Time{},
		},
	}, nil
}

// Run publishes until ctx ends, then returns nil. It returns earlier only with ErrLog or ErrClosed.
func (r *Relay) Run(ctx context.Context) error {
	r.o.Log.OnAppend(func() {
		select {
		case r.appended <- struct{}{}:
		default:
		}
	})
	status := r.o.Conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED,
		nats.CLOSED)
	defer r.o.Conn.RemoveStatusListener(status)
	retry := newRetry()
	for {
		err := r.RunOnce(ctx)
		wait, grown := prepareEvery, r.appended
		switch {
		case isFinal(err):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil:
			grown, wait = nil, retry.NextBackOff()
		default:
			retry.Reset()
		}
		select {
		case <-ctx.Done():
		case <-grown:
		case <-time.After(wait):
		case <-status:
			retry.Reset()
		}
	}
}

// isFinal reports whether another attempt would not help.
func isFinal(err error) bool { return errors.Is(err, ErrLog) || errors.Is(err, ErrClosed) }

// Drain publishes all unsent events before the process ends, and retries until ctx ends. After an
// error the rest is still in the log. Drain may be called while Run is running, and after it has
// ended.
func (r *Relay) Drain(ctx context.Context) error {
	retry := newRetry()
	for {
		pending, err := r.pending()
		if err != nil || !pending {
			return err
		}
		if err = r.RunOnce(ctx); err == nil || isFinal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retry.NextBackOff()):
		}
	}
}

// pending reports whether the log holds unsent events.
func (r *Relay) pending() (bool, error) {
	c, err := r.o.Log.Cursor()
	if err != nil {
		return false, fmt.Errorf("relay: %w: %w", ErrLog, err)
	}
	list, err := r.o.Log.Events(c.Position, 1, 1)
	if err != nil {
		return false, fmt.Errorf("relay: %w: %w", ErrLog, err)
	}
	return len(list) > 0, nil
}

// RunOnce publishes all unsent events, page by page, and returns.
func (r *Relay) RunOnce(ctx context.Context) error {
	for {
		more, err := r.step(ctx)
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// step prepares if that is due, publishes one page of the log, and reports whether more may follow.
// Between two steps other callers can take the lock.
func (r *Relay) step(ctx context.Context) (more bool, err error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	r.turn()
	if err = r.ready(ctx); err == nil {
		more, err = r.publish(ctx)
	}
	if err != nil {
		r.session.prepared = time.Time{}
		err = r.explain(err)
	}
	if ctx.Err() == nil {
		r.note(err)
	}
	return more, err
}

// lock waits until no other goroutine prepares, publishes or erases. It is not a mutex: a test in
// virtual time would hang if one goroutine waited for the mutex while its holder waited for a
// timer.
func (r *Relay) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case r.working <- struct{}{}:
		return func() { <-r.working }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newRetry returns the back-off that everything here uses. It never gives up.
func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(30*time.Second),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
}

// turn notes that the relay makes progress: that its loop begins another step, or that a long step
// has read another message.
func (r *Relay) turn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Turned = time.Now()
}
