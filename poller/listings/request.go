package listings

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
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
	return fmt.Sprintf("%s of agency %s, insertion %s", r.Operation, printable(r.AgencyID),
		printable(r.Reference))
}

// printable keeps an identifier harmless in a log: quoted where it is odd, cut where it is long.
func printable(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "…"
	}
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// Outcome is the outcome of a request, for metrics.
type Outcome struct {
	Status   int // 0 if there was no response
	Err      error
	Duration time.Duration // without the time that Gate.Wait took
}

// ErrReference is wrapped by the error for a reference or an agency id that cannot be asked for:
// empty, "." or ".." (also between slashes, where a proxy might take it for a step), with a control
// character, or longer than 4 KiB.
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

// escape writes every byte as %XX but for the unreserved ones of RFC 3986. What escapes a little
// less (url.PathEscape leaves $&+,/:;=@ alone in places) is read in other ways by other servers.
func escape(segment string) string { return spaced(url.QueryEscape(segment)) }

// spaced is a query in which a space is %20, not +, which only forms understand.
func spaced(query string) string { return strings.ReplaceAll(query, "+", "%20") }

// address makes the URL of a request. Path and RawPath are set together, so that the request line
// is byte by byte ours.
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

// header is what goes along with a request. None is conditional: that nothing has changed is seen
// in the response itself, and an API that is wrong about its own changes hides nothing.
func (c *Client) header(key Key) http.Header {
	h := maps.Clone(c.always)
	h["Authorization"] = []string{"ApiKey " + key.reveal()}
	return h
}

// exchange is one request and its good response, the body read to its end.
type exchange struct {
	request  Request
	host     string // of the API
	place    Place  // of earlier responses
	page     int    // that was asked for; 0: none
	status   int
	header   http.Header
	body     []byte // in room
	room     *room
	received time.Time
	sum      Sum
}

// Sum is a hash of a response, of this process. Responses of equal sums to requests of one kind are
// read alike.
type Sum [16]byte

var sumSeed = maphash.MakeSeed()

// sumFor hashes what decides how the response to a query is read.
func (x *exchange) sumFor(query string) (sum Sum) {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	maphash.WriteComparable(&h, x.place)
	maphash.WriteComparable(&h, [2]string{query, strings.Join(x.header.Values("Link"), ",")})
	maphash.WriteComparable(&h, headerTotal(x.header))
	maphash.WriteComparable(&h, x.declaresFailure())
	_, _ = h.Write(x.body)
	binary.BigEndian.PutUint64(sum[:], h.Sum64())
	return sum
}

// drop ends the use of the body.
func (x *exchange) drop() {
	if x.room.body.Cap() <= maxRoom {
		rooms.Put(x.room)
	}
	x.body, x.room = nil, nil
}

// ask sends one request. It returns a whole body with status 200, or one of the errors of this
// package.
func (c *Client) ask(ctx context.Context, key Key, r Request, query string, p Place) (*exchange, error) {
	r.Key = key.Fingerprint()
	if err := key.Validate(); err != nil {
		return nil, &RequestError{r, err}
	}
	to, err := c.address(r, query)
	if err != nil {
		return nil, &RequestError{r, err}
	}
	if err := c.o.Gate.Wait(ctx, r); err != nil {
		return nil, &RequestError{r, err}
	}
	sent := time.Now()
	x, err := c.send(ctx, r, to, c.header(key))
	received := time.Now()
	outcome := Outcome{Err: err, Duration: received.Sub(sent)}
	if x != nil {
		outcome.Status = x.status
	}
	c.o.Gate.Done(r, outcome)
	if err != nil {
		return nil, err
	}
	x.received, x.place = received, p
	x.sum = x.sumFor(query)
	return x, nil
}

// send makes the round trip. There is no http.Client, so nothing follows a redirect and takes the
// Authorization header along.
func (c *Client) send(ctx context.Context, r Request, to *url.URL, header http.Header) (*exchange, error) {
	limited, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req := (&http.Request{Method: http.MethodGet, URL: to, Header: header}).WithContext(limited)
	resp, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		broken := transportError(ctx, r, err)
		if broken.Stage != StageCanceled && isOfProxy(err) {
			broken.Err = ofProxy(to, broken.Err)
		}
		return nil, broken
	}
	defer resp.Body.Close()
	x := &exchange{
		request: r, host: c.base.Host, status: resp.StatusCode, header: resp.Header,
		room: rooms.Get().(*room),
	}
	if resp.StatusCode != http.StatusOK {
		defer x.drop()
		return x, x.refusal(resp)
	}
	if x.body, err = x.room.readGood(resp, c.o.MaxBody); err == nil {
		return x, nil
	}
	x.drop()
	switch {
	case errors.Is(err, errEncoding):
		return x, x.drift("gzip or no content encoding", "another content encoding")
	case errors.Is(err, ErrBodyTooLarge), is[*http.MaxBytesError](err):
		return x, &RequestError{r, ErrBodyTooLarge}
	}
	return x, transportError(ctx, r, err)
}

