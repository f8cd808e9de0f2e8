package listings

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// TransportOptions of NewTransport. Zero values mean the defaults that stand beside them.
type TransportOptions struct {
	Timeout time.Duration // 30 s; for a whole request, body included

	// Dial opens a connection. Default: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	tls *tls.Config // what else the handshake is to know; nil: nothing
}

// What a Transport is bounded by.
const (
	mostUnderWay    = 256 // requests at once; more than are ever needed, because what waits here waits after the budget
	mostIdle        = 64  // connections that are kept
	mostHeader      = 64 << 10
	mostInterims    = 5 // 1xx answers before one that counts
	connectWithin   = 10 * time.Second
	handshakeWithin = 10 * time.Second
)

// Transport asks over HTTP/1.1 for a Client: GET requests without a body, over connections that it keeps open. Where an
// http.Transport has two goroutines for each connection, here who asks writes the request and reads the answer, which
// costs a third of it. Over TLS it offers nothing but HTTP/1.1: that costs half of HTTP/2, servers that speak only the
// latter are all but unknown, and one is told in so many words. It follows no redirect and knows no proxy.
//
// A request ends with its context, or when its time is over. One whose connection turns out to be gone, before a byte of
// the answer came, is sent once more, over a new connection. Bodies must be closed and are for one goroutine. Safe for
// concurrent use.
type Transport struct {
	o      TransportOptions
	tls    *tls.Config
	places chan struct{} // of requests under way

	mu     sync.Mutex
	idle   []*conn // the one that was used last is the last
	round  int     // of the reaper
	reaper *time.Timer
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport makes a transport. It opens no connection.
func NewTransport(o TransportOptions) *Transport {
	o.Timeout = cmp.Or(max(o.Timeout, 0), defaultTimeout)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	t := &Transport{o: o, tls: o.tls.Clone(), places: make(chan struct{}, mostUnderWay)}
	if t.tls == nil {
		t.tls = &tls.Config{}
	}
	t.tls.MinVersion, t.tls.NextProtos = tls.VersionTLS12, []string{protocol}
	return t
}

// protocol is what we speak, as TLS knows it.
const protocol = "http/1.1"

var errNotAsked = errors.New("only GET requests without a body are sent")

// RoundTrip sends a request and returns its answer, or an error of the network, of TLS or of the context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil || r.Method != http.MethodGet && r.Method != "" {
		return nil, errNotAsked
	}
	p := passageOf(r, t.o.Timeout)
	if err := t.enter(p); err != nil {
		return nil, p.ended(err)
	}
	resp, err := t.ask(r, p)
	if err != nil {
		<-t.places
		return nil, p.ended(err)
	}
	return resp, nil
}

// enter waits for a place among the requests under way. Who gets an answer leaves with the end of its body.
func (t *Transport) enter(p passage) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	select {
	case t.places <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithDeadline(p.ctx, p.until)
	defer cancel()
	select {
	case t.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask makes the round trip over a connection that was kept, or else over a new one.
func (t *Transport) ask(r *http.Request, p passage) (*http.Response, error) {
	c := t.take(r.URL, p)
	if c != nil {
		resp, err := c.exchange(r, p)
		if err == nil {
			return resp, nil
		}
		c.close()
		if c.heard || isTimeout(err) || p.ctx.Err() != nil || p.again() != nil {
			return nil, err
		}
	}
	c, err := t.connect(r.URL, p)
	if err != nil {
		return nil, err
	}
	p.sent = time.Now()
	var resp *http.Response
	if err = c.begin(p); err == nil {
		resp, err = c.exchange(r, p)
	}
	if err != nil {
		c.close()
	}
	return resp, err
}

// connect opens a connection.
func (t *Transport) connect(to *url.URL, p passage) (*conn, error) {
	ctx, cancel := context.WithDeadline(p.ctx, p.until)
	defer cancel()
	dialing, stop := context.WithTimeout(ctx, connectWithin)
	defer stop()
	nc, err := t.o.Dial(dialing, "tcp", addressOf(to))
	if err != nil {
		return nil, err
	}
	c := newConn(t, to, nc)
	if to.Scheme == "http" {
		return c, nil
	}
	shaking, stop := context.WithTimeout(ctx, handshakeWithin)
	defer stop()
	if err := c.secure(shaking, t.tls, to.Hostname()); err != nil {
		return nil, err
	}
	return c, nil
}

func addressOf(to *url.URL) string {
	port := "443"
	if to.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), port))
}
