package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State is what a stream holds at a moment.
type State struct {
	Created     time.Time // another time: another stream of the same name
	First, Last uint64    // sequences; an empty stream has a First above Last
	Messages    uint64
	Alone       bool // it has no replicas, and may be read in batches
}

// State asks for the state of the stream.
func (c Client) State(ctx context.Context) (State, error) {
	js, err := c.Conn.JetStream()
	if err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	s, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return State{}, fmt.Errorf("stream %s: %w", c.Stream, err)
	}
	i := s.CachedInfo()
	return State{
		Created: i.Created, First: i.State.FirstSeq, Last: i.State.LastSeq, Messages: i.State.Msgs,
		Alone: i.Config.Replicas <= 1 && i.Config.AllowDirect,
	}, nil
}

// ID is the id under which a message was published; empty if it has none.
func (m *Message) ID() string { return m.Header.Get(jetstream.MsgIDHeader) }
