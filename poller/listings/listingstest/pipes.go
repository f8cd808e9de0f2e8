package listingstest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Pipes is a listener without a network, so that waiting for it counts as waiting in a bubble.
type Pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

// Serve serves on pipes until the end of the test.
func Serve(t testing.TB, h http.Handler) *Pipes {
	p := NewPipes()
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(p) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return p
}

// Dial is for http.Transport.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accepted <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
