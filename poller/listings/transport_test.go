package listings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// certified is how a server speaks TLS, and who is to be trusted for it.
func certified(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	issued := httptest.NewTLSServer(nil)
	defer issued.Close()
	roots := x509.NewCertPool()
	roots.AddCert(issued.Certificate())
	return &tls.Config{Certificates: issued.TLS.Certificates, DynamicRecordSizingDisabled: true}, roots
}

// dialling is a client whose every connection is made by hand.
func dialling(dial func() (net.Conn, error)) func(*Options) {
	return func(o *Options) {
		under := NewTransport(o.Timeout, nil)
		under.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
		o.Transport = under
	}
}

// raw is a client whose every connection is answered by hand, after the request was read, and closed.
func raw(t *testing.T, base string, answer func(net.Conn)) *Client {
	t.Helper()
	var answering sync.WaitGroup
	t.Cleanup(answering.Wait)
	return newClient(t, func(o *Options) { o.BaseURL = base }, dialling(func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		answering.Go(func() {
			defer theirs.Close()
			if _, err := theirs.Read(make([]byte, 8<<10)); err == nil {
				answer(theirs)
			}
		})
		return ours, nil
	}))
}

func say(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

func TestEveryWaitHasItsLimit(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
	drip := func(c net.Conn, text string) {
		for _, char := range text {
			time.Sleep(10 * time.Second)
			say(c, string(char))
		}
	}
	after := func(header, body time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			time.Sleep(header)
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[")
			time.Sleep(body)
			say(c, "]")
		}
	}
	for _, row := range []struct {
		name, base string
		answer     func(net.Conn)
		ends       time.Duration
		good       bool
	}{
		{"late, and in time", "http", after(26*time.Second, 3*time.Second), 29 * time.Second, true},
		{"a late header", "http", after(29_800*time.Millisecond, 0), 29_500 * time.Millisecond, false},
		{"a late body", "http", after(19*time.Second, 12*time.Second), 30 * time.Second, false},
		{"silence", "http", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, 29_500 * time.Millisecond, false},
		{"headers drip", "http", func(c net.Conn) { drip(c, head+"[]") }, 29_500 * time.Millisecond, false},
		{"the body drips", "http", func(c net.Conn) { say(c, head); drip(c, "[                  ]") }, 30 * time.Second, false},
		{"the body of an error drips", "http", func(c net.Conn) { say(c, "HTTP/1.1 500 Oh"+head[15:]); time.Sleep(time.Hour) }, 30 * time.Second, false},
		{"a handshake without end", "https", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, connectWithin, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := raw(t, row.base+"://localhost", row.answer)
				began := time.Now()
				_, err := c.insertions(t)
				if took := time.Since(began); (err == nil) != row.good || took != row.ends {
					t.Errorf("%v after %v", err, took)
				}
				var broken *TransportError
				if !row.good && statusOf(err) != 500 && (!errors.As(err, &broken) || broken.Stage != StageTimeout) {
					t.Errorf("%T: %v", err, err)
				}
				time.Sleep(5 * time.Minute) // until everything was sent
			})
		})
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone time.Time
		c := raw(t, "http://localhost", func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
			_, _ = c.Read(make([]byte, 1))
			gone = time.Now()
		})
		began := time.Now()
		if _, err := c.insertions(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if idle := gone.Sub(began); idle != 20*time.Second {
			t.Errorf("closed after %v", idle)
		}
	})
}

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// muted is a connection on which nothing arrives once it is mute.
type muted struct {
	net.Conn
	mute atomic.Bool
}

func (m *muted) Read(b []byte) (n int, err error) {
	for n, err = m.Conn.Read(b); err == nil && m.mute.Load(); {
		n, err = m.Conn.Read(b)
	}
	return n, err
}

func TestOneHTTP2ConnectionCarriesEverythingAndIsClosedWhenSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, roots := certified(t)
		config.NextProtos = []string{"h2"}
		listener := make(pipes, 10)
		server := &http.Server{TLSConfig: config, ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 || r.Header.Get("Authorization") != "ApiKey "+sentinelKey {
				t.Error(r.Proto)
			}
			fmt.Fprint(w, "[]")
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.ServeTLS(listener, "", "") })
		var opened []*muted
		c := newClient(t, func(o *Options) { o.BaseURL, o.Timeout = "https://api.example", time.Minute }, dialling(func() (net.Conn, error) {
			ours, theirs := net.Pipe()
			listener <- theirs
			opened = append(opened, &muted{Conn: ours})
			return opened[len(opened)-1], nil
		}))
		trusted := c.o.Transport.(*http.Transport).TLSClientConfig
		trusted.RootCAs, trusted.ServerName = roots, "example.com" // of the certificate
		for n, good := range []bool{true, true, false, true} {
			if opened != nil && !good {
				opened[0].mute.Store(true)
			}
			began := time.Now()
			_, err := c.insertions(t)
			if took := time.Since(began); (err == nil) != good || took > silentFor+aliveWithin+time.Second {
				t.Errorf("request %d: %v after %v", n+1, err, took)
			}
			if n == 1 && len(opened) != 1 {
				t.Errorf("%d connections", len(opened))
			}
		}
		c.closeIdle()
		close(listener)
		server.Close()
		serving.Wait()
	})
}
