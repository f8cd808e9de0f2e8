package listings

import (
	"bytes"
	"math"
	"net/http"
	"net/textproto"
	"strings"
)

// plainHead reads the header of an answer in which nothing is out of the ordinary, as almost all are: HTTP/1.1, whole in
// the first piece that was read, its length told, the connection kept. Of anything else it says that it is none, and
// reads nothing: net/http reads that, which takes three times as long. What it does read, net/http would read alike.
func (c *conn) plainHead(r *http.Request) (resp *http.Response, plain bool) {
	if _, err := c.in.Peek(1); err != nil {
		return nil, false
	}
	read, _ := c.in.Peek(c.in.Buffered())
	end := bytes.Index(read, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, false
	}
	resp, plain = parseHead(string(read[:end]))
	if plain {
		resp.Request = r
		_, _ = c.in.Discard(end + len("\r\n\r\n"))
	}
	return resp, plain
}

// parseHead is plainHead for a text without its last two line ends.
func parseHead(head string) (*http.Response, bool) {
	const version = "HTTP/1.1 "
	line, rest, _ := strings.Cut(head, "\r\n")
	if len(line) < len(version)+4 || line[:len(version)] != version || !isText(line) {
		return nil, false
	}
	resp := &http.Response{Status: line[len(version):], Proto: version[:len(version)-1], ProtoMajor: 1, ProtoMinor: 1}
	var ok bool
	if resp.StatusCode, ok = plainStatus(resp.Status); !ok {
		return nil, false
	}
	if resp.Header, ok = plainHeader(rest); !ok {
		return nil, false
	}
	if resp.StatusCode == http.StatusNotModified {
		resp.Body = http.NoBody
		return resp, lengthOf(resp.Header) >= -1
	}
	if resp.ContentLength = lengthOf(resp.Header); resp.ContentLength == 0 {
		resp.Body = http.NoBody
	}
	return resp, resp.ContentLength >= 0
}

// plainStatus is the status of an answer that has a body or is 304.
func plainStatus(s string) (status int, ok bool) {
	for n := range 3 {
		if s[n] < '0' || s[n] > '9' {
			return 0, false
		}
		status = 10*status + int(s[n]-'0')
	}
	return status, s[3] == ' ' && status >= 200 && status != http.StatusNoContent
}

// plainHeader reads the lines of a header, none of which says anything of how the body comes but its length.
func plainHeader(text string) (http.Header, bool) {
	lines := strings.Count(text, "\r\n") + 1
	h, values := make(http.Header, lines), make([]string, 0, lines)
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) || !isText(value) {
			return nil, false
		}
		value = strings.Trim(value, " \t")
		name = textproto.CanonicalMIMEHeaderKey(name)
		before := h[name]
		switch name {
		case "Transfer-Encoding", "Trailer", "Pragma":
			return nil, false
		case "Connection":
			if before != nil || !strings.EqualFold(value, "keep-alive") {
				return nil, false
			}
		case "Content-Length":
			if before != nil {
				return nil, false
			}
		}
		if before != nil {
			h[name] = append(before, value)
			continue
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return h, true
}

// lengthOf is what a header tells of the length of the body: -1 if nothing, -2 if nothing plain.
func lengthOf(h http.Header) int64 {
	told, ok := h["Content-Length"]
	if !ok {
		return -1
	}
	n := int64(0)
	for _, digit := range []byte(told[0]) {
		if digit < '0' || digit > '9' || n > math.MaxInt64/100 {
			return -2
		}
		n = 10*n + int64(digit-'0')
	}
	if told[0] == "" {
		return -2
	}
	return n
}

// isToken says whether a text is what the name of a header may be.
func isToken(s string) bool {
	for n := range len(s) {
		if c := s[n]; !isUnreserved(c) && strings.IndexByte("!#$%&'*+^`|", c) < 0 || c >= 0x80 {
			return false
		}
	}
	return s != ""
}

// isText says whether a text is one line of printable ASCII.
func isText(s string) bool {
	for n := range len(s) {
		if s[n] < ' ' && s[n] != '\t' || s[n] >= 0x7f {
			return false
		}
	}
	return true
}
