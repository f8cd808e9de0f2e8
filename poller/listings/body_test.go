package listings

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

func TestABodyIsNoLargerThanAllowedAsItComesOrUnpackedOrDecoded(t *testing.T) {
	record := func(n int, char string) string {
		return `[{"propertyReferenceId":"a","x":"` + strings.Repeat(char, n) + `"}]`
	}
	for _, row := range []struct {
		name, encoding string
		body           []byte
		large          bool
	}{
		{"bomb", "gzip", gzipped(strings.Repeat("[", 1<<20)), true},
		{"packed", "gzip", append(gzipped("[]"), bytes.Repeat(gzipped(""), 20_000)...), true},
		{"packed, in another spelling", "X-GZIP", gzipped("[]"), false},
		{"plain", "", bytes.Repeat([]byte(" "), 70_000), true},
		{"plain, and as large as allowed", "", append([]byte("[]"), bytes.Repeat([]byte(" "), 1<<16-2)...), false},
		{"a byte that is three of UTF-8", "", []byte(record(1<<15, "\x80")), true},
		{"fewer of them", "", []byte(record(1<<14, "\x80")), false},
	} {
		for _, length := range []bool{true, false} {
			a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=windows-1252")
				if row.encoding != "" {
					w.Header().Set("Content-Encoding", row.encoding)
				}
				if !length {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(row.body)
			})
			page, err := a.client(t, func(o *Options) { o.MaxBody = 1 << 16 }).insertions(t)
			if errors.Is(err, ErrBodyTooLarge) != row.large || (page == nil) != row.large {
				t.Errorf("%s: %v", row.name, err)
			}
		}
	}
}

func TestACharsetIsReadAsItIsDeclared(t *testing.T) {
	for declared, want := range map[string]string{
		"application/json; charset=ISO-8859-1": "é", "text/json;CHARSET = 'latin1'": "é", `application/json; charset="windows-1252"; profile=x`: "é",
		"application/json; charset=windows-1251": "й", "application/json": "\xe9", "application/json; charset=utf-8": "\xe9",
		"application/json; charset=none": "\xe9", "application/json; charset=": "\xe9", "application/json; xcharset=latin1": "\xe9",
	} {
		if got, err := inUTF8([]byte("\xe9"), declared, 100); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", declared, got, err, want)
		}
	}
	for _, body := range []string{"", "é", "\ufeff[]", "\x00"} {
		if got, err := inUTF8([]byte(body), "a/b; charset=latin1", 100); err != nil || string(got) != body {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
}

// closing answers with a body that knows whether it was closed.
type closing struct {
	io.Reader
	status int
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func (c *closing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{}, Body: c, ContentLength: -1}, nil
}

func TestEveryBodyIsClosed(t *testing.T) {
	for _, status := range []int{200, 204, 301, 403, 500} {
		for _, length := range []int{0, 1000, 1 << 20} {
			a := &closing{Reader: strings.NewReader(strings.Repeat(" ", length)), status: status}
			_, _ = newClient(t, func(o *Options) {
				o.BaseURL, o.Transport, o.MaxBody = "https://api.example", a, 10_000
			}).insertions(t)
			if a.closed == 0 {
				t.Errorf("status %d, %d bytes: not closed", status, length)
			}
		}
	}
}

func TestABodyCutAnywhereIsNeverAPage(t *testing.T) {
	whole := `{"results":[{"propertyReferenceId":"a"},{"propertyReferenceId":"b"}],"total":2}`
	for _, framing := range []string{"length", "chunked", "close"} {
		for cut := range len(whole) {
			conn := raw(t, "http://localhost", func(c net.Conn) {
				switch framing {
				case "length":
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole[:cut])
				case "chunked":
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(whole), whole[:cut])
				case "close":
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", whole[:cut])
				}
			})
			page, err := conn.insertions(t)
			if page != nil || !is[*TransportError](err) && !is[*DriftError](err) {
				t.Fatalf("%s, cut at %d: %v", framing, cut, err)
			}
		}
	}
}
