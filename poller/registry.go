package poller

import (
	"sync/atomic"
	"time"

	"doorbell/poller/watch"
)

// keyBackoff is what a key waits for, by its fingerprint.
func (p *Poller) keyBackoff(name string) *backoff {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[name] == nil {
		p.keys[name] = newBackoff(time.Second, watch.LongestKeyWait)
	}
	return p.keys[name]
}

// heartbeats say when the loops of Run turned last.
type heartbeats struct {
	polls     heartbeat // takes what is next from the schedule; turns once a minute at least
	staleness heartbeat // checks for silence, once a minute
}

// heartbeat is the last one of a loop.
type heartbeat struct{ at atomic.Int64 }

func (h *heartbeat) beat() { h.at.Store(time.Now().UnixNano()) }

func (h *heartbeat) last() time.Time {
	if at := h.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
