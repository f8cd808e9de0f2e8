package ops

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// visitors bounds the connections of a server. When there are too many, one that asks nothing gives way, the oldest first: so
// who holds connections open, or sends a request a byte at a time, keeps out nobody else, least of all a probe.
type visitors struct {
	net.Listener
	most int

	mu    sync.Mutex
	all   map[net.Conn]struct{}
	quiet map[net.Conn]time.Time // of them those that ask nothing, or have their answer, and since when
}

func newVisitors(l net.Listener, most int) *visitors {
	return &visitors{Listener: l, most: most, all: map[net.Conn]struct{}{}, quiet: map[net.Conn]time.Time{}}
}

// Accept waits for a visitor for whom there is a place.
func (v *visitors) Accept() (net.Conn, error) {
	for {
		c, err := v.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if v.admit(c) {
			return c, nil
		}
		c.Close()
	}
}

func (v *visitors) admit(c net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.all) >= v.most {
		oldest := v.oldest()
		if oldest == nil {
			return false
		}
		v.forget(oldest)
		oldest.Close()
	}
	v.all[c], v.quiet[c] = struct{}{}, time.Now()
	return true
}

func (v *visitors) oldest() (oldest net.Conn) {
	for c, since := range v.quiet {
		if oldest == nil || since.Before(v.quiet[oldest]) {
			oldest = c
		}
	}
	return oldest
}

func (v *visitors) forget(c net.Conn) {
	delete(v.all, c)
	delete(v.quiet, c)
}

// changed is the server's ConnState hook. A connection is active when the header of a request was read whole.
func (v *visitors) changed(c net.Conn, state http.ConnState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.all[c]; !known {
		return
	}
	switch state {
	case http.StateIdle:
		v.quiet[c] = time.Now()
	case http.StateActive:
		delete(v.quiet, c)
	case http.StateHijacked, http.StateClosed:
		v.forget(c)
	}
}

// seenOff lets who sends a body give way as soon as the answer is there: the server would wait for what is left of the body.
func (v *visitors) seenOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.ContentLength != 0 {
			v.changed(c, http.StateIdle)
		}
	})
}

type connKey struct{}

// withConn is the server's ConnContext hook.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
