package listings

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// exchange is one request and its good answer, the body read to its end.
type exchange struct {
	request        Request
	expect         Expect
	status         int
	header         http.Header
	body           []byte
	room           *room // that holds the body, to be used again; nil: records hold it
	sent, received time.Time
}

// ask sends one request. It returns a whole body with status 200, an answer that nothing has changed if expect allows for
// one, or one of the errors of this package.
func (c *Client) ask(ctx context.Context, key Key, r Request, query string, expect Expect) (*exchange, error) {
	r.Key = key.Fingerprint()
	if err := key.Validate(); err != nil {
		return nil, &RequestError{r, err}
	}
	to, err := c.address(r, query)
	if err != nil {
		return nil, &RequestError{r, err}
	}
	if err := c.o.Before(ctx, r); err != nil {
		return nil, &RequestError{r, err}
	}
	sent := time.Now()
	x, err := c.send(ctx, r, to, c.header(key, expect))
	received := time.Now()
	outcome := Outcome{Err: err, Duration: received.Sub(sent)}
	if x != nil {
		outcome.Status = x.status
		x.sent, x.received, x.expect = sent, received, expect
	}
	c.o.After(r, outcome)
	if err != nil {
		x.release()
		return nil, err
	}
	return x, nil
}

// send makes the round trip. There is no http.Client, so nobody is there who could follow a redirect and take the
// Authorization header along.
func (c *Client) send(ctx context.Context, r Request, to *url.URL, header http.Header) (*exchange, error) {
	limited, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	passed := time.Now()
	tried := &attempts{cancel: cancel, admit: func(again bool) error { return c.admit(limited, r, passed, again) }}
	req := (&http.Request{Method: http.MethodGet, URL: to, Header: header}).WithContext(tried.watched(limited))
	resp, err := c.o.Transport.RoundTrip(req)
	switch {
	case err == nil:
	case tried.refused == nil:
		broken := transportError(ctx, r, err, tried.connected)
		if broken.Stage != StageCanceled && isOfProxy(err) {
			broken.Err = &proxyError{proxyName(to), broken.Err}
		}
		return nil, broken
	case errors.Is(tried.refused, context.DeadlineExceeded):
		return nil, transportError(ctx, r, tried.refused, true) // to be admitted took too long
	default:
		return nil, &RequestError{r, tried.refused}
	}
	defer resp.Body.Close()
	x := &exchange{request: r, status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusNotModified && isConditional(header) {
		return x, nil
	}
	if resp.StatusCode != http.StatusOK {
		return x, refusal(r, resp)
	}
	x.room = rooms.Get().(*room)
	x.body, err = readBody(resp, c.o.MaxBody, &x.room.body)
	if err == nil {
		return x, nil
	}
	switch {
	case errors.Is(err, errEncoding):
		return x, &DriftError{Request: r, Expected: "gzip or no content encoding", Found: "another content encoding", Status: resp.StatusCode}
	case errors.Is(err, ErrBodyTooLarge):
		return x, &RequestError{r, err}
	}
	return x, transportError(ctx, r, err, true)
}

// admit stands in front of every attempt of a request.
func (c *Client) admit(ctx context.Context, r Request, passed time.Time, again bool) error {
	switch {
	case c.o.Attempt != nil:
		return c.o.Attempt(ctx, r, passed, again)
	case again:
		return c.o.Before(ctx, r)
	}
	return nil
}

// refusal is the error for every status but 200.
func refusal(r Request, resp *http.Response) error {
	kind := bodyKind(resp) // also reads a small body to its end, so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return &DriftError{Request: r, Expected: "status 200", Found: http.StatusText(resp.StatusCode), Status: resp.StatusCode}
	}
	date := dateOf(resp.Header)
	now := date
	if now.IsZero() {
		now = time.Now()
	}
	return &StatusError{
		Request: r, Status: resp.StatusCode, Body: kind, Date: date,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now),
	}
}

// decode reads the body.
func (x *exchange) decode() (root value, wrong string) {
	return x.room.document.decode(trimBOM(x.body))
}

func dateOf(h http.Header) time.Time {
	t, err := http.ParseTime(strings.TrimSpace(h.Get("Date")))
	if err != nil {
		return time.Time{}
	}
	return t
}

// retryAfter reads the header: seconds, or a moment, which is counted from now. What is negative, past or cannot be read
// is 0; what is too long to say is the longest duration there is.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header != "" && strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

func (c *Client) envelope(x *exchange, size int) Envelope {
	e := Envelope{Total: -1, Date: dateOf(x.header), Sent: x.sent, Received: x.received, Size: size}
	if x.status == http.StatusNotModified {
		e.NotModified = true
		return e
	}
	e.ETag, e.LastModified = validator(x.header.Get("Etag")), validator(x.header.Get("Last-Modified"))
	return e
}
