package poller

import (
	"sync/atomic"
	"time"
)

// heartbeats say when the loops of Run turned last.
type heartbeats struct {
	polls     heartbeat // takes what is next from the schedule; turns once a minute at least
	staleness heartbeat // checks for silence, once a minute
}

// heartbeat is the last one of a loop.
type heartbeat struct{ at atomic.Pointer[time.Time] }

func (h *heartbeat) beat() {
	now := time.Now() // with its monotonic reading: the wall clock may be set
	h.at.Store(&now)
}

func (h *heartbeat) last() time.Time {
	if at := h.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}
