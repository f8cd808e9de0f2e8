package listings

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// What a transport is bounded by.
const (
	// 64 polls and a walk of each agency: of more than 190 agencies some wait here while the API
	// hangs
	mostConnections = 256
	mostIdle        = 64
	mostHeader      = 64 << 10
	connectWithin   = 10 * time.Second
	// Less than any balancer: net/http sends a request again whose kept connection the other side
	// has closed.
	idleFor = 20 * time.Second
	// An HTTP/2 connection carries all requests. One that has gone silent is asked for a sign of
	// life after this time, and closed if it gives none: else every request on it would have to run
	// into its own limit.
	silentFor, aliveWithin = 15 * time.Second, 10 * time.Second
)

// NewTransport makes the transport of a Client: HTTP/1.1, or HTTP/2 where TLS offers it. It is
// bounded in every respect that http.DefaultTransport leaves open. Proxies from the environment
// count for https only, where they cannot read the key. Without authorities of its own it trusts
// the system's.
func NewTransport(timeout time.Duration, authorities *x509.CertPool) *http.Transport {
	timeout = cmp.Or(max(timeout, 0), defaultTimeout)
	connect := min(timeout, connectWithin)
	return &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: connectedByProxy,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: aliveWithin},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
		TLSHandshakeTimeout:    connect,
		// Nearly all of the time, for an API that takes its time sends the body immediately after
		// the header.
		ResponseHeaderTimeout:  timeout - min(time.Second/2, timeout/10),
		MaxResponseHeaderBytes: mostHeader,
		DisableCompression:     true, // we unpack ourselves, bounded
		MaxIdleConns:           mostIdle,
		MaxIdleConnsPerHost:    mostIdle,
		MaxConnsPerHost:        mostConnections,
		IdleConnTimeout:        idleFor,
	}
}

func proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// ofProxy is an error about the way to the proxy, or its response, and not about the API. It names
// the proxy without its user and password.
func ofProxy(to *url.URL, err error) error {
	name := ""
	if u, failed := proxy(&http.Request{URL: to}); failed == nil && u != nil {
		name = " " + u.Scheme + "://" + u.Host
	}
	return fmt.Errorf("the proxy%s of HTTPS_PROXY does not connect to the API: %w", name, err)
}

// connectedByProxy reports a proxy that refuses as what it is: its response may say anything, and
// is not the API's.
func connectedByProxy(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return errProxy
	}
	return nil
}
