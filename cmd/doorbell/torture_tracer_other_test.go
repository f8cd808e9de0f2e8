//go:build !linux || !amd64

package main

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// tracer strikes at system calls where it knows the registers.
type tracer struct {
	below      string
	at, times  int
	errno      syscall.Errno
	slow       time.Duration
	pid, calls int
	struck     int
	names      []string
	gone       chan struct{}
	status     syscall.WaitStatus
}

func (t *tracer) run([]string, io.Writer, string, ...string) error {
	return errors.New("system calls are struck on Linux on amd64 only")
}
