package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// answerLimit is how long a client over HTTP, or one that receives a backup, may go without reading,
// however long the whole answer takes. While a backup is under way the store's file can only grow.
// A list of events at the socket may wait: a pager may show it.
const answerLimit = 30 * time.Second

// paced is a listener whose connections give each part of an answer its own time.
type paced struct{ net.Listener }

func (l paced) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return pacedConn{c}, err
}

type pacedConn struct{ net.Conn }

func (c pacedConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(answerLimit)) // of a closed one Write says so
	return c.Conn.Write(p)
}

// pacedWriter gives each part of an answer its own time where connections do not.
type pacedWriter struct{ http.ResponseWriter }

func (w pacedWriter) Write(p []byte) (int, error) {
	err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(answerLimit))
	if err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// maxSocketPath is what every system takes for the path of a unix socket.
const maxSocketPath = 100

// CheckPath says whether a socket can stand at path, without touching anything.
func CheckPath(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf(
			"the path of the socket, %s, is longer than the %d bytes that systems allow; "+
				"choose a shorter data directory", path, maxSocketPath)
	}
	return nil
}

// Listen opens the socket, for its owner only. It replaces one that a killed daemon left behind, so
// the caller must hold the store's lock.
func Listen(path string) (net.Listener, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ServeSocket answers the verbs at a socket until ctx ends, then returns nil.
func ServeSocket(ctx context.Context, l net.Listener, v Verbs) error {
	return serve(ctx, &http.Server{Handler: Handler(v), ReadHeaderTimeout: headerLimit}, l)
}

// Client asks a daemon over its socket.
type Client struct{ http http.Client }

// NewClient returns a client of the socket at path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Local returns a client of verbs that this process serves itself.
func Local(v Verbs) *Client {
	handler := Handler(v)
	dial := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go http.Serve(&single{conn: theirs}, handler) //nolint:errcheck,gosec // it ends with its connection
		return ours, nil
	}
	return &Client{http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// single is a listener that accepts one connection.
type single struct{ conn net.Conn }

func (l *single) Accept() (net.Conn, error) {
	c := l.conn
	if l.conn = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return &net.UnixAddr{} }

// ErrNoAnswer is returned when no daemon answers at the socket.
var ErrNoAnswer = errors.New("no daemon answers")

// Status asks how the daemon is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return getStatus.Ask(ctx, c, Nothing{})
}

// Backup writes a copy of the daemon's store to w, as long as that takes. sized is called first
// with the number of bytes, and may refuse them.
func (c *Client) Backup(ctx context.Context, w io.Writer, sized func(bytes int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// it begins immediately, and may then take as long as it needs
	late := time.AfterFunc(answerLimit, cancel)
	response, err := c.open(ctx, http.MethodGet, backupPath, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	late.Stop()
	if err := sized(response.ContentLength); err != nil {
		return err
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("copy from the daemon: %w", err)
	}
	return nil
}

// maxAnswer is the longest answer that is read whole.
const maxAnswer = 64 << 20

// open asks and waits for the beginning of an answer that is a success.
func (c *Client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://doorbell"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		var r refusal
		err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&r)
		if err != nil || r.Error == "" {
			return nil, fmt.Errorf("the daemon answered %s", response.Status)
		}
		return nil, r.asError()
	}
	return response, nil
}
