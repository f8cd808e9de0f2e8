package natsd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// probeAccount holds the stream of the write probe. Guests cannot see it.
const (
	probeAccount = "PULSE"
	probeStream  = "PULSE"
)

var (
	errDown  = errors.New("the server is not running")
	errLimit = errors.New("the limit of JetStream is reached")
)

// writeProbe is the connection on which the server is asked to write.
type writeProbe struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// connectProbe connects to the server, if that has not been done, and keeps the connection while this server runs.
func (s *Server) connectProbe(p *writeProbe, inner *server.Server) error {
	if p.nc != nil {
		return nil
	}
	// A machine under load takes its time here as well.
	nc, err := nats.Connect("", nats.InProcessServer(inner), nats.UserInfo(probeUser, s.password), nats.NoReconnect(),
		nats.Timeout(s.options.StuckAfter), nats.Name("probe"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return err
	}
	p.nc, p.js = nc, js
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != inner {
		nc.Close()
		return errDown
	}
	s.writeProbe = p
	return nil
}

// write writes one message, and makes the stream for it if it is not there. The channel gets one value.
func (p *writeProbe) write(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.js.Publish(ctx, probeStream, nil)
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			if err = p.makeStream(ctx); err == nil {
				_, err = p.js.Publish(ctx, probeStream, nil)
			}
		}
		done <- classify(err)
	}()
	return done
}

func (p *writeProbe) makeStream(ctx context.Context) error {
	_, err := p.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: probeStream, Subjects: []string{probeStream}, MaxMsgs: 1, Discard: jetstream.DiscardOld, Duplicates: 0,
		Description: "written to see whether writes work",
	})
	return err
}

// classify tells a server that refuses for want of room under its own limit, which no restart changes, from one that is broken.
func classify(err error) error {
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && (refused.ErrorCode == 10023 || refused.ErrorCode == 10047 || refused.ErrorCode == 10077):
		return fmt.Errorf("%w: %w", errLimit, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return errStuck
	}
	return fmt.Errorf("write: %w", err)
}

// health is what the server says of itself.
func health(inner *server.Server) error {
	h := inner.Healthz(&server.HealthzOptions{})
	if h.StatusCode != 200 {
		return fmt.Errorf("%w: %d %s", errIll, h.StatusCode, h.Error)
	}
	return nil
}
