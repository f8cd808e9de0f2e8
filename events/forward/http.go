package forward

import (
	"bytes"
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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// This file is what receivers that post over HTTP have in common. What a response means, they
// decide.

// Poster posts to one address, which may be a secret. Its client is bounded in every respect, and
// follows no redirect, which would carry people's data to another host. It uses the proxies of the
// environment only for https, where they cannot read the data.
type Poster struct {
	address *url.URL
	client  *http.Client
}

// Errors of NewPoster. They quote nothing: an address may contain a token.
var (
	ErrAddress = errors.New("this is not an address to post to; " +
		"write it like https://hooks.example.com/doorbell")
	ErrPlaintext = errors.New("the address uses plain http to another machine, " +
		"which would expose personal data on the way; write https://, or allow its host by name")
)

// NewPoster parses an address. It must be https, unless its host is this machine or allowed by
// name. No network call is made.
func NewPoster(text string, plaintext []string) (Poster, error) {
	address, err := url.Parse(strings.TrimSpace(text))
	if err != nil || address.Hostname() == "" || address.User != nil ||
		address.Scheme != "https" && address.Scheme != "http" {
		return Poster{}, ErrAddress
	}
	if address.Scheme == "http" && !MayBePlain(address.Hostname(), plaintext) {
		return Poster{}, ErrPlaintext
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme != "https" {
			return nil, nil
		}
		return http.ProxyFromEnvironment(r)
	}
	transport.MaxResponseHeaderBytes = 64 << 10
	// the decompressed response would have to be bounded too
	transport.DisableCompression = true
	transport.IdleConnTimeout = 20 * time.Second // below that of common load balancers
	return Poster{address, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Destination returns the name of the address for [Traits].
func (p Poster) Destination() string { return Destination(p.address.Hostname(), p.address.String()) }

const (
	// postLimit is how long a request may take. Standard Webhooks recommends 15 to 30 s.
	postLimit = 20 * time.Second
	// maxRead bounds what is read of a response. It is more than an error needs; of a longer body,
	// that of a captive portal for example, the rest is not read.
	maxRead = 64 << 10
)

// Response is a response with the beginning of its body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Post sends a body. Its error is a *Retry with a reason of our own wording, because network errors
// quote the address. A request that was written completely may have been accepted though no
// response came.
func (p Poster) Post(
	ctx context.Context, method string, header http.Header, body []byte,
) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) { written.Store(i.Err == nil) },
	})
	request, err := http.NewRequestWithContext(ctx, method, p.address.String(),
		bytes.NewReader(body))
	if err != nil { // does not happen: NewPoster parsed the address
		return nil, &Retry{Reason: "the request cannot be made", Receiver: true}
	}
	request.Header = header
	response, err := p.client.Do(request)
	if err != nil {
		whole := written.Load()
		return nil, &Retry{Reason: Unreachable(err), Receiver: !whole, Unanswered: whole}
	}
	defer response.Body.Close()
	r := &Response{Status: response.StatusCode, Header: response.Header}
	// A body that breaks off says nothing; the status counts. After 101 the body is the connection,
	// which no context ends.
	if r.Status != http.StatusSwitchingProtocols {
		r.Body, _ = io.ReadAll(io.LimitReader(response.Body, maxRead))
	}
	return r, nil
}

// Close closes idle connections.
func (p Poster) Close() { p.client.CloseIdleConnections() }

// MayBePlain reports whether plain http is allowed to a host: to this machine, and to hosts allowed
// by name.
func MayBePlain(host string, allowed []string) bool {
	is := func(name string) bool { return strings.EqualFold(name, host) }
	if is("localhost") || slices.ContainsFunc(allowed, is) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// OfReceiver reports whether a status is about the address or the account and not about the
// message, so that any other message would get it too.
func OfReceiver(status int) bool {
	return slices.Contains([]int{
		http.StatusSwitchingProtocols, http.StatusUnauthorized, http.StatusPaymentRequired,
		http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusGone, http.StatusTooManyRequests,
	}, status)
}

// Outcome returns what a status means for a delivery; its body, which is never quoted, means
// nothing. A redirect is not followed: the person's data would go to an address that is not
// configured.
func (r *Response) Outcome() error {
	reason := "status " + strconv.Itoa(r.Status)
	switch s := r.Status; {
	case s >= 200 && s < 300:
		return nil
	case s >= 300 && s < 400:
		reason += ", a redirect, which is not followed; set the address that it leads to"
		return &Retry{Receiver: true, Reason: reason}
	case OfReceiver(s), s == http.StatusRequestTimeout, s < 200, s >= 500:
		return &Retry{After: r.RetryAfter(), Receiver: OfReceiver(s), Reason: reason}
	}
	return &Refused{Reason: reason, Certain: r.Status == http.StatusRequestEntityTooLarge}
}

// RetryAfter returns the Retry-After of a response, at most an hour; 0 if there is none that is
// valid.
func (r *Response) RetryAfter() time.Duration {
	value := strings.TrimSpace(r.Header.Get("Retry-After"))
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), longestAfter)
	}
	seconds, _ := strconv.ParseFloat(value, 64) // infinite if it is too large, 0 if it is no number
	if !(seconds > 0) {                         // NaN is not positive either
		return 0
	}
	return time.Duration(min(seconds, longestAfter.Seconds()) * float64(time.Second))
}

// BadCertificate is what [Unreachable] returns for an untrusted certificate.
const BadCertificate = "the host's certificate is not trusted"

// Unreachable returns why a request got no response, without quoting anything.
func Unreachable(err error) string {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped while sending"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy of HTTPS_PROXY cannot be reached"
	case errors.As(err, new(*net.DNSError)):
		return "the host is not found"
	case errors.As(err, new(*tls.CertificateVerificationError)),
		errors.As(err, new(x509.UnknownAuthorityError)):
		return BadCertificate
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.As(err, &timeout) && timeout.Timeout(): // of a context too
		return "no answer in time"
	}
	return "the connection broke, or the other side does not follow the protocol"
}
