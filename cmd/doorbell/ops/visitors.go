package ops

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// visitors bounds the connections of a server. When there are too many, one that asks nothing gives way, the oldest first, and
// where all ask, the one that was let in first: so who holds connections open, sends a request a byte at a time, or asks and does
// not read, keeps out nobody else, least of all a probe.
type visitors struct {
	net.Listener
	most int

	mu    sync.Mutex
	all   map[net.Conn]time.Time // since when
	quiet map[net.Conn]time.Time // of them those that ask nothing, or have their answer, and since when
}

func newVisitors(l net.Listener, most int) *visitors {
	return &visitors{Listener: l, most: most, all: map[net.Conn]time.Time{}, quiet: map[net.Conn]time.Time{}}
}

// Accept waits for a visitor, and makes a place.
func (v *visitors) Accept() (net.Conn, error) {
	c, err := v.Listener.Accept()
	if err == nil {
		v.admit(c)
	}
	return c, err
}

func (v *visitors) admit(c net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.all) >= v.most {
		leaves := oldest(v.quiet)
		if leaves == nil {
			leaves = oldest(v.all)
		}
		v.forget(leaves)
		leaves.Close()
	}
	now := time.Now()
	v.all[c], v.quiet[c] = now, now
}

func oldest(of map[net.Conn]time.Time) (oldest net.Conn) {
	for c, since := range of {
		if oldest == nil || since.Before(of[oldest]) {
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
