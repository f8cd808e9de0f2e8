package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotConnected: there is no connection at the moment.
var ErrNotConnected = errors.New("no connection to NATS")

// Explain rewords an error of the NATS client, and names the servers. The client library reports
// full buffers and deadlines when the server is unreachable, refuses our credentials or does not
// permit the request. The text contains no credentials. An error that is clear enough is returned
// as it is.
func Explain(nc Conn, err error) error {
	last := nc.LastError()
	switch {
	case err == nil:
		return nil
	case !nc.IsConnected(), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, ErrNotConnected):
		return &explained{fmt.Sprintf("%s%s: %s", ErrNotConnected, at(nc), away(last)), ErrNotConnected}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders): // JetStream does not respond, whatever the stream
		return &explained{"JetStream is off for this NATS account" + at(nc) +
			": enable it there, or set NATS_JS_DOMAIN if it is " +
			"behind a leaf node, or NATS_JS_API_PREFIX if another account exports it", err}
	case errors.Is(last, nats.ErrPermissionViolation) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)):
		_, what, _ := strings.Cut(last.Error(), nats.ErrPermissionViolation.Error()+": ")
		return &explained{
			fmt.Sprintf("NATS%s does not allow it: %s", at(nc), what),
			nats.ErrPermissionViolation,
		}
	}
	return err
}

type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// away says how the last attempt to connect failed. If no server responds, the library keeps no
// error.
func away(last error) string {
	switch {
	case errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthExpired),
		errors.Is(last, nats.ErrAuthRevoked),
		errors.Is(last, nats.ErrAccountAuthExpired):
		return "it refuses our credentials"
	case errors.As(last, new(*tls.CertificateVerificationError)),
		errors.As(last, new(x509.UnknownAuthorityError)):
		return "its certificate is not trusted"
	}
	return "no server answers"
}

// at returns the addresses of the servers without user and password; empty if the server runs in
// this process.
func at(nc Conn) string {
	if nc.Opts.InProcessServer != nil {
		return ""
	}
	var all []string
	for _, server := range nc.Servers() {
		if u, err := url.Parse(server); err == nil {
			all = append(all, u.Scheme+"://"+u.Host)
		}
	}
	return " at " + strings.Join(all, ", ")
}
