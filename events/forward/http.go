package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// This file is what receivers that post over HTTP have in common. Each decides by itself what a
// response means.

// Poster posts to one address, which may be a secret. Its client is bounded in every respect, and
// follows no redirect, which would carry people's data to another host. It uses the proxies of the
// environment only for https, where they cannot read the data.
type Poster struct {
	address *url.URL
	client  *http.Client
}

// Errors of NewPoster. They quote nothing: an address may contain a token.
var (
	ErrAddress   = errors.New("this is no address to post to; write it like https://hooks.example.com/doorbell")
	ErrPlaintext = errors.New("the address speaks plain http to another machine, which would show people's data to everybody on the way; write https://, or allow its host by name")
)

// NewPoster parses an address. It must be https, unless its host is this machine or allowed by name. No
// network call is made.
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
			DisableCompression:     true, // the decompressed response would have to be bounded too
			MaxIdleConns:           1,
			IdleConnTimeout:        20 * time.Second, // below that of common load balancers
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Destination returns the name of the address for [Traits].
func (p Poster) Destination() string { return Destination(p.address.Hostname(), p.address.String()) }

// Post sends a body. Its error is a *Retry with a reason of our own wording, because network errors quote
// the address. A request that was written completely may have been accepted though no response came.
func (p Poster) Post(ctx context.Context, header http.Header, body []byte) (*http.Response, error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { written.Store(i.Err == nil) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, p.address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Retry{Reason: "the request cannot be made", Receiver: true} // does not happen: NewPoster parsed the address
	}
	request.Header = header
	response, err := p.client.Do(request)
	if err != nil {
		whole := written.Load()
		return nil, &Retry{Reason: cmp.Or(Unreachable(err), "the connection failed"), Receiver: !whole, Unanswered: whole}
	}
	return response, nil
}

// Close closes idle connections.
func (p Poster) Close() { p.client.CloseIdleConnections() }

// MayBePlain reports whether plain http is allowed to a host: to this machine, and to hosts allowed by
// name.
func MayBePlain(host string, allowed []string) bool {
	if strings.EqualFold(host, "localhost") || slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Hook is the address of a webhook that posts into a chat.
type Hook struct {
	// URL is https, unless its host is loopback or in AllowPlaintext. It is a secret.
	URL            string
	AllowPlaintext []string
	// UserAgent names us to the other side; empty is "doorbell".
	UserAgent string
}

// Service is what is particular to a chat service.
type Service struct {
	Pace   time.Duration
	Digest int
	Render func(Delivery) ([]byte, error)
	// Word finds the service's own word for what went wrong in the body of a response, and Words says
	// what each word is about. No other word is ever quoted.
	Word  func(body []byte) string
	Words map[string]About
	// Renew says what to do about a webhook that does not work any more.
	Renew string
}

// About is what went wrong, by the word of a service. Without a word the status decides.
type About int

const (
	OfMessage About = iota + 1
	OfWebhook
	OfMoment
)

// Messenger is the receiver for one webhook of a chat: each delivery is one message. It is safe for
// concurrent use.
type Messenger struct {
	Poster
	service Service
	agent   string
}

// NewMessenger makes a receiver. No network call is made.
func NewMessenger(h Hook, s Service) (*Messenger, error) {
	poster, err := NewPoster(h.URL, h.AllowPlaintext)
	if err != nil {
		return nil, err
	}
	return &Messenger{poster, s, cmp.Or(h.UserAgent, "doorbell")}, nil
}

// Traits returns the pace and the digests of the service, and a name that is a hash of the address.
func (m *Messenger) Traits() Traits {
	return Traits{Destination: m.Destination(), Pace: m.service.Pace, Digest: m.service.Digest}
}

const (
	// messageTimeout bounds a request where the caller allows more.
	messageTimeout = 30 * time.Second
	// mostRead is more than any word of an error needs. Of a longer body, that of a captive portal for
	// example, the rest is not read.
	mostRead = 4 << 10
)

// Send posts the delivery as one message. A chat cannot tell that a message is sent twice.
func (m *Messenger) Send(ctx context.Context, d Delivery) error {
	if len(d.Events) == 0 {
		return &Refused{Reason: "a delivery without an event", Certain: true}
	}
	body, err := m.service.Render(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	response, err := m.Post(ctx, http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {m.agent}}, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return m.outcome(response, time.Now())
}

// outcome returns what a response means. The service's own word decides where there is one. Any other
// 2xx is accepted.
func (m *Messenger) outcome(response *http.Response, now time.Time) error {
	// A body that breaks off contains no word; the status decides then.
	body, _ := io.ReadAll(io.LimitReader(response.Body, mostRead))
	word := m.service.Word(body)
	status, about := response.StatusCode, m.service.Words[word]
	if status >= 200 && status < 300 && about == 0 {
		return nil
	}
	reason := fmt.Sprintf("status %d", status)
	if about != 0 {
		reason += ", " + word
	}
	switch {
	case about == OfWebhook, status == http.StatusGone:
		return &Retry{Receiver: true, Reason: reason + ": the webhook does not work any more; " + m.service.Renew}
	case about == OfMessage && status < 500 && status != http.StatusTooManyRequests, ofContent(status):
		return &Refused{Reason: reason, Certain: status == http.StatusRequestEntityTooLarge}
	case status >= 300 && status < 400:
		reason += ": a redirect, which is not followed"
	}
	return &Retry{After: RetryAfter(response, now), Receiver: about == OfMoment || OfReceiver(status), Reason: reason}
}

// ofContent reports whether a status is about the message, whatever service it comes from.
func ofContent(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType || status == http.StatusUnprocessableEntity
}

// OfReceiver reports whether a status is about the address or the account and not about the message, so
// that any other message would get it too.
func OfReceiver(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusGone, http.StatusTooManyRequests:
		return true
	}
	return status >= 300 && status < 400
}

// RetryAfter returns the Retry-After of a response, at most an hour; 0 if there is none that is valid.
func RetryAfter(response *http.Response, now time.Time) time.Duration {
	value := strings.TrimSpace(response.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if !(seconds > 0) { // NaN is not positive either
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

// BadCertificate is what [Unreachable] returns for an untrusted certificate.
const BadCertificate = "the host's certificate is not trusted"

// Unreachable returns why a request got no response, without quoting anything; empty: unknown.
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
