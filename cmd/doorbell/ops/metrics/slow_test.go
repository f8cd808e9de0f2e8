package metrics

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

func TestWhoReadsNoMetricsKeepsOutNoScrape(t *testing.T) {
	const readers = 40
	began, asked := time.Now(), 0
	s := ops.Status{}
	for n := range 500 {
		s.Watch.Agencies = append(s.Watch.Agencies, poller.AgencyStatus{AgencyID: fmt.Sprint("A", n), State: "watching"})
	}
	inner := Handler(ops.Shared(func() (ops.Status, error) { asked++; return s, nil }))
	begun, left := make(chan struct{}, readers), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "slow" {
			w = &deaf{w, begun, left}
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer close(left)
	for range readers {
		c, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: slow\r\nAccept-Encoding: gzip\r\n\r\n")
		<-begun
	}
	r, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); r.StatusCode != http.StatusOK || len(b) < 100_000 || err != nil {
		t.Errorf("%s: %d bytes, %v", r.Status, len(b), err)
	}
	if asked > 1+int(time.Since(began)/time.Second) { // each second another one is shared
		t.Errorf("the status was asked for %d times", asked)
	}
}

// deaf is somebody who does not read.
type deaf struct {
	http.ResponseWriter
	begun, left chan struct{}
}

func (d *deaf) Write([]byte) (int, error) {
	d.begun <- struct{}{}
	<-d.left
	return 0, io.ErrClosedPipe
}
