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
	// ErrOldServer: nobody knows whether the server can be used.
	ErrOldServer = errors.New("NATS server too old: version " + oldestServer + " or later is needed")
	// ErrNoStream: the stream is missing, and we are not to make it.
	ErrNoStream = errors.New("stream is missing and STREAM_MANAGE forbids to make it")
	// ErrStreamUnfit: the stream is there, but must not or cannot hold our events as it is.
	ErrStreamUnfit = stream.ErrUnfit
	// ErrNotConnected: there is no connection at the moment.
	ErrNotConnected = errors.New("no connection to NATS")
)

// margin is what the relay adds to the headers of an event: fence, stream, batch. The fence repeats the agency's token.
const margin = 1024

// usable is a server and a stream that can be used.
type usable struct {
	maxMessage int // the most bytes that one message may take
	manner     manner
	different  []string // how an external stream differs from what it should be
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
	f, err := ask(ctx, r.js)
	if err != nil {
		return u, err
	}
	want := f.known(r.o.StreamConfig())
	found, err := r.stream(ctx, want)
	u.different = found.Different
	if err != nil {
		return u, err
	}
	have := found.Info.Config
	most := int(r.o.Conn.MaxPayload())
	if m := int(have.MaxMsgSize); m > 0 {
		most = min(most, m)
	}
	u.maxMessage, u.manner = most-margin, f.manner(have.AllowAtomicPublish)
	return u, nil
}

// stream returns the stream as it is, made or changed first if that is our business.
func (r *Relay) stream(ctx context.Context, want jetstream.StreamConfig) (stream.Found, error) {
	f, err := stream.Ensure(ctx, r.js, want, stream.Rights{Manage: r.o.Manage, Embedded: r.o.Embedded})
	if errors.Is(err, stream.ErrMissing) {
		err = fmt.Errorf("%w: %s", ErrNoStream, r.o.Stream)
	}
	if f.Made {
		r.o.Logger.Info("stream made", "stream", r.o.Stream)
	}
	if f.Unchanged != nil {
		r.o.Logger.Error("stream stays as it is", "stream", r.o.Stream, "err", f.Unchanged.Error())
	}
	return f, err
}

// StreamConfig is the stream as it should be.
func (o Options) StreamConfig() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:               o.Stream,
		Description:        "doorbell: what happened at the listings API",
		Subjects:           []string{events.StreamSubjects(o.Prefix)},
		Retention:          jetstream.LimitsPolicy,
		MaxConsumers:       -1,
		MaxMsgs:            -1,
		MaxMsgsPerSubject:  -1,
		MaxMsgSize:         -1,
		MaxBytes:           -1,
		MaxAge:             o.MaxAge,
		Discard:            jetstream.DiscardNew, // a full stream says so instead of forgetting
		Storage:            jetstream.FileStorage,
		Replicas:           max(1, o.Replicas),
		Duplicates:         2 * time.Minute, // beyond it the fence does the work
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Metadata:           map[string]string{"app": "doorbell"},
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	if o.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, o.MaxAge)
	}
	if o.StoreID != "" {
		c.Metadata["store_id"] = o.StoreID
	}
	return c
}
