package relay

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// delivery is a message, or why no more come.
type delivery struct {
	message jetstream.Msg
	err     error
}

// deliveries are the messages of an ordered consumer, until ctx ends. Where it is lost, nats.go makes another one, and tries that without
// end while the stream has no leader, whatever a context says: so only a goroutine of its own waits for it.
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
