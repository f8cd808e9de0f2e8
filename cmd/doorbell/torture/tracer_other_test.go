//go:build !linux || !amd64

package torture

import (
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"
)

// tracer strikes at system calls where it knows the registers.
type tracer struct {
	below      string
	at, times  int
	errno      syscall.Errno
	slow       atomic.Int64
	every      bool
	pid, calls int
	struck     int
	names      []string
	hit, gone  chan struct{}
	status     syscall.WaitStatus
}

func (t *tracer) run([]string, io.Writer, string, ...string) error {
	return fmt.Errorf("system calls are struck on Linux on amd64 only: %w", syscall.ENOSYS)
}

const clocksCanBeSet = false

func setClock(time.Duration) error { return syscall.ENOSYS }