// mostErrorBody is how much of the body of an error response is looked at. A longer one costs the
// connection.
const mostErrorBody = 64 << 10

// refusal is the error for every status but 200.
func (x *exchange) refusal(resp *http.Response) error {
	kind := BodyOther
	body, err := x.room.read(io.LimitReader(resp.Body, mostErrorBody), resp.Header, mostErrorBody)
	if err == nil || len(body) > 0 { // what can be read of it is enough to judge
		kind = KindOfBody(body, resp.Header.Get("Content-Type"))
	}
	if resp.StatusCode/100 == 2 {
		return x.drift("status 200", http.StatusText(resp.StatusCode))
	}
	now := readDate(resp.Header.Get("Date"))
	if now.IsZero() {
		now = time.Now()
	}
	return &StatusError{
		Request: x.request, Status: resp.StatusCode, Body: kind,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now),
	}
}

func readDate(header string) time.Time {
	t, _ := http.ParseTime(strings.TrimSpace(header))
	return t
}

// retryAfter reads the header: seconds, or a moment, which is counted from now. What is negative,
// past or cannot be read is 0; what is too long to say is the longest duration there is.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	seconds, err := strconv.ParseUint(header, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), seconds > math.MaxInt64/uint64(time.Second):
		return math.MaxInt64
	case err == nil:
		return time.Duration(seconds) * time.Second
	}
	return max(0, readDate(header).Sub(now)) // of no date at all this is long ago
}

// errEncoding is about one that we did not ask for.
var errEncoding = errors.New("unknown content encoding")

// room is where a body is unpacked and read. It is used again, as most bodies say what was said
// before.
type room struct {
	packed bufio.Reader
	gzip   gzip.Reader
	body   bytes.Buffer
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// maxRoom is the largest body whose room is used again.
const maxRoom = 1 << 20

// ReadBody reads the body of a response to its end, unpacked and in UTF-8. Neither as it comes nor
// as it is unpacked may it be larger than most.
func ReadBody(resp *http.Response, most int64) ([]byte, error) { return new(room).readGood(resp, most) }

func (m *room) readGood(resp *http.Response, most int64) ([]byte, error) {
	if resp.ContentLength > most {
		return nil, ErrBodyTooLarge
	}
	body, err := m.read(bounded(resp.Body, most), resp.Header, most)
	if err != nil {
		return nil, err
	}
	return inUTF8(body, resp.Header.Get("Content-Type"), most)
}

func bounded(r io.Reader, most int64) io.Reader {
	return http.MaxBytesReader(nil, io.NopCloser(r), most)
}

// read returns what it could read beside an error.
func (m *room) read(r io.Reader, h http.Header, most int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ","))) {
	case "", "identity":
	case "gzip", "x-gzip":
		m.packed.Reset(r)
		if err := m.gzip.Reset(&m.packed); err != nil {
			return nil, err
		}
		r = &m.gzip
	default:
		return nil, errEncoding
	}
	m.body.Reset()
	_, err := m.body.ReadFrom(bounded(r, most))
	return m.body.Bytes(), err
}

var declaredCharset = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?([^"';\s]+)`)

// inUTF8 decodes a body from the charset that its content type declares. JSON is UTF-8 whatever is
// declared: only what cannot be UTF-8 is decoded, and a charset that is unknown changes nothing.
func inUTF8(body []byte, contentType string, most int64) ([]byte, error) {
	declared := declaredCharset.FindStringSubmatch(contentType)
	if declared == nil || utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return body, nil
	}
	charset, err := htmlindex.Get(declared[1])
	if err != nil || charset == unicode.UTF8 {
		return body, nil
	}
	decoder := unicode.BOMOverride(charset.NewDecoder())
	return io.ReadAll(bounded(transform.NewReader(bytes.NewReader(body), decoder), most))
}

// KindOfBody is what the body of an error response is, as a [StatusError] names it.
func KindOfBody(body []byte, contentType string) BodyKind {
	body = bytes.TrimSpace(trimBOM(body))
	root, wrong := decode(body)
	_, isAddress := root.object().get("url").text()
	isPage := len(body) > 0 && body[0] == '<' ||
		strings.Contains(strings.ToLower(contentType), "html")
	switch {
	case len(body) == 0:
		return BodyNone
	case wrong == "" && isAddress && len(root.object()) == 1:
		return BodyChallenge // a bot wall that responds with nothing but the address of its test
	case wrong == "":
		return BodyJSON
	case isPage && challengeWords.Match(body):
		return BodyChallenge
	case isPage:
		return BodyHTML
	}
	return BodyOther
}

var challengeWords = regexp.MustCompile(
	`(?i)captcha|are you (?:a robot|human)|you are (?:a )?human|not a robot|` +
		`enable javascript and cookies|unusual traffic|bot detection`)

func trimBOM(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\uFEFF")) }
