package cli

import (
	"context"
	"errors"
	"log/slog"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/events/natsd"
	"doorbell/events/stream"
)

// connectStream connects to the NATS that holds the stream: the configured one, or that of the
// daemon in the data directory.
func connectStream(ctx context.Context, c *config.Config) (nc stream.Conn, err error) {
	nc, _, err = dialStream(ctx, c, discardLog())
	if err != nil {
		return nc, err
	}
	if !options.Connected(ctx, nc.Conn) {
		defer nc.Close()
		return nc, exit.Failed(stream.Explain(nc, stream.ErrNotConnected), "start doorbell run, or check NATS_URL and the other NATS_* settings")
	}
	return nc, nil
}

// dialStream connects to the NATS that holds the stream, which need not be there yet, and says
// where that is.
func dialStream(ctx context.Context, c *config.Config, log *slog.Logger) (conn stream.Conn, url string, err error) {
	dial, err := streamServer(ctx, c)
	if err != nil {
		return conn, "", err
	}
	conn, err = daemon.Connect(dial, log.With("part", "nats"))
	if err != nil {
		return conn, "", exit.Config(err, "check the NATS_* settings")
	}
	return conn, dial.URL, nil
}

// streamServer is the configured server, or that of the daemon in the data directory.
func streamServer(ctx context.Context, c *config.Config) (natsd.Dial, error) {
	dial := options.NATS(c.NATS)
	if dial.URL != "" {
		return dial, nil
	}
	if c.Base.NATSListen == "off" {
		return dial, exit.Failed(errors.New("the embedded NATS server has no port (DOORBELL_NATS_LISTEN is off)"), "give it one, or set NATS_URL")
	}
	dial.URL = "nats://" + c.Base.NATSListen
	if s, err := options.Client(c.Base).Status(ctx); err == nil && s.NATS.URL != "" {
		dial.URL = s.NATS.URL
	}
	return dial, nil
}
