package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/events/natsd"
	"doorbell/events/stream"
)

// natsPatience is how long a command waits for NATS.
const natsPatience = 3 * time.Second

// connected waits for a connection that was made just now.
func connected(ctx context.Context, nc *nats.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, natsPatience)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !nc.IsConnected() {
		if errors.Is(nc.LastError(), nats.ErrAuthorization) {
			return false
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// connectStream connects to the NATS that holds the stream: the configured one, or that of the daemon in the data directory.
func connectStream(ctx context.Context, c *Config) (*nats.Conn, error) {
	dial, err := c.streamServer(ctx)
	if err != nil {
		return nil, err
	}
	nc, err := natsd.Connect(dial, quiet())
	if err != nil {
		return nil, configError(err, "check the NATS_* settings")
	}
	if !connected(ctx, nc) {
		defer nc.Close()
		return nil, failed(stream.Explain(nc, stream.ErrNotConnected), "start doorbell run, or check NATS_URL and the other NATS_* settings")
	}
	return nc, nil
}

// streamServer is the configured server, or that of the daemon in the data directory.
func (c *Config) streamServer(ctx context.Context) (natsd.Dial, error) {
	dial := c.NATS.dial()
	if dial.URL != "" {
		return dial, nil
	}
	if c.Base.NATSListen == "off" {
		return dial, failed(errors.New("the embedded NATS server has no port (DOORBELL_NATS_LISTEN is off)"), "give it one, or set NATS_URL")
	}
	dial.URL = "nats://" + c.Base.NATSListen
	if s, err := c.Base.client().Status(ctx); err == nil && s.NATS.URL != "" {
		dial.URL = s.NATS.URL
	}
	return dial, nil
}
