package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// What receivers that post over HTTP have in common. What an answer means is theirs.

// Poster is an address that is posted to, which may be a secret, with a client for it: bounded in every respect, and it follows no redirect,
// which would carry people's data to whoever is named there. Proxies of the environment count for https only, where they cannot read along.
type Poster struct {
	address *url.URL
	client  *http.Client
}

// Errors of NewPoster. They quote nothing: an address may hold a token.
var (
	ErrAddress   = errors.New("this is no address to post to; write it like https://hooks.example.com/doorbell")
	ErrPlaintext = errors.New("the address speaks plain http to another machine, which would show people's data to everybody on the way; write https://, or allow its host by name")
)

// NewPoster reads an address: https, unless its host is this machine or allowed by name. It asks nothing of the network.
func NewPoster(text string, plaintext []string) (Poster, error) {
	address, err := url.Parse(strings.TrimSpace(text))
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Hostname() == "" || address.User != nil {
		return Poster{}, ErrAddress
	}
	if address.Scheme == "http" && !MayBePlain(address.Hostname(), plaintext) {
		return Poster{}, ErrPlaintext
	}
	const connecting = 10 * time.Second
	dialer := &net.Dialer{Timeout: connecting, KeepAlive: 30 * time.Second}
	return Poster{address, &http.Client{
		Transport: &http.Transport{
			Proxy: func(r *http.Request) (*url.URL, error) {
				if r.URL.Scheme != "https" {
					return nil, nil
				}
				return http.ProxyFromEnvironment(r)
			},
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connecting,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // what an answer unpacks to would have to be bounded too
			MaxIdleConns:           1,
			IdleConnTimeout:        20 * time.Second, // below every balancer's
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Destination names the address in [Traits].
func (p Poster) Destination() string { return Destination(p.address.Hostname(), p.address.String()) }

// Post sends a body. Its error is a *Retry with a reason in words of ours: those of the network quote
// the address. A request that was written whole may have been accepted though no answer came.
func (p Poster) Post(ctx context.Context, header http.Header, body []byte) (*http.Response, error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { written.Store(i.Err == nil) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, p.address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Retry{Reason: "the request cannot be made", Receiver: true} // the address was parsed before: does not happen
	}
	request.Header = header
	response, err := p.client.Do(request)
	if err != nil {
		whole := written.Load()
		return nil, &Retry{Reason: cmp.Or(Unreachable(err), "the connection failed"), Receiver: !whole, Unanswered: whole}
	}
	return response, nil
}

// Close gives idle connections back.
func (p Poster) Close() { p.client.CloseIdleConnections() }

// MayBePlain says whether a host may be spoken to without TLS: this machine, and those that are allowed by name.
func MayBePlain(host string, allowed []string) bool {
	if strings.EqualFold(host, "localhost") || slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// OfReceiver reports whether a status speaks about the address or the account, and not about the
// message: another one would get the same.
func OfReceiver(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusGone, http.StatusTooManyRequests:
		return true
	}
	return status >= 300 && status < 400
}

// RetryAfter is how long an answer wants to be waited for, an hour at most; 0 if it says nothing that can be read.
func RetryAfter(response *http.Response, now time.Time) time.Duration {
	value := strings.TrimSpace(response.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if !(seconds > 0) { // no number is none either
			return 0
		}
		return time.Duration(min(seconds, longestAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longestAfter)
}

// BadCertificate is what [Unreachable] says of one.
const BadCertificate = "the host's certificate is not trusted"

// Unreachable says why there is no answer, and quotes nothing; empty where that is not known.
func Unreachable(err error) string {
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		unknown     x509.UnknownAuthorityError
		timeout     net.Error
		op          *net.OpError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped while sending"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy of HTTPS_PROXY cannot be reached"
	case errors.As(err, &dns):
		return "the host is not found"
	case errors.As(err, &certificate), errors.As(err, &unknown):
		return BadCertificate
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection broke"
	}
	return ""
}
