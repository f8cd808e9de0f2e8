package listings

import (
	"errors"
	"net/http"
	"net/url"
)

// errUnsendable is a request that would be another one on the wire.
var errUnsendable = errors.New("the request holds what cannot be sent")

// appendRequest writes a request as it is sent.
func appendRequest(b []byte, r *http.Request) ([]byte, error) {
	whole := len(b)
	b = append(b, "GET "...)
	target := len(b)
	b = appendTarget(b, r.URL)
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	if !isSendable(b[target:], ' ') || !isSendable(host, ' ') {
		return b[:whole], errUnsendable
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	for name, values := range r.Header {
		for _, value := range values {
			if !isSendable(name, ' ') || !isSendable(value, 0x1f) {
				return b[:whole], errUnsendable
			}
			b = append(b, "\r\n"...)
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
		}
	}
	return append(b, "\r\n\r\n"...), nil
}

// appendTarget writes what is asked for. A raw path is taken as it is: URL.RequestURI would unescape all of it to see
// whether it fits the path.
func appendTarget(b []byte, u *url.URL) []byte {
	switch {
	case u.RawPath != "":
		b = append(b, u.RawPath...)
	case u.Path == "":
		b = append(b, '/')
	default:
		b = append(b, u.EscapedPath()...)
	}
	if u.RawQuery != "" {
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	return b
}

// isSendable says whether a text is not empty and holds no control character, nothing up to most, and nothing but ASCII.
func isSendable[text string | []byte](s text, most byte) bool {
	for n := range len(s) {
		if s[n] <= most || s[n] >= 0x7f {
			return false
		}
	}
	return len(s) > 0
}
