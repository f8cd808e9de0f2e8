package relay

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// delivery is a message, or the error that ended the reading.
type delivery struct {
	message jetstream.Msg
	err     error
}

// deliveries returns the messages of an ordered consumer until ctx ends. If the consumer is lost,
// nats.go makes a new one. While the stream has no leader it retries without end and ignores
// contexts, so only a goroutine of its own waits for it.
func deliveries(ctx context.Context, consumer jetstream.Consumer, options ...jetstream.PullMessagesOpt) (<-chan delivery, error) {
	messages, err := consumer.Messages(options...)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, messages.Stop)
	list := make(chan delivery)
	go func() {
		for err == nil {
			var m jetstream.Msg
			m, err = messages.Next(jetstream.NextContext(ctx))
			select {
			case list <- delivery{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return list, nil
}
