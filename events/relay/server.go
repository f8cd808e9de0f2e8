package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// Errors that say what somebody has to change. The relay goes on trying.
var (
	// ErrOldServer: the server has no fence over the subjects of an agency, and no atomic batches.
	ErrOldServer = errors.New("NATS server too old: version 2.12 or later is needed")
	// ErrNoStream: the stream is missing, and we are not to make it.
	ErrNoStream = errors.New("stream is missing and STREAM_MANAGE forbids creating it")
	// ErrStreamUnfit: the stream is there, but must not or cannot hold our events as it is.
	ErrStreamUnfit = stream.ErrUnfit
	// ErrNotConnected: there is no connection at the moment.
	ErrNotConnected = stream.ErrNotConnected
)

// margin is what the relay adds to the headers of an event: fence, stream, batch. The fence repeats the agency's token.
const margin = 1024

// usable is a server and a stream that can be used.
type usable struct {
	maxMessage int  // bytes that headers and payload of one message may take together
	atomic     bool // the stream takes batches
}

// inspect makes sure that server and stream can be used.
func (r *Relay) inspect(ctx context.Context) (u usable, err error) {
	if r.o.Conn.IsClosed() {
		return u, ErrClosed
	}
	if !r.o.Conn.IsConnected() {
		return u, ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	if _, err := apiLevel(ctx, r.js); err != nil {
		return u, err
	}
	found, err := r.ensure(ctx, r.o.StreamConfig())
	if err != nil {
		return u, err
	}
	have := found.Info.Config
	most := int(r.o.Conn.MaxPayload())
	if m := int(have.MaxMsgSize); m > 0 {
		most = min(most, m)
	}
	u.maxMessage, u.atomic = most-margin, have.AllowAtomicPublish
	return u, nil
}

// ensure returns the stream as it is, made or changed first if that is our business.
func (r *Relay) ensure(ctx context.Context, want jetstream.StreamConfig) (stream.Found, error) {
	f, err := stream.Ensure(ctx, r.js, want, stream.Rights{Manage: r.o.Manage, Embedded: r.o.Embedded})
	if errors.Is(err, stream.ErrMissing) {
		err = fmt.Errorf("%w: %s", ErrNoStream, r.o.Stream)
	}
	if f.Made {
		r.o.Logger.Info("stream made", "stream", r.o.Stream)
	}
	if f.Unchanged != nil {
		r.o.Logger.Error("stream could not be changed to what it should be", "stream", r.o.Stream, "err", f.Unchanged.Error())
	}
	return f, err
}

// StreamConfig is the stream as it should be.
func (o Options) StreamConfig() jetstream.StreamConfig {
	c := stream.Complete(jetstream.StreamConfig{
		Name:               o.Stream,
		Description:        "doorbell: what happened at the listings API",
		Subjects:           []string{events.StreamSubjects(o.Prefix)},
		MaxBytes:           o.MaxBytes,
		MaxAge:             o.MaxAge,
		Replicas:           o.Replicas,
		Duplicates:         2 * time.Minute, // beyond it the fence does the work
		AllowAtomicPublish: true,
		Metadata:           map[string]string{"app": "doorbell"},
	})
	if o.StoreID != "" {
		c.Metadata["store_id"] = o.StoreID
	}
	return c
}

// atomicLevel is the JetStream API level from which servers know atomic batches, and a fence over several subjects. It is asked,
// never tried: an older server would store each message of a batch singly and say nothing.
const atomicLevel = 2

func apiLevel(ctx context.Context, js jetstream.JetStream) (int, error) {
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return 0, fmt.Errorf("JetStream account: %w", err)
	}
	if account.API.Level < atomicLevel {
		return account.API.Level, fmt.Errorf("%w (it is %.20q)", ErrOldServer, js.Conn().ConnectedServerVersion())
	}
	return account.API.Level, nil
}

// Found is what Check found at a server.
type Found struct {
	Level     int      // of JetStream's API; 0: unknown
	OneByOne  bool     // events are published singly: the stream takes no atomic batches
	Missing   bool     // there is no stream of that name; the relay makes it if it may
	Different []string // how the stream differs from what it should be, in words
	StoreID   string   // of the store that the stream was made for; empty: unknown
}

// Check looks whether server and stream could be used with these options, and changes nothing. Only Conn, Prefix, Stream,
// Manage and what shapes the stream count. The error wraps ErrOldServer, ErrNoStream or ErrStreamUnfit, or says
// that the server did not answer; Found holds what was found until then.
func Check(ctx context.Context, o Options) (f Found, err error) {
	o = o.withDefaults()
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return f, fmt.Errorf("JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.AckWait)
	defer cancel()
	if f.Level, err = apiLevel(ctx, js); err != nil {
		return f, err
	}
	found, err := stream.Ensure(ctx, js, o.StreamConfig(), stream.Rights{})
	if errors.Is(err, stream.ErrMissing) {
		f.Missing = true
		return f, o.mayMake(ctx, js)
	}
	if found.Info == nil {
		return f, err
	}
	have := found.Info.Config
	f.StoreID, f.Different = have.Metadata["store_id"], found.Different
	f.OneByOne = !have.AllowAtomicPublish
	return f, err
}

// mayMake says why the missing stream could not be made; nil if nothing is known to be in the way.
func (o Options) mayMake(ctx context.Context, js jetstream.JetStream) error {
	if !o.Manage && !o.Embedded {
		return fmt.Errorf("%w: %s", ErrNoStream, o.Stream)
	}
	subjects := events.StreamSubjects(o.Prefix)
	if other, err := js.StreamNameBySubject(ctx, subjects); err == nil {
		return fmt.Errorf("%w: stream %s holds %s already", ErrStreamUnfit, other, subjects)
	}
	return nil
}
