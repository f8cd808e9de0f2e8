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

func TestABodyIsBoundedAsReceivedUnpackedAndDecoded(t *testing.T) {
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
