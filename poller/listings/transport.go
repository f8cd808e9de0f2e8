package listings

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newTransport is bounded in every respect that http.DefaultTransport leaves open. Proxies from the environment count for
// https only, where they cannot read the key.
func newTransport(timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: min(timeout, 10*time.Second), KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    min(timeout, 10*time.Second),
		ResponseHeaderTimeout:  min(timeout, 20*time.Second),
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // we unpack ourselves, bounded
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    64,
		MaxConnsPerHost:        256, // what waits for a connection waits after the budget; so there are more than ever needed
		IdleConnTimeout:        90 * time.Second,
	}
}

func proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}
