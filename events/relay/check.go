package relay

import (
	"context"
	"errors"
	"fmt"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// Found is what Check found at a server.
type Found struct {
	Level     int      // of JetStream's API; 0: not told
	OneByOne  bool     // events are published singly: the server, or the stream, takes no atomic batches
	Missing   bool     // there is no stream of that name; the relay makes it if it may
	Different []string // how the stream differs from what it should be, in words
	StoreID   string   // of the store that the stream was made for; empty: not told
	Messages  uint64
}

// Check looks whether server and stream could be used with these options, and changes nothing. Only Conn, Prefix, Stream,
// Manage and what shapes the stream are looked at. The error wraps ErrOldServer, ErrNoStream or ErrStreamUnfit, or says
// that the server did not answer; Found holds what was found until then.
func Check(ctx context.Context, o Options) (f Found, err error) {
	o = o.withDefaults()
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return f, fmt.Errorf("JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.AckWait)
	defer cancel()
	server, err := ask(ctx, js)
	f.Level, f.OneByOne = server.level, !server.batches()
	if err != nil {
		return f, err
	}
	s, err := js.Stream(ctx, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		f.Missing = true
		return f, o.mayMake(ctx, js)
	}
	if err != nil {
		return f, fmt.Errorf("stream %s: %w", o.Stream, err)
	}
	have := s.CachedInfo()
	f.Messages, f.StoreID = have.State.Msgs, have.Config.Metadata["store_id"]
	if o.StoreID == "" {
		o.StoreID = f.StoreID
	}
	want := server.known(o.StreamConfig())
	f.OneByOne = server.manner(have.Config.AllowAtomicPublish) != inBatches
	f.Different = stream.Differences(want, have.Config)
	return f, stream.Unfit(want, have.Config)
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
