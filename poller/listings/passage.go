package listings

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"
)

// passage is what bounds one round trip.
type passage struct {
	ctx   context.Context // that ends it, but for its time
	sent  time.Time
	until time.Time // all of it must have come
	over  *limit    // nil: somebody else than a Client asks
}

// passageOf is that of a request.
func passageOf(r *http.Request, timeout time.Duration) passage {
	ctx := r.Context()
	if l, ok := ctx.Value(limitKey{}).(*limit); ok {
		return passage{ctx: l.Context, sent: l.sent, until: l.until, over: l}
	}
	p := passage{ctx: ctx, sent: time.Now()}
	p.until = p.sent.Add(timeout)
	if until, ok := ctx.Deadline(); ok && until.Before(p.until) {
		p.until = until
	}
	return p
}

// header is when the header must have come.
func (p passage) header() time.Time { return p.sent.Add(headerOf(p.until.Sub(p.sent))) }

// headerOf is how much of a request's time may pass before its answer has begun and its header ended: nearly all of it, for an API
// that takes its time sends the body at once. Half a second is left for that.
func headerOf(whole time.Duration) time.Duration { return whole - min(time.Second/2, whole/10) }

// again is asked before a request is sent once more.
func (p passage) again() error {
	if p.over == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(p.ctx, p.until)
	defer cancel()
	return p.over.again(ctx)
}

// ended is the error of a round trip: its context's, if that ended it.
func (p passage) ended(err error) error {
	if ended := p.ctx.Err(); ended != nil {
		return ended
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// limit is the context of one request of a Client: it ends with the caller's, or when the request takes too long. Our own
// transport asks it for no more than what bounds it. Only for others does it begin to be a context that ends, with a timer
// and a trace, which cost more than all else that a request takes of us.
type limit struct {
	context.Context // the caller's
	client          *Client
	request         Request
	sent, until     time.Time

	mu     sync.Mutex
	inner  context.Context // nil: nobody wanted it
	cancel context.CancelFunc
	lifted bool
}

type limitKey struct{}

// again is asked before the request is sent once more.
func (l *limit) again(ctx context.Context) error { return l.client.o.Again(ctx, l.request) }

// Deadline implements context.Context.
func (l *limit) Deadline() (time.Time, bool) { return l.full().Deadline() }

// Done implements context.Context.
func (l *limit) Done() <-chan struct{} { return l.full().Done() }

// Err implements context.Context.
func (l *limit) Err() error { return l.full().Err() }

// Value implements context.Context.
func (l *limit) Value(key any) any {
	if _, ok := key.(limitKey); ok {
		return l
	}
	return l.full().Value(key)
}

// full is the context that others want.
func (l *limit) full() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner == nil {
		l.inner, l.cancel = context.WithDeadline(l.Context, l.until)
		l.inner = l.watchResends(l.inner, l.cancel)
		if l.lifted {
			l.cancel()
		}
	}
	return l.inner
}

// watchResends notices when a transport sends a request once more, as it does where a connection that was kept open turns
// out to be gone: the API may have seen the first one.
func (l *limit) watchResends(ctx context.Context, cancel context.CancelFunc) context.Context {
	first := true
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if !first && l.again(ctx) != nil {
			cancel()
		}
		first = false
	}})
}

// lift ends the context, after the request.
func (l *limit) lift() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lifted = true; l.cancel != nil {
		l.cancel()
	}
}
