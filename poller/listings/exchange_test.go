package listings

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoRedirectIsEverFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.RequestURI, http.StatusFound)
	})
	_, err := a.client(t).insertions(t)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != http.StatusFound {
		t.Fatal(err)
	}
	if elsewhere.Load() != 0 {
		t.Error("the other server got a request")
	}
}

func TestConnectionsAreReused(t *testing.T) {
	var opened atomic.Int32
	statuses := []int{200, 403, 404, 500, 200, 304, 200}
	n := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(statuses[n%len(statuses)])
		n++
		if n != 6 { // a 304 has no body
			fmt.Fprint(w, "[]"+strings.Repeat(" ", 10_000))
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := newClient(t, func(o *Options) { o.BaseURL = server.URL })
	for range 3 * len(statuses) {
		_, _ = c.insertions(t) // answers differ, the connection must not
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for %d requests", n, 3*len(statuses))
	}
}

func TestConnectionFailuresAreToldApart(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(body("[]"))
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := httptest.NewServer(body("[]"))
	defer plain.Close()
	closed := httptest.NewServer(http.NotFoundHandler()) // the last one, so that no other has its port
	closed.Close()
	for url, stage := range map[string]string{
		closed.URL: StageRefused, untrusted.URL: StageTLS, strings.Replace(plain.URL, "http:", "https:", 1): StageTLS,
	} {
		_, err := newClient(t, func(o *Options) { o.BaseURL = url }).insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != stage {
			t.Errorf("want %s, got %T: %v", stage, err, err)
		}
	}
}

func TestTheGateAdmitsEveryRequestAndItsTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raw(t, "http://localhost", func(c net.Conn) { say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]") })
		stop := errors.New("stop")
		var outcomes []Outcome
		asked := 0
		c.o.Gate = hooks{
			wait: func(r Request) error {
				if asked++; r != (Request{OperationInsertions, "A100", "", testKey.Fingerprint()}) {
					t.Errorf("%+v", r)
				}
				time.Sleep(time.Hour)
				if asked == 2 {
					return stop
				}
				return nil
			},
			done: func(o Outcome) { outcomes = append(outcomes, o) },
		}
		_, first := c.insertions(t)
		_, second := c.insertions(t)
		if first != nil || !errors.Is(second, stop) || !is[*RequestError](second) {
			t.Errorf("%v, %v", first, second)
		}
		if len(outcomes) != 1 || outcomes[0].Duration > time.Minute || outcomes[0].Status != 200 || outcomes[0].Err != nil {
			t.Errorf("%+v", outcomes)
		}
	})
}

func TestRetryAfterIsReadWithoutOverflow(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, " 5 ": 5 * time.Second, "-5": 0, "1.5": 0, "5s": 0, "+5": 0, "soon": 0,
		"9223372036": 9223372036 * time.Second, "9223372037": math.MaxInt64, "99999999999999999999": math.MaxInt64,
		"Fri, 20 Nov 2026 09:00:30 GMT": 30 * time.Second, "Fri, 20 Nov 2026 08:59:00 GMT": 0,
		"Friday, 20-Nov-26 09:00:30 GMT": 30 * time.Second, "Fri, 31 Dec 9999 23:59:59 GMT": math.MaxInt64,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func TestEveryFailureHasItsStageAndItsWords(t *testing.T) {
	at := func(op string, err error) error { return &net.OpError{Op: op, Err: err} }
	verified := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, row := range []struct {
		err         error
		stage, want string
	}{
		{at("dial", &net.DNSError{Err: "SENTINEL", IsNotFound: true}), StageDNS, "the host name is unknown"},
		{at("dial", &net.DNSError{Err: "SENTINEL", IsTimeout: true}), StageDNS, "the host name cannot be looked up"},
		{at("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)), StageRefused, "connection refused"},
		{at("dial", os.NewSyscallError("connect", syscall.EHOSTUNREACH)), StageDial, "no route to host"},
		{at("dial", os.ErrDeadlineExceeded), StageDial, "no answer in time"},
		{at("proxyconnect", errors.New("SENTINEL")), StageDial, "the connection broke or the response is not HTTP"},
		{verified(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "SENTINEL"}), StageTLS, "the certificate has expired or is not valid yet"},
		{verified(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}), StageTLS, "the certificate cannot be verified"},
		{verified(x509.UnknownAuthorityError{}), StageTLS, "the certificate is signed by an unknown authority"},
		{verified(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "SENTINEL"}), StageTLS, "the certificate is for another host"},
		{verified(errors.New("SENTINEL")), StageTLS, "the certificate cannot be verified"},
		{tls.RecordHeaderError{Msg: "SENTINEL"}, StageTLS, "the connection broke or the response is not HTTP"},
		{at("remote error", tls.AlertError(40)), StageTLS, "the server refuses the TLS handshake"},
		{context.DeadlineExceeded, StageTimeout, "context deadline exceeded"},
		{at("read", os.ErrDeadlineExceeded), StageTimeout, "no answer in time"},
		{at("read", os.NewSyscallError("read", syscall.ECONNRESET)), StageRead, "connection reset by peer"},
		{gzip.ErrChecksum, StageRead, "gzip: invalid checksum"},
		{io.ErrUnexpectedEOF, StageRead, "unexpected EOF"},
		{errors.New("SENTINEL"), StageRead, "the connection broke or the response is not HTTP"},
	} {
		got := transportError(t.Context(), Request{Operation: OperationInsertions, AgencyID: "A100"}, fmt.Errorf("SENTINEL: %w", row.err))
		if got.Stage != row.stage || got.Err.Error() != row.want {
			t.Errorf("%T: %s: %v; want %s: %s", row.err, got.Stage, got.Err, row.stage, row.want)
		}
	}
}

// closing responds with a body that reports whether it was closed: one that was not keeps its connection.
type closing struct {
	io.Reader
	status int
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func (c *closing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{}, Body: c, ContentLength: -1}, nil
}

func TestEveryBodyIsClosed(t *testing.T) {
	for _, status := range []int{200, 204, 301, 403, 500} {
		for _, length := range []int{0, 1000, 1 << 20} {
			a := &closing{Reader: strings.NewReader(strings.Repeat(" ", length)), status: status}
			c := newClient(t, func(o *Options) {
				o.BaseURL, o.Transport, o.MaxBody = "https://api.example", a, 10_000
			})
			if _, _ = c.insertions(t); !a.closed {
				t.Errorf("status %d, %d bytes: not closed", status, length)
			}
		}
	}
}
