package listings

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// ErrBodyTooLarge is wrapped by the error for a body that is larger than Options.MaxBody, as it
// comes or unpacked.
var ErrBodyTooLarge = errors.New("body is larger than allowed")

// RequestError wraps a failure of a request that has no type of its own: ErrReference,
// ErrBodyTooLarge, a key that cannot be sent, an error of the Gate.
type RequestError struct {
	Request
	Err error
}

func (e *RequestError) Error() string { return e.Request.String() + ": " + e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// StatusError is a response with a status that is not 2xx. Redirects are among them: none is
// followed.
type StatusError struct {
	Request
	Status     int
	RetryAfter time.Duration // as sent, however long; 0 if there was none
	Body       BodyKind
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: status %d", e.Request, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Body == BodyChallenge {
		text += " (a bot challenge, not the API itself)"
	}
	return text
}

// BodyKind says what the body of an error response looked like. The words are those of the
// contract.
type BodyKind string

// Kinds of bodies.
const (
	BodyNone      BodyKind = "none"
	BodyJSON      BodyKind = "json"
	BodyHTML      BodyKind = "html"
	BodyChallenge BodyKind = "challenge" // a proxy wants proof that we are human
	BodyOther     BodyKind = "other"
)

// Stage says where a request broke.
const (
	StageDNS      = "dns"
	StageDial     = "dial"
	StageRefused  = "refused"
	StageTLS      = "tls"
	StageTimeout  = "timeout"
	StageRead     = "read" // headers or body
	StageCanceled = "canceled"
)

// TransportError is a request without a whole response. Err is one of the well-known errors
// (context.Canceled, io.EOF, a system call's) or a text of ours: what net/http says may quote what
// it read.
type TransportError struct {
	Request
	Stage string
	Err   error
}

func (e *TransportError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Request, e.Stage, e.Err) }
func (e *TransportError) Unwrap() error { return e.Err }

// DriftError is a response with status 2xx that is not what the operation promises: no list, no
// JSON, or about something else. It is never taken for "none".
type DriftError struct {
	Request
	Expected string // paths and JSON types, never values
	Found    string
	Status   int
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("%s: expected %s, found %s", e.Request, e.Expected, e.Found)
}

// transportError says in which stage a request broke, and why, in words that quote nothing. ctx is
// the caller's.
func transportError(ctx context.Context, r Request, err error) *TransportError {
	if ended := ctx.Err(); ended != nil {
		return &TransportError{Request: r, Stage: StageCanceled, Err: ended}
	}
	for _, b := range breaks {
		if b.fits(err) {
			return &TransportError{Request: r, Stage: b.stage, Err: cmp.Or(b.reported, cause(err))}
		}
	}
	return &TransportError{Request: r, Stage: StageRead, Err: cause(err)}
}

var (
	errCertificate = errors.New("the certificate cannot be verified")
	errExpired     = errors.New("the certificate has expired or is not valid yet")
	errAuthority   = errors.New("the certificate is signed by an unknown authority")
	errHostname    = errors.New("the certificate is for another host")
	errNoHost      = errors.New("the host name is unknown")
	errNameServer  = errors.New("the host name cannot be looked up")
	errTimedOut    = errors.New("no answer in time")
	errProxy       = errors.New("it refuses; check its user and password")
	errHandshake   = errors.New("the server refuses the TLS handshake")
	errBroken      = errors.New("the connection broke or the response is not HTTP")
)

// isOfProxy reports whether an error is about the way to the proxy, or its response.
func isOfProxy(err error) bool {
	return errors.Is(err, errProxy) || that(func(err *net.OpError) bool { return err.Op == "proxyconnect" })(err)
}

// breaks is the one table of how a request breaks; the first row that fits counts. One without
// words of its own gives its cause. What fits none broke where it was read.
var breaks = []struct {
	fits     func(error) bool
	stage    string
	reported error
}{
	{that(func(err *net.DNSError) bool { return err.IsNotFound }), StageDNS, errNoHost},
	{is[*net.DNSError], StageDNS, errNameServer},
	{isError(syscall.ECONNREFUSED), StageRefused, nil},
	{that(func(err x509.CertificateInvalidError) bool { return err.Reason == x509.Expired }), StageTLS, errExpired},
	{is[x509.UnknownAuthorityError], StageTLS, errAuthority},
	{is[x509.HostnameError], StageTLS, errHostname},
	{is[*tls.CertificateVerificationError], StageTLS, errCertificate},
	{is[tls.RecordHeaderError], StageTLS, nil},
	// an alert
	{that(func(err *net.OpError) bool { return err.Op == "remote error" }), StageTLS, errHandshake},
	{isOfProxy, StageDial, nil},
	{that(func(err *net.OpError) bool { return err.Op == "dial" }), StageDial, nil},
	{that(net.Error.Timeout), StageTimeout, nil},
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// that fits an error of a type, and of a kind.
func that[E error](kind func(E) bool) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[E](err)
		return ok && kind(e)
	}
}

func isError(wanted error) func(error) bool {
	return func(err error) bool { return errors.Is(err, wanted) }
}

// sentinels are the causes that may stand in an error as they are: they quote nothing.
var sentinels = []error{
	context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF,
	gzip.ErrHeader, gzip.ErrChecksum, net.ErrClosed, errProxy,
}

func cause(err error) error {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s
		}
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	if that(net.Error.Timeout)(err) {
		return errTimedOut
	}
	return errBroken
}
