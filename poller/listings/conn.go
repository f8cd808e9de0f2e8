package listings

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// conn is a connection to the API. Who has taken it has it alone, until the body of the answer is read or closed.
type conn struct {
	t            *Transport
	scheme, host string
	nc           net.Conn // under TLS where there is some
	in           *bufio.Reader
	out          []byte
	socket       *socket // nil: it is none, as in tests
	left         int64   // how much may still be read
	heard        bool    // a byte of this answer
	late         error   // the rest of it did not come in time
	round        int     // of the reaper, when it was kept

	mu   sync.Mutex
	busy bool
	ctx  context.Context // that breaks it; nil: none
	stop func() bool     // no more
}

func newConn(t *Transport, to *url.URL, nc net.Conn) *conn {
	c := &conn{t: t, scheme: to.Scheme, host: to.Host, nc: nc}
	if s, ok := nc.(syscall.Conn); ok {
		c.socket = newSocket(s)
	}
	c.in = bufio.NewReader(c)
	return c
}

// handshakeError is one that came before TLS was spoken.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// secure speaks TLS from now on. If it fails, the connection is closed.
func (c *conn) secure(ctx context.Context, config *tls.Config, name string) error {
	config = config.Clone()
	config.ServerName = name
	over := tls.Client(c.nc, config)
	err := over.HandshakeContext(ctx)
	if err == nil {
		c.nc = over
		return nil
	}
	_ = c.nc.Close()
	var told *net.OpError
	if !errors.As(err, &told) || told.Op != "remote error" {
		return err
	}
	if noProtocol := tls.AlertError(120); told.Err.Error() == noProtocol.Error() {
		return handshakeError{errProtocol}
	}
	return handshakeError{errHandshake}
}

// begin makes the connection ready for a request, which ends with its context. A connection mostly serves one context
// request after request, so it stays bound to it.
func (c *conn) begin(p passage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = true
	if c.ctx != p.ctx {
		c.unbind()
		c.ctx, c.stop = p.ctx, context.AfterFunc(p.ctx, func() { c.ends(p.ctx) })
	}
	if err := p.ctx.Err(); err != nil {
		return err // ended while nobody was busy: that broke nothing
	}
	return c.nc.SetDeadline(p.header())
}

// extend gives the rest of an answer the rest of the time.
func (c *conn) extend(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		_ = c.nc.SetDeadline(until) // where it fails, so does reading
	}
}

// ends breaks the request under way if it is one of this context.
func (c *conn) ends(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != ctx {
		return
	}
	if c.ctx, c.stop = nil, nil; c.busy {
		_ = c.nc.SetDeadline(time.Unix(1, 0))
	}
}

// unbind forgets the context. The caller holds c.mu.
func (c *conn) unbind() {
	if c.stop != nil {
		c.stop()
	}
	c.ctx, c.stop = nil, nil
}

func (c *conn) close() {
	c.mu.Lock()
	c.unbind()
	c.mu.Unlock()
	_ = c.nc.Close()
}

// quiet says whether the other side has neither hung up nor said anything.
func (c *conn) quiet() bool { return c.socket == nil || c.socket.quiet() }

// spent says whether nothing is left of what was read. TLS reads whole records, and more: the socket knows nothing of those.
func (c *conn) spent() bool {
	if c.in.Buffered() > 0 {
		return false
	}
	over, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	if over.SetReadDeadline(time.Unix(1, 0)) != nil { // until the next request
		return false
	}
	n, err := over.Read(make([]byte, 1))
	return n == 0 && isTimeout(err)
}

// Read reads for c.in, as much as may be read.
func (c *conn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.nc.Read(b[:min(int64(len(b)), c.left)])
	c.heard = c.heard || n > 0
	c.left -= int64(n)
	if isTimeout(err) {
		c.late = err
	}
	return n, err
}

var errHeader = errors.New("the header is too long")

// exchange sends a request and reads the header of its answer. After an error the connection is of no use.
func (c *conn) exchange(r *http.Request, p passage) (*http.Response, error) {
	var err error
	if c.out, err = appendRequest(c.out[:0], r); err != nil {
		return nil, err
	}
	c.heard, c.left, c.late = false, mostHeader, nil
	if _, err = c.nc.Write(c.out); err != nil {
		return nil, err
	}
	resp, err := c.answer(r)
	if err != nil {
		return nil, cmp.Or(c.late, err) // net/http takes a line that is cut for a whole one, and says that it is none
	}
	c.left = math.MaxInt64 // of the body only the reader knows how much it wants
	b := &answerBody{c: c, from: resp.Body, left: resp.ContentLength, keep: !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols}
	if resp.Body == http.NoBody {
		b.end(nil)
	} else if resp.Body = b; int64(c.in.Buffered()) < resp.ContentLength || resp.ContentLength < 0 {
		c.extend(p.until)
	}
	return resp, nil
}

// answer reads the header of the first answer that counts. Without a body the rest of it is to be read from c.in.
func (c *conn) answer(r *http.Request) (*http.Response, error) {
	if resp, plain := c.plainHead(r); plain {
		return resp, nil
	}
	for range mostInterims + 1 {
		resp, err := http.ReadResponse(c.in, r)
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
	return nil, errInterims
}

var errInterims = errors.New("too many interim answers")

// answerBody is that of an answer. With its end the connection is free.
type answerBody struct {
	c    *conn
	from io.Reader // nil: it is simply what is left
	left int64     // in bytes
	keep bool      // the connection, after the end
	err  error     // how it ended; nil: it has not
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *answerBody) read(p []byte) (int, error) {
	if b.from != nil {
		return b.from.Read(p)
	}
	n, err := b.c.in.Read(p[:min(int64(len(p)), b.left)])
	switch b.left -= int64(n); {
	case b.left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends the body. One that was not read to its end costs the connection.
func (b *answerBody) Close() error {
	if b.err == nil {
		b.keep = false
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *answerBody) end(err error) {
	c := b.c
	b.err = err
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	if b.keep && (err == nil || err == io.EOF) && c.spent() {
		c.t.keep(c)
	} else {
		c.close()
	}
	<-c.t.places
}
