package listings

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

// transportTo returns what speaks to a base URL: our own transport, unless there is a proxy in between or a host name that
// needs more than to be written down.
func transportTo(base string, timeout time.Duration) http.RoundTripper {
	u, err := url.Parse(base)
	if err != nil {
		return NewTransport(TransportOptions{Timeout: timeout}) // is never asked
	}
	via, err := proxy(&http.Request{URL: u})
	if via != nil || err != nil || !isSendable(u.Host, '%') {
		return newProxied(timeout)
	}
	return NewTransport(TransportOptions{Timeout: timeout})
}

// newProxied is bounded in every respect that http.DefaultTransport leaves open. Proxies from the environment count for
// https only, where they cannot read the key.
func newProxied(timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: min(timeout, connectWithin), KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    min(timeout, handshakeWithin),
		ResponseHeaderTimeout:  headerOf(timeout),
		MaxResponseHeaderBytes: mostHeader,
		DisableCompression:     true, // we unpack ourselves, bounded
		MaxIdleConns:           mostIdle,
		MaxIdleConnsPerHost:    mostIdle,
		MaxConnsPerHost:        mostUnderWay,
		IdleConnTimeout:        2 * reapEvery,
	}
}

func proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}
