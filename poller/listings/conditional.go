package listings

import (
	"net/http"
	"strings"
)

// maxValidator bounds what is remembered of an answer to ask for the next one with.
const maxValidator = 256

// validator is a validator as it was sent, or empty if it is too long or holds what no header should.
func validator(s string) string {
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if s = strings.TrimSpace(s); len(s) > maxValidator || strings.ContainsFunc(s, odd) {
		return ""
	}
	return s
}

// ask makes a request conditional. It keeps asking for a fresh look: what answers may be left out, but not stale.
func (e Expect) ask(h http.Header) {
	for name, value := range map[string]string{"If-None-Match": e.ETag, "If-Modified-Since": e.LastModified} {
		if value = validator(value); value != "" {
			h.Set(name, value)
		}
	}
}

func isConditional(h http.Header) bool {
	return h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != ""
}
