package natsd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// probeAccount holds the stream of the pulse. Guests cannot see it.
const (
	probeAccount = "PULSE"
	pulseStream  = "PULSE"
)

var (
	errDown  = errors.New("the server is not running")
	errLimit = errors.New("the limit of JetStream is reached")
)

// pulse is the connection on which the server is asked to write.
type pulse struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// enter connects to the server, if that has not been done, and keeps the connection while this server runs.
func (s *Server) enter(p *pulse, inner *server.Server) error {
	if p.nc != nil {
		return nil
	}
	// A machine under load takes its time here as well.
	nc, err := nats.Connect("", nats.InProcessServer(inner), nats.UserInfo(pulseUser, s.password), nats.NoReconnect(),
		nats.Timeout(s.options.StuckAfter), nats.Name("pulse"))
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
	s.pulse = p
	return nil
}

// beat writes one message, and makes the stream for it if it is not there. The channel gets one value.
func (p *pulse) beat(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.js.Publish(ctx, pulseStream, nil)
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			if err = p.make(ctx); err == nil {
				_, err = p.js.Publish(ctx, pulseStream, nil)
			}
		}
		done <- p.judge(err)
	}()
	return done
}

func (p *pulse) make(ctx context.Context) error {
	_, err := p.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: pulseStream, Subjects: []string{pulseStream}, MaxMsgs: 1, Discard: jetstream.DiscardOld, Duplicates: 0,
		Description: "written to see whether writes work",
	})
	return err
}

// judge tells a server that refuses for want of room under its own limit, which no restart changes, from one that is broken.
func (p *pulse) judge(err error) error {
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
