package poller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"doorbell/poller/watch"
)

// registry is who is watched. Once in use it is replaced as a whole and never changed, so that it can be read at any time.
type registry struct {
	byID  map[string]*agency
	order []*agency // of the configuration
}

func newRegistry(size int) *registry { return &registry{byID: make(map[string]*agency, size)} }

func (r *registry) add(a *agency) {
	r.byID[a.id] = a
	r.order = append(r.order, a)
}

// accepts says why another list cannot follow.
func (r *registry) accepts(list []AgencyKeys) error {
	named := make(map[string]bool, len(list))
	stay := 0
	for _, k := range list {
		if named[k.ID] {
			return fmt.Errorf("agency %s is named twice", k.ID)
		}
		named[k.ID] = true
		if r.byID[k.ID] != nil {
			stay++
		}
	}
	if stay == 0 && len(r.order) > 0 {
		return ErrRetiresAll
	}
	return nil
}

// agency returns a watched agency, nil if it is not watched.
func (p *Poller) agency(id string) *agency { return p.registry.Load().byID[id] }

// watched returns the watched agencies in the order of the configuration.
func (p *Poller) watched() []*agency { return p.registry.Load().order }

// markAllDirty notes that failures that agencies share have changed: each of them may have written it down.
func (p *Poller) markAllDirty(names ...failureName) {
	for _, a := range p.watched() {
		for _, n := range names {
			a.markDirty(n.scope, n.name)
		}
	}
}

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
type heartbeat struct{ at atomic.Pointer[time.Time] }

func (h *heartbeat) beat() {
	now := time.Now()
	h.at.Store(&now)
}

func (h *heartbeat) last() time.Time {
	if at := h.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ErrRetiresAll is returned by SetAgencies when none of the agencies that are watched would stay. That is rather a
// mistake than a wish; a restart does it.
var ErrRetiresAll = errors.New("none of the watched agencies is left")
