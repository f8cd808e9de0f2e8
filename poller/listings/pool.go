package listings

import (
	"net/url"
	"slices"
	"time"
)

// reapEvery is how often connections are closed that were idle all the time since the last look.
const reapEvery = 45 * time.Second

// take returns a connection that was kept, ready for a request, or nil. One that has something to say though nobody asked,
// or that has hung up, is none.
func (t *Transport) take(to *url.URL, p passage) *conn {
	for {
		c := t.pop(to)
		if c == nil || c.begin(p) == nil && c.quiet() {
			return c
		}
		c.close()
	}
}

// pop takes the connection to a host that was used last: what is not needed at all gets old and is closed.
func (t *Transport) pop(to *url.URL) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, c := range slices.Backward(t.idle) {
		if c.host == to.Host && c.scheme == to.Scheme {
			t.idle = slices.Delete(t.idle, n, n+1)
			return c
		}
	}
	return nil
}

// keep takes a connection back.
func (t *Transport) keep(c *conn) {
	t.mu.Lock()
	full := len(t.idle) >= mostIdle
	if !full {
		c.round = t.round
		t.idle = append(t.idle, c)
		if t.reaper == nil {
			t.reaper = time.AfterFunc(reapEvery, t.reap)
		}
	}
	t.mu.Unlock()
	if full {
		c.close()
	}
}

// reap closes what was not used since the last time, and comes again as long as something is left.
func (t *Transport) reap() {
	t.mu.Lock()
	old := t.idle
	t.idle = nil
	for _, c := range old {
		if c.round == t.round {
			t.idle = append(t.idle, c)
		}
	}
	old = slices.DeleteFunc(old, func(c *conn) bool { return c.round == t.round })
	t.round++
	if t.reaper = nil; len(t.idle) > 0 {
		t.reaper = time.AfterFunc(reapEvery, t.reap)
	}
	t.mu.Unlock()
	closeAll(old)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	old := t.idle
	t.idle = nil
	if t.reaper != nil {
		t.reaper.Stop()
		t.reaper = nil
	}
	t.mu.Unlock()
	closeAll(old)
}

func closeAll(all []*conn) {
	for _, c := range all {
		c.close()
	}
}
