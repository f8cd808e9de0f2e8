package relay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// Prepare looks what the stream holds of agencies and takes over what the log does not have, before anybody goes on to write
// the log. It waits for the connection until ctx ends.
//
// Of every agency decided, which may be nil, is told as soon as it is done, or why it is not: each for itself, from any
// goroutine. Nothing is wrong then: the relay does the same later, with what has been written in between. Only a server that
// answers for nobody ends it for all. The error is the first of them.
func (r *Relay) Prepare(ctx context.Context, agencies []string, decided func(agency string, err error)) error {
	s, down := r.check(ctx)
	for errors.Is(down, ErrNotConnected) && sleep(ctx, 20*time.Millisecond, nil) {
		s, down = r.check(ctx)
	}
	if decided == nil {
		decided = func(string, error) {}
	}
	var unanswered atomic.Int32 // since the last answer
	var g errgroup.Group
	g.SetLimit(inFlight)
	for _, a := range agencies {
		g.Go(func() error {
			err := down
			if err == nil && unanswered.Load() >= inFlight {
				err = ErrNoAnswer
			}
			if err == nil {
				if err = r.prepare(ctx, s, a); noAnswer(err) {
					unanswered.Add(1)
				} else {
					unanswered.Store(0)
				}
			}
			if err != nil {
				err = fmt.Errorf("relay: %w", err)
			}
			decided(a, err)
			return err
		})
	}
	return g.Wait()
}

// ErrNoAnswer: the server has answered for none of the agencies before.
var ErrNoAnswer = errors.New("the NATS server does not answer")

// noAnswer tells a server that is away from one that says what is wrong.
func noAnswer(err error) bool {
	return err != nil && (classify(err) == classGone || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded))
}

func (r *Relay) prepare(ctx context.Context, s session, agency string) error {
	l, _ := r.lane(agency)
	defer l.lock()()
	if err := l.verify(ctx); err != nil {
		l.doubt = true
		return err
	}
	l.doubt, l.verified = false, s.number
	return nil
}
