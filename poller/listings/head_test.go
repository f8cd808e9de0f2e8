package listings

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// heads are answers, most of them odd.
var heads = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 09:41:07 GMT\r\nContent-Type: application/json\r\ncontent-length:\t2 \r\nConnection: Keep-Alive\r\nVia: a\r\nvia: b\r\n\r\n[]",
	"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: x\r\n\r\n",
	"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n[]",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n[]", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nContent-Length: 0000000000000000000000002\r\n\r\n[]",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\n[]", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX\x00: a\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nX: ü\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 OK\r\nTrailer: Content-Length\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\n[]", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n[]",
	"HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200\t OK\r\nContent-Length: 2\r\n\r\n[]", "http/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "", "\r\n\r\n", "HTTP/1.1 \r\n\r\n",
	"HTTP/1.1 200 OK\r\nA:\r\nA: \r\nB!#$%&'*+-.^_`|~: x\r\nContent-Length: 2\r\n\r\n[]", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 5000) + "\r\nContent-Length: 2\r\n\r\n[]",
}

// reads is what an answer looks like to who reads it.
func reads(t *testing.T, resp *http.Response, rest io.Reader) map[string]any {
	t.Helper()
	if resp.Body == nil {
		resp.Body = io.NopCloser(io.LimitReader(rest, resp.ContentLength))
	}
	content, err := io.ReadAll(resp.Body)
	if err == nil && int64(len(content)) < resp.ContentLength && resp.StatusCode != http.StatusNotModified {
		err = io.ErrUnexpectedEOF
	}
	return map[string]any{
		"status": resp.Status, "code": resp.StatusCode, "proto": []any{resp.Proto, resp.ProtoMajor, resp.ProtoMinor},
		"header": resp.Header, "length": resp.ContentLength, "close": resp.Close, "body": string(content), "error": err,
		"trailer": len(resp.Trailer), "encoding": len(resp.TransferEncoding),
	}
}

// FuzzWhatIsPlainReadsAsNetHTTPReadsIt holds the one reader of headers against the other.
func FuzzWhatIsPlainReadsAsNetHTTPReadsIt(f *testing.F) {
	for _, h := range heads {
		f.Add([]byte(h))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := &conn{}
		c.in = bufio.NewReader(bytes.NewReader(answer))
		r := &http.Request{Method: http.MethodGet}
		resp, plain := c.plainHead(r)
		if !plain {
			if left, _ := io.ReadAll(c.in); !bytes.Equal(left, answer) {
				t.Fatalf("%q: %q is left", answer, left)
			}
			return
		}
		in := bufio.NewReader(bytes.NewReader(answer))
		other, err := http.ReadResponse(in, r)
		if err != nil {
			t.Fatalf("%q: net/http says %v", answer, err)
		}
		got, want := reads(t, resp, c.in), reads(t, other, nil)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q:\ngot  %v\nwant %v", answer, got, want)
		}
		left, _ := io.ReadAll(c.in)
		if also, _ := io.ReadAll(in); !bytes.Equal(left, also) {
			t.Fatalf("%q: %q is left, with net/http %q", answer, left, also)
		}
	})
}

func TestUsualAnswersArePlain(t *testing.T) {
	for n, h := range heads[:4] {
		c := &conn{in: bufio.NewReader(strings.NewReader(h))}
		if _, plain := c.plainHead(nil); !plain {
			t.Errorf("%d is not plain", n)
		}
	}
}
