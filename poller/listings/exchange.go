package listings

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
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
	buffer         *bytes.Buffer // that holds the body, to be used again; nil: nobody wants it back
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
	x, err := c.send(ctx, r, to, c.header(key, expect), sent)
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

// shownHeader is what goes along with every request that shows a key. No transport may change the header of a request, so
// many requests share it.
type shownHeader struct {
	key    Key
	header http.Header
}

func (c *Client) header(key Key, expect Expect) http.Header {
	last := c.shown.Load()
	if last == nil || last.key != key {
		last = &shownHeader{key, http.Header{
			"Authorization":   {"ApiKey " + key.reveal()},
			"Accept":          {"application/json"},
			"Accept-Encoding": {"gzip"},
			"Cache-Control":   {"no-cache"},
			"User-Agent":      {"doorbell/" + c.o.Version},
		}}
		c.shown.Store(last)
	}
	if expect.ETag == "" && expect.LastModified == "" {
		return last.header
	}
	h := last.header.Clone()
	expect.ask(h)
	return h
}

// request is what all requests have in common.
var request = &http.Request{Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// send makes the round trip. There is no http.Client, so nobody is there who could follow a redirect and take the
// Authorization header along.
func (c *Client) send(ctx context.Context, r Request, to *url.URL, header http.Header, sent time.Time) (*exchange, error) {
	l := &limit{Context: ctx, client: c, request: r, sent: sent, until: sent.Add(c.o.Timeout)}
	defer l.lift()
	req := request.WithContext(l)
	req.URL, req.Host, req.Header = to, to.Host, header
	resp, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		return nil, transportError(ctx, r, err)
	}
	defer resp.Body.Close()
	x := &exchange{request: r, status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusNotModified && isConditional(header) {
		return x, nil
	}
	if resp.StatusCode != http.StatusOK {
		return x, refusal(r, resp)
	}
	x.buffer = buffers.Get().(*bytes.Buffer)
	x.body, err = readBody(resp, c.o.MaxBody, x.buffer)
	if err == nil {
		return x, nil
	}
	var encoding errEncoding
	switch {
	case errors.As(err, &encoding):
		return x, &DriftError{Request: r, Expected: "gzip or no content encoding", Found: "another content encoding", Status: resp.StatusCode}
	case errors.Is(err, ErrBodyTooLarge):
		return x, &RequestError{r, err}
	}
	return x, transportError(ctx, r, err)
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

func dateOf(h http.Header) time.Time {
	t, err := http.ParseTime(strings.TrimSpace(h.Get("Date")))
	if err != nil {
		return time.Time{}
	}
	return t
}

// toldDate is what a Date header says.
type toldDate struct {
	text string
	at   time.Time
}

// date is dateOf, which need not read what many answers of the same second say.
func (c *Client) date(h http.Header) time.Time {
	text := h.Get("Date")
	if last := c.dated.Load(); last != nil && last.text == text {
		return last.at
	}
	at := dateOf(h)
	if !at.IsZero() {
		c.dated.Store(&toldDate{text, at})
	}
	return at
}

func (c *Client) envelope(x *exchange, size int) Envelope {
	e := Envelope{Total: -1, Date: c.date(x.header), Sent: x.sent, Received: x.received, Size: size}
	if x.status == http.StatusNotModified {
		e.NotModified = true
		return e
	}
	e.ETag, e.LastModified = validator(x.header.Get("Etag")), validator(x.header.Get("Last-Modified"))
	return e
}
