package listings

import (
	"errors"
	"net/url"
	"strings"
)

// ErrReference is wrapped by the error for a reference or an agency id that cannot be asked for: empty, "." or ".."
// (also between slashes, where a proxy might take it for a step), with a control character, or longer than 4 KiB.
var ErrReference = errors.New("identifier that cannot be put into a path")

const maxReference = 4 << 10

func checkSegment(s string) error {
	if s == "" || len(s) > maxReference || strings.ContainsFunc(s, isControl) {
		return ErrReference
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(s, `\`, "/"), "/") {
		if part == "." || part == ".." {
			return ErrReference
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// escape writes one path segment: every byte as %XX but for the unreserved ones of RFC 3986. What escapes a little less
// (url.PathEscape leaves $&+,/:;=@ alone in places) is read in other ways by other servers.
func escape(segment string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, 128)
	for i := range len(segment) {
		c := segment[i]
		if isUnreserved(c) {
			b = append(b, c)
			continue
		}
		b = append(b, '%', hex[c>>4], hex[c&15])
	}
	return string(b)
}

func isUnreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '.' || c == '~'
}

// address makes the URL of a request. Path and RawPath are set together, so that the request line is byte by byte ours.
func (c *Client) address(r Request, query string) (*url.URL, error) {
	before, segment, after := "/insertion-funnel/integration/", r.AgencyID, "/insertions"
	if r.Operation == OperationContactRequests {
		before, segment, after = "/ubm-contact-request/property/", r.Reference, ""
	}
	if err := checkSegment(segment); err != nil {
		return nil, err
	}
	u := *c.base
	u.Path = c.base.Path + before + segment + after
	u.RawPath = c.base.RawPath + before + escape(segment) + after
	u.RawQuery = query
	return &u, nil
}

// encodeQuery sorts by name. A space is %20, not +, which only forms understand.
func encodeQuery(v url.Values) string { return strings.ReplaceAll(v.Encode(), "+", "%20") }
