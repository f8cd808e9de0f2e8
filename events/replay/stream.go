package replay

import (
	"context"
	"time"

	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// margin is what a replay adds to the headers of an event: job, stream, fence.
const margin = 1024

// Config is the stream as it is made.
func (o Options) Config() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:        o.Stream,
		Description: "doorbell: events that were replayed on request",
		Subjects:    []string{o.Prefix + ".replay.>"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew, // a full stream says so instead of forgetting
		MaxAge:      MaxAge,
		MaxBytes:    -1,
		Replicas:    max(1, o.Replicas),
		Duplicates:  2 * time.Minute,
		AllowDirect: true,
		Metadata:    map[string]string{"app": "doorbell"},
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	return c
}

// openStream makes the stream if it is missing, and makes sure that it can be used.
func (j *Job) openStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.o.AckWait)
	defer cancel()
	found, err := stream.Ensure(ctx, j.js, j.o.Config(), stream.Rights{Manage: j.o.Manage, Embedded: j.o.Embedded})
	if err != nil {
		return err
	}
	j.most = int(j.o.Conn.MaxPayload())
	if most := int(found.Info.Config.MaxMsgSize); most > 0 {
		j.most = min(j.most, most)
	}
	j.most -= margin
	return nil
}
