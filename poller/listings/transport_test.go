package listings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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

func trusting(roots *x509.CertPool) func(*Options) {
	return func(o *Options) {
		under := NewTransport(TransportOptions{})
		under.TLSClientConfig.RootCAs = roots
		o.Transport = under
	}
}

const good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"

func TestConnectingHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, func(o *Options) {
			o.BaseURL = "http://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
			}})
		})
		began := time.Now()
		_, err := c.insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != StageDial || time.Since(began) != connectWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestTheHeaderHasItsOwnLimitAndTheBodyTheRest(t *testing.T) {
	for _, row := range []struct {
		header, body, ends time.Duration
		good               bool
	}{
		{26 * time.Second, 3 * time.Second, 29 * time.Second, true},
		{29_800 * time.Millisecond, 0, 29_500 * time.Millisecond, false},
		{19 * time.Second, 12 * time.Second, 30 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, func(o *Options) {
				o.BaseURL = "http://localhost"
				o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) {
					time.Sleep(row.header)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[")
					time.Sleep(row.body)
					_, _ = io.WriteString(c, "]")
				})})
			})
			began := time.Now()
			_, err := c.insertions(t)
			var broken *TransportError
			if took := time.Since(began); (err == nil) != row.good || took != row.ends {
				t.Errorf("%v after %v", err, took)
			}
			if !row.good && (!errors.As(err, &broken) || broken.Stage != StageTimeout) {
				t.Errorf("%T: %v", err, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// piped dials pipes, on each of which one request is answered.
func piped(t *testing.T, answer func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	var answering sync.WaitGroup
	t.Cleanup(answering.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		answering.Go(func() {
			defer theirs.Close()
			if _, err := theirs.Read(make([]byte, 8<<10)); err == nil {
				answer(theirs)
			}
		})
		return ours, nil
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone time.Time
		c := newClient(t, func(o *Options) {
			o.BaseURL = "http://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) {
				_, _ = io.WriteString(c, good)
				_, _ = c.Read(make([]byte, 1))
				gone = time.Now()
			})})
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

// connecting is a proxy that takes a password, and connects to one place whoever is asked for. It counts what it is asked.
func connecting(t *testing.T, to string, asked *atomic.Int32) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect || r.Host != "api.example:443" || r.Header.Get("Authorization") != "" {
			t.Errorf("the proxy is asked %s %s", r.Method, r.Host)
		}
		if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("user:SENTINEL")) {
			w.Header().Set("Proxy-Authenticate", "Basic")
			http.Error(w, person, http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, here)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAProxyConnectsAndItsPasswordIsNotTold(t *testing.T) {
	config, roots := certified(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	server := httptest.NewUnstartedServer(body("[]"))
	server.TLS, server.EnableHTTP2 = config, true
	server.StartTLS()
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, row := range []struct {
		name, to, password string
		stage              string // "": it is answered
		asked              int32
	}{
		{"through it", server.Listener.Addr().String(), "SENTINEL", "", 1},
		{"refused", server.Listener.Addr().String(), "SENTINEL-wrong", StageDial, 2},
		{"the proxy is away", "", "SENTINEL", StageRefused, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked atomic.Int32
			via := connecting(t, row.to, &asked)
			if row.to == "" {
				via.Host = gone.Listener.Addr().String()
			}
			via.User = url.UserPassword("user", row.password)
			c := newClient(t, trusting(roots), func(o *Options) {
				o.BaseURL = "https://api.example"
				under := o.Transport.(*http.Transport)
				under.Proxy = http.ProxyURL(via)
				under.TLSClientConfig.ServerName = "example.com" // of the certificate
			})
			for range 2 {
				_, err := c.insertions(t)
				var broken *TransportError
				if errors.As(err, &broken) != (row.stage != "") || broken != nil && broken.Stage != row.stage {
					t.Errorf("%T: %v", err, err)
				}
				assertNoSentinel(t, err)
			}
			if asked.Load() != row.asked {
				t.Errorf("the proxy is asked %d times", asked.Load())
			}
		})
	}
}

func TestAHandshakeWithoutEndEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, func(o *Options) {
			o.BaseURL = "https://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })})
		})
		began := time.Now()
		_, err := c.insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != StageTimeout || time.Since(began) != connectWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
