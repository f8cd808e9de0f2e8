package listings

import (
	"compress/flate"
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

// ErrBodyTooLarge is wrapped by the error for a body that is larger than Options.MaxBody, as it comes or unpacked.
var ErrBodyTooLarge = errors.New("body is larger than allowed")

// RequestError wraps what came of a request and has no type of its own: ErrReference, ErrBodyTooLarge, a key that cannot
// be sent, an error of Options.Before.
type RequestError struct {
	Request
	Err error
}

func (e *RequestError) Error() string { return e.Request.String() + ": " + e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// StatusError is an answer with a status that is not 2xx. Redirects are among them: none is followed.
type StatusError struct {
	Request
	Status     int
	RetryAfter time.Duration // as sent, however long; 0 if there was none
	Body       BodyKind
	Date       time.Time // the API's clock; zero if it did not say
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

// BodyKind says what the body of an error answer looked like. The words are those of the contract.
type BodyKind string

// Kinds of bodies.
const (
	BodyNone      BodyKind = "none"
	BodyJSON      BodyKind = "json"
	BodyHTML      BodyKind = "html"
	BodyChallenge BodyKind = "challenge" // somebody in between wants proof that we are human
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

// TransportError is a request without a whole answer. Err is one of the well-known errors (context.Canceled, io.EOF, a
// system call's) or a text of ours: what net/http says may quote what it read.
type TransportError struct {
	Request
	Stage string
	Err   error
}

func (e *TransportError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Request, e.Stage, e.Err) }
func (e *TransportError) Unwrap() error { return e.Err }

// DriftError is an answer with status 2xx that is not what the operation answers: no list, not to be read as JSON, or
// about something else. It is never taken for "none".
type DriftError struct {
	Request
	Expected string // paths and JSON types, never values
	Found    string
	Status   int
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("%s: expected %s, found %s", e.Request, e.Expected, e.Found)
}

// transportError says in which stage a request broke, and why, in words that quote nothing. ctx is the caller's.
func transportError(ctx context.Context, r Request, err error, connected bool) *TransportError {
	if ended := ctx.Err(); ended != nil {
		return &TransportError{Request: r, Stage: StageCanceled, Err: ended}
	}
	if refusesHandshake(err) && !connected {
		return &TransportError{Request: r, Stage: StageTLS, Err: errHandshake}
	}
	return &TransportError{Request: r, Stage: stage(err), Err: cause(err)}
}

// refusesHandshake says whether the other side has said by TLS that something does not please it. It may do so later too.
func refusesHandshake(err error) bool {
	var told *net.OpError
	return errors.As(err, &told) && told.Op == "remote error"
}

func stage(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return StageDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return StageRefused
	case isTLS(err):
		return StageTLS
	case errors.Is(err, errProxy), errors.Is(err, errProxyAddress), errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return StageDial
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return StageTimeout
	}
	return StageRead
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || certificate(err) != nil
}

// sentinels are the causes that may stand in an error as they are: they quote nothing.
var sentinels = []error{
	context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF,
	gzip.ErrHeader, gzip.ErrChecksum, net.ErrClosed, errProxy, errProxyAddress,
}

var (
	errCertificate  = errors.New("the certificate cannot be verified")
	errExpired      = errors.New("the certificate has expired or is not valid yet")
	errAuthority    = errors.New("the certificate is signed by an unknown authority")
	errHostname     = errors.New("the certificate is for another host")
	errNoHost       = errors.New("the host name is unknown")
	errNameServer   = errors.New("the host name cannot be looked up")
	errTimedOut     = errors.New("no answer in time")
	errDamaged      = errors.New("the compressed body is damaged")
	errProxy        = errors.New("it refuses; are its user and password right?")
	errHandshake    = errors.New("the server refuses the TLS handshake")
	errProxyAddress = errors.New("HTTPS_PROXY is no address of a proxy, such as http://proxy.example:3128")
	errBroken       = errors.New("the connection broke or the answer is no HTTP")
)

func cause(err error) error {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s
		}
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	if c := certificate(err); c != nil {
		return c
	}
	var dns *net.DNSError
	var damaged flate.CorruptInputError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return errNoHost
	case errors.As(err, &dns):
		return errNameServer
	case errors.As(err, &damaged):
		return errDamaged
	case errors.As(err, &timeout) && timeout.Timeout():
		return errTimedOut
	}
	return errBroken
}

// certificate names what is wrong with a certificate; nil if err is about something else.
func certificate(err error) error {
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errExpired
	case errors.As(err, &authority):
		return errAuthority
	case errors.As(err, &host):
		return errHostname
	case errors.As(err, &invalid), errors.As(err, &verification):
		return errCertificate
	}
	return nil
}
