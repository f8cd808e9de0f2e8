package natsd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server that met a full disk answers no publish, even when there is space again, until it is
// restarted. The server's own health check knows of failed writes.

// Status is the state of the server at the last check of Run.
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

var errDown = errors.New("the server is not running")

// illChecks is after how many intervals between two checks an ill server is restarted. A stream
// that is being made has a folder and does not exist yet, on a slow disk for seconds: that is no
// illness.
const illChecks = 4

// Run checks the server until ctx ends, and then returns nil. A server that stays ill is restarted
// if the disk has space. Run returns an error only when the server neither works nor ends, and a
// new process is needed.
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

// restartEvery is the least time between two restarts: one that did not help disturbs guests.
const restartEvery = 5 * time.Minute

// RunOnce checks once, and restarts the server if that is due. It returns nil if the server works,
// or works again. Neither it nor Run may be called while one of them runs.
func (s *Server) RunOnce(ctx context.Context) error {
	err := s.check()
	if err != nil && ctx.Err() == nil {
		since, full := s.Status().Since, s.space()
		switch {
		case full != nil: // a restart would not help
			err = full
		case !since.IsZero() && time.Since(since) >= illChecks*s.options.CheckEvery &&
			time.Since(s.restarted) >= restartEvery:
			s.restarted = time.Now()
			s.options.Logger.Warn("embedded NATS server is restarted", "why", err.Error())
			if err = s.Restart(ctx); err == nil {
				s.mu.Lock()
				s.status.Restarts++
				s.mu.Unlock()
				err = s.check()
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.note(err)
}

// note remembers the outcome of a check, and logs when it changes. It returns the outcome.
func (s *Server) note(err error) error {
	s.mu.Lock()
	was := s.status
	switch {
	case err == nil:
		s.status.Problem, s.status.Since = "", time.Time{}
	case was.Problem == "":
		s.status.Problem, s.status.Since = err.Error(), time.Now()
	default:
		s.status.Problem = err.Error()
	}
	s.mu.Unlock()
	switch {
	case err != nil && was.Problem == "":
		s.options.Logger.Error("embedded NATS server accepts no events; they wait in the log",
			"err", err.Error())
	case err == nil && was.Problem != "":
		s.options.Logger.Info("embedded NATS server works again",
			"after", time.Since(was.Since).Round(time.Second).String())
	}
	return err
}

// check returns nil if the server reports that it is healthy.
func (s *Server) check() error {
	inner := s.current()
	if inner == nil {
		return errDown
	}
	if h := inner.Healthz(&server.HealthzOptions{}); h.StatusCode != 200 {
		return fmt.Errorf("the server's own health check says: %d %s", h.StatusCode, h.Error)
	}
	return nil
}

// leastSpace is what has to be free before a restart is tried: the server writes the state of its
// streams when it ends.
const leastSpace = 1 << 20

// space returns an error if the disk is full.
func (s *Server) space() error {
	var d syscall.Statfs_t
	if err := syscall.Statfs(s.options.StoreDir, &d); err == nil &&
		d.Bavail*uint64(d.Bsize) < leastSpace {
		return fmt.Errorf("nothing can be written to %s: %w", s.options.StoreDir, syscall.ENOSPC)
	}
	return nil
}
