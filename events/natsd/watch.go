package natsd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server that met a full disk answers no publish any more, also when there is space again, until it is restarted; other faults of a
// disk do the same. The server's own health check knows of failed writes.

// Status is how the server stood when Run checked last.
type Status struct {
	Problem  string    // in words; empty: it takes writes
	Since    time.Time // of the problem
	Restarts int       // by Run, since Start
}

// Status never waits.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

var (
	errDown   = errors.New("the server is not running")
	errStuck  = errors.New("the server does not answer")
	errNoRoom = errors.New("nothing can be written")
)

// illChecks is after how many intervals between two checks a server that is ill is restarted. A stream that is being made has a folder
// and does not exist yet, on a slow disk for seconds: that is no illness.
const illChecks = 4

// Run checks the server until ctx ends, and then returns nil: one that stays ill is restarted, if there is space to write. It returns
// an error only when the server neither works nor ends, and a new process is needed.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(s.options.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.RunOnce(ctx); errors.Is(err, ErrWillNotEnd) {
			return fmt.Errorf("embedded NATS server: %w", err)
		}
	}
}

// RunOnce checks once, and restarts the server if that is due. It is nil if the server works, or works again. Neither it nor
// Run may be called while one of them runs.
func (s *Server) RunOnce(ctx context.Context) error {
	err := s.check(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		s.setHealthy()
		return nil
	}
	if full := s.tryToWrite(ctx); full != nil {
		err = full
	}
	begins := s.setProblem(err)
	if ill := time.Since(s.Status().Since); !errors.Is(err, errNoRoom) && ill >= illChecks*s.options.CheckEvery && s.backoff.due(time.Now()) {
		return s.restartFor(ctx, err)
	}
	if begins {
		s.options.Logger.Error("embedded NATS server takes no events; they wait in the log", "err", err.Error())
	}
	return err
}

// restartFor restarts a server that does not work.
func (s *Server) restartFor(ctx context.Context, why error) error {
	s.backoff.used(time.Now())
	s.options.Logger.Warn("embedded NATS server is restarted", "why", why.Error())
	if err := s.Restart(ctx); err != nil {
		if ctx.Err() == nil {
			s.setProblem(err)
		}
		return err
	}
	s.mu.Lock()
	s.status.Restarts++
	s.mu.Unlock()
	if err := s.check(ctx); err != nil {
		return err // the next check tells it
	}
	s.setHealthy()
	return nil
}

// setHealthy notes that the server works.
func (s *Server) setHealthy() {
	now := time.Now()
	s.backoff.worked(now)
	s.mu.Lock()
	was, runs := s.status, now.Sub(s.booted)
	s.status.Problem, s.status.Since = "", time.Time{}
	s.mu.Unlock()
	if runs > healthyFor {
		if err := s.unmark(); err != nil {
			s.options.Logger.Warn("the start counts as failed", "err", err.Error())
		}
	}
	if was.Problem != "" {
		s.options.Logger.Info("embedded NATS server works again", "after", now.Sub(was.Since).Round(time.Second).String())
	}
}

// setProblem notes that it does not, and reports whether it did before.
func (s *Server) setProblem(err error) (begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins = s.status.Problem == ""; begins {
		s.status.Since = time.Now()
	}
	s.status.Problem = err.Error()
	return begins
}

// check is nil if the server says that it is healthy. It waits for that for StuckAfter.
func (s *Server) check(ctx context.Context) error {
	inner := s.current()
	if inner == nil {
		return errDown
	}
	found := make(chan error, 1)
	go func() { // it may wait for a lock that is never given back: then it is left behind
		s.measure(inner)
		found <- health(inner)
	}()
	select {
	case err := <-found:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.options.StuckAfter):
		return errStuck
	}
}

// health is what the server says of itself.
func health(inner *server.Server) error {
	h := inner.Healthz(&server.HealthzOptions{})
	if h.StatusCode != 200 {
		return fmt.Errorf("the server's own health check says: %d %s", h.StatusCode, h.Error)
	}
	return nil
}

// tryToWrite says whether there is space: before there is, a restart would only do harm.
func (s *Server) tryToWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.StuckAfter)
	defer cancel()
	tried := make(chan error, 1)
	go func() { tried <- writeTo(s.options.StoreDir) }()
	err := errStuck
	select {
	case err = <-tried:
	case <-ctx.Done():
	}
	if err != nil {
		return fmt.Errorf("%w to %s: %w", errNoRoom, s.options.StoreDir, err)
	}
	return nil
}

func writeTo(folder string) error {
	path := filepath.Join(folder, ".space")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, leastSpace))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(path))
}

// leastSpace is what has to be free before a restart is tried: the server writes the state of its streams when it ends.
const leastSpace = 1 << 20

// backoff spaces restarts: each that follows another one waits twice as long as that.
type backoff struct {
	next time.Time
	gap  time.Duration
}

// Bounds of the gap between restarts. What a restart does not cure is tried once an hour; one that worked at least for a
// while, as with a disk that is full again and again, is tried again within four minutes.
const (
	leastGap    = 15 * time.Second
	longestGap  = time.Hour
	longestWell = 4 * time.Minute
	calmAfter   = 10 * time.Minute // without a problem: the next one is a new one
)

func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

func (b *backoff) used(now time.Time) {
	b.gap = min(max(2*b.gap, leastGap), longestGap)
	b.next = now.Add(b.gap)
}

// worked notes a check that found nothing wrong.
func (b *backoff) worked(now time.Time) {
	if b.gap = min(b.gap, longestWell); now.Sub(b.next) > calmAfter {
		b.gap = 0
	}
	if latest := now.Add(b.gap); b.next.After(latest) {
		b.next = latest
	}
}
