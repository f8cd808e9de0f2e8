package listings

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// transportError says in which stage a request broke, and why, in words that quote nothing.
func transportError(ctx context.Context, r Request, err error) *TransportError {
	if ended := ctx.Err(); ended != nil {
		return &TransportError{Request: r, Stage: StageCanceled, Err: ended}
	}
	return &TransportError{Request: r, Stage: stage(err), Err: cause(err)}
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
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
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
	var handshake handshakeError
	return errors.As(err, &handshake) || errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || certificate(err) != nil
}

// sentinels are the causes that may stand in an error as they are: they quote nothing.
var sentinels = []error{
	context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF,
	gzip.ErrHeader, gzip.ErrChecksum, net.ErrClosed, errProtocol, errHandshake, errHeader,
}

var (
	errCertificate = errors.New("the certificate cannot be verified")
	errExpired     = errors.New("the certificate has expired or is not valid yet")
	errAuthority   = errors.New("the certificate is signed by an unknown authority")
	errHostname    = errors.New("the certificate is for another host")
	errNoHost      = errors.New("the host name is unknown")
	errNameServer  = errors.New("the host name cannot be looked up")
	errTimedOut    = errors.New("no answer in time")
	errDamaged     = errors.New("the compressed body is damaged")
	errProtocol    = errors.New("the server does not speak HTTP/1.1 over TLS")
	errHandshake   = errors.New("the server refuses the TLS handshake")
	errBroken      = errors.New("the connection broke or the answer is no HTTP")
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
