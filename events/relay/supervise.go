package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// newRetry is the back-off of everything here: without an end.
func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(30*time.Second),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
}

// sleep waits for d or a wake-up; it is false if ctx ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// session is a check of server and stream that found both usable. Each has a number: workers reconcile once per session.
type session struct {
	usable
	number    uint64
	connected context.Context // ends when the connection is lost: an answer under way will not come
}

// link is the connection state that workers wait for: open while the last check was good.
type link struct {
	mu        sync.Mutex
	opened    chan struct{} // closed while open
	session   session
	isOpen    bool
	problem   string
	suspected chan struct{} // a worker has doubts; capacity 1

	connected  context.Context
	disconnect context.CancelFunc
}

func newLink() *link {
	k := &link{opened: make(chan struct{}), suspected: make(chan struct{}, 1)}
	k.connected, k.disconnect = context.WithCancel(context.Background())
	return k
}

// wait returns the session of an open link; it is false if ctx ended.
func (k *link) wait(ctx context.Context) (session, bool) {
	for {
		k.mu.Lock()
		s, open, opened := k.session, k.isOpen, k.opened
		k.mu.Unlock()
		if open {
			return s, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return session{}, false
		case <-opened:
		}
	}
}

// open begins a new session.
func (k *link) open(u usable) session {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.connected.Err() != nil {
		k.connected, k.disconnect = context.WithCancel(context.Background())
	}
	k.session = session{usable: u, number: k.session.number + 1, connected: k.connected}
	k.problem = ""
	if !k.isOpen {
		k.isOpen = true
		close(k.opened)
	}
	return k.session
}

func (k *link) isUsable() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isOpen
}

// shut ends the session for everybody.
func (k *link) shut(problem string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shutLocked(problem)
}

func (k *link) shutLocked(problem string) {
	k.problem = problem
	if k.isOpen {
		k.isOpen = false
		k.opened = make(chan struct{})
	}
}

// lost shuts the link and ends what waits for an answer.
func (k *link) lost(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shutLocked(err.Error())
	k.disconnect()
}

// suspect shuts the link and asks for a new check, unless there was one since the session began.
func (k *link) suspect(s session, problem string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.session.number != s.number {
		return
	}
	k.shutLocked(problem)
	poke(k.suspected)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// supervise opens and shuts the link, starts a worker for each agency, and wakes them when there is something to do.
func (r *Relay) supervise(ctx context.Context, g *errgroup.Group) error {
	status := r.o.Conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer r.o.Conn.RemoveStatusListener(status)
	hourly, alive := time.NewTicker(r.o.ReconcileEvery), time.NewTicker(time.Minute)
	defer hourly.Stop()
	defer alive.Stop()
	retry, again := newRetry(), time.NewTimer(time.Hour)
	defer again.Stop()
	poke(r.link.suspected) // the first check is made at once
	r.o.Log.OnAppend(r.appended)
	said := ""
	for {
		r.turn()
		check, poked := true, true
		select {
		case <-ctx.Done():
			return nil
		case <-alive.C:
			if r.link.isUsable() {
				continue
			}
		case <-r.begun:
			check, poked = false, false
		case <-r.link.suspected:
		case <-hourly.C:
			said = "" // what goes on is said again
		case <-again.C:
		case s := <-status:
			retry.Reset()
			check = s == nats.CONNECTED
			if !check {
				r.link.lost(stream.Explain(r.o.Conn, ErrNotConnected))
			}
		}
		if r.o.Conn.IsClosed() {
			return ErrClosed
		}
		if check {
			_, err := r.check(ctx)
			switch {
			case err == nil:
				if said != "" {
					r.o.Logger.Info("server and stream can be used again")
				}
				said = ""
				retry.Reset()
			case errors.Is(err, ErrLog):
				return err
			default:
				again.Reset(retry.NextBackOff())
				if err.Error() != said && ctx.Err() == nil {
					said = err.Error()
					r.o.Logger.Error("events wait in the log", "err", said)
				}
			}
		}
		if err := r.wake(ctx, g, poked); err != nil {
			return err
		}
	}
}

// turn notes that the supervisor is not stuck.
func (r *Relay) turn() {
	now := time.Now()
	r.turned.Store(&now)
}

// wake starts the workers of new agencies and pokes all, if wanted.
func (r *Relay) wake(ctx context.Context, g *errgroup.Group, all bool) error {
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	for _, a := range agencies {
		l := r.worker(a)
		r.mu.Lock()
		running := l.running
		l.running = true
		r.mu.Unlock()
		if !running {
			g.Go(func() error {
				defer func() {
					r.mu.Lock()
					l.running = false // Run may be called again, as after a full disk
					r.mu.Unlock()
				}()
				return l.run(ctx)
			})
		}
		if all {
			poke(l.poked)
		}
	}
	return nil
}

// check asks whether connection, server and stream are usable, makes or changes the stream where it may, and opens the link or shuts it.
func (r *Relay) check(ctx context.Context) (session, error) {
	u, err := r.inspect(ctx)
	if err != nil {
		err = r.explain(err)
		r.link.shut(err.Error())
		return session{}, err
	}
	s := r.link.open(u)
	if s.number == 1 && !s.atomic {
		r.o.Logger.Warn("the stream takes no atomic batches: events are published one by one", "stream", r.o.Stream)
	}
	return s, nil
}
