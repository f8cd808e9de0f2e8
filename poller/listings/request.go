package listings

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Operation is one of the two operations of the API.
type Operation string

// The two operations.
const (
	OperationInsertions      Operation = "insertions"
	OperationContactRequests Operation = "contact_requests"
)

// Request says what was asked for, without how.
type Request struct {
	Operation Operation
	AgencyID  string
	Reference string // of contact requests
	Key       string // fingerprint of the key that is shown
}

// String names the request in errors: what of which agency.
func (r Request) String() string {
	if r.Reference == "" {
		return fmt.Sprintf("%s of agency %s", r.Operation, printable(r.AgencyID))
	}
	return fmt.Sprintf("%s of agency %s, insertion %s", r.Operation, printable(r.AgencyID), printable(r.Reference))
}

// printable keeps an identifier harmless in a log: quoted where it is odd, cut where it is long.
func printable(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "…"
	}
	if q := fmt.Sprintf("%+q", s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// Outcome is what came of a request, for metrics.
type Outcome struct {
	Status   int // 0 if there was no answer
	Err      error
	Duration time.Duration // without the time that Before took
}

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

// escape writes every byte as %XX but for the unreserved ones of RFC 3986. What escapes a little less (url.PathEscape leaves
// $&+,/:;=@ alone in places) is read in other ways by other servers.
func escape(segment string) string { return spaced(url.QueryEscape(segment)) }

// spaced is a query in which a space is %20, not +, which only forms understand.
func spaced(query string) string { return strings.ReplaceAll(query, "+", "%20") }

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

// header is what goes along with a request. One that is conditional keeps asking for a fresh look: what answers may be left
// out, but not stale.
func (c *Client) header(key Key, expect Expect) http.Header {
	h := http.Header{
		"Authorization":   {"ApiKey " + key.reveal()},
		"Accept":          {"application/json"},
		"Accept-Encoding": {"gzip"},
		"Cache-Control":   {"no-cache"},
		"User-Agent":      {"doorbell/" + c.o.Version},
	}
	if v := validator(expect.ETag); v != "" {
		h["If-None-Match"] = []string{v}
	}
	if v := validator(expect.LastModified); v != "" {
		h["If-Modified-Since"] = []string{v}
	}
	return h
}

func isConditional(h http.Header) bool {
	return h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != ""
}
