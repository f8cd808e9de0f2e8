package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoStream: the stream is missing, and the relay may not create it. The relay keeps retrying, as
// after stream.ErrUnfit and stream.ErrNotConnected.
var ErrNoStream = errors.New("stream is missing and STREAM_MANAGE forbids creating it")

// margin is the space in bytes for headers that the relay and the client add to an event.
const margin = 1024

// maxMessage is the limit in bytes on headers and payload of one event together.
func maxMessage(nc stream.Conn, c jetstream.StreamConfig) int {
	limit := int(nc.MaxPayload())
	if n := int(c.MaxMsgSize); n > 0 {
		limit = min(limit, n)
	}
	return limit - margin
}

// inspect makes sure that server and stream can be used. It creates or changes the stream first if
// the options allow that.
func (r *Relay) inspect(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	found, err := stream.Ensure(ctx, r.js, r.o.StreamConfig(),
		stream.Rights{Manage: r.o.Manage, Embedded: r.o.Embedded})
	if found.Made {
		r.o.Logger.Info("stream created", "stream", r.o.Stream)
	}
	switch {
	case errors.Is(err, stream.ErrMissing):
		return nil, fmt.Errorf("%w: %s", ErrNoStream, r.o.Stream)
	case err != nil:
		return nil, err
	case found.Widened:
		r.o.Logger.Info(
			"the duplicate window was widened: the server is restarted so that it knows the ids of older messages", "stream", r.o.Stream)
		return nil, r.restart(ctx)
	}
	s, have := &r.session, found.Info.Config
	s.maxMessage, s.window = maxMessage(r.o.Conn, have), have.Duplicates
	if have.MaxAge > 0 {
		s.window = min(s.window, have.MaxAge)
	}
	return found.Info, nil
}

// longWindow is the duplicate window of a stream that keeps everything.
const longWindow = 30 * 24 * time.Hour

// StreamConfig is the stream as it should be. Its duplicate window is as long as it keeps messages.
func (o Options) StreamConfig() jetstream.StreamConfig {
	return stream.Complete(jetstream.StreamConfig{
		Name:        o.Stream,
		Description: "doorbell: what happened at the listings API",
		Subjects:    []string{events.StreamSubjects(o.Prefix)},
		MaxBytes:    o.MaxBytes,
		MaxAge:      o.MaxAge,
		Replicas:    o.Replicas,
		Duplicates:  cmp.Or(o.MaxAge, longWindow),
		Metadata:    map[string]string{"app": "doorbell"},
	})
}
