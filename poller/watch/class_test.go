package watch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// TestEveryStatusHasItsClass asks a real server for every status there is.
func TestEveryStatusHasItsClass(t *testing.T) {
	aside := []int{400, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 431}
	for code := 101; code < 600; code++ {
		if code > 101 && code < 200 {
			continue // interim answers: net/http waits for the final one
		}
		want := ClassTransient
		switch {
		case code == 200, code/100 == 2:
			want = ClassDrift // 200 without a body is no list, other 2xx are no answer of this API
		case code == 401, code == 403:
			want = ClassRefused
		case code == 429:
			want = ClassBusy
		case slices.Contains(aside, code):
			want = ClassAside
		}
		got := Classify(ask(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		if got != want {
			t.Errorf("%d is %q, want %q", code, got, want)
		}
	}
}

func TestRetryAfterMakesA503BusyAndIsKeptInBounds(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for value, want := range map[string]struct {
		means       Class
		least, most time.Duration
	}{
		"":                                  {ClassTransient, 0, 0},
		"0":                                 {ClassTransient, 0, 0},
		"-5":                                {ClassTransient, 0, 0},
		"soon":                              {ClassTransient, 0, 0},
		"1":                                 {ClassBusy, time.Second, time.Second},
		"120":                               {ClassBusy, 2 * time.Minute, 2 * time.Minute},
		"86400":                             {ClassBusy, time.Hour, time.Hour},
		"99999999999999999999":              {ClassBusy, time.Hour, time.Hour},
		date(10 * time.Minute):              {ClassBusy, 9 * time.Minute, 10 * time.Minute},
		date(-time.Hour):                    {ClassTransient, 0, 0},
		date(240 * time.Hour):               {ClassBusy, time.Hour, time.Hour},
		"Fri, 31 Dec 9999 23:59:59 GMT":     {ClassBusy, time.Hour, time.Hour},
		"Fri, 31 Feb 2026 25:61:61 Nowhere": {ClassTransient, 0, 0},
	} {
		err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			if value != "" {
				w.Header().Set("Retry-After", value)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		if got := Classify(err); got != want.means {
			t.Errorf("503 with Retry-After %q is %q, want %q", value, got, want.means)
		}
		if got := RetryAfter(err); got < want.least || got > want.most {
			t.Errorf("Retry-After %q waits %s, want %s to %s", value, got, want.least, want.most)
		}
	}
}

// TestEveryBreakHasItsClass breaks a real connection at every stage.
func TestEveryBreakHasItsClass(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct {
		base  string
		serve http.HandlerFunc
		want  Class
	}{
		"nobody listens":      {"http://" + closed.Addr().String(), nil, ClassDown},
		"an unknown host":     {"https://nobody.invalid", nil, ClassDown},
		"no answer in time":   {"", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ClassTransient},
		"half a header":       {"", raw("HTTP/1.1 200 OK\r\nContent-Ty"), ClassTransient},
		"no HTTP":             {"", raw("220 mail.example.org ESMTP\r\n"), ClassTransient},
		"closed at once":      {"", raw(""), ClassTransient},
		"a header flood":      {"", raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 200) + "\r\n"), ClassTransient},
		"a body that is cut":  {"", raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"propertyRef"), ClassTransient},
		"a chunk that is cut": {"", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n[{"), ClassTransient},
		"a body that stalls":  {"", stalling, ClassTransient},
		"a redirect": {"", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example", http.StatusFound)
		}, ClassTransient},
		"a body too large":       {"", func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte(" "), 2<<20)) }, ClassAside},
		"a gzip bomb":            {"", bomb, ClassAside},
		"damaged gzip":           {"", gzipped([]byte("no gzip at all")), ClassTransient},
		"an unknown encoding":    {"", encoded("br"), ClassDrift},
		"HTML":                   {"", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, ClassDrift},
		"an empty body":          {"", func(http.ResponseWriter, *http.Request) {}, ClassDrift},
		"null":                   {"", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "null") }, ClassDrift},
		"trailing garbage":       {"", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[] []") }, ClassDrift},
		"an answer as it should": {"", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }, ClassNone},
	} {
		t.Run(name, func(t *testing.T) {
			if c.serve != nil {
				within := long
				if name == "no answer in time" || name == "a body that stalls" {
					within = time.Second
				}
				if err := askWithin(t, within, c.serve); Classify(err) != c.want {
					t.Errorf("%v is %q, want %q", err, Classify(err), c.want)
				}
				return
			}
			if err := askAt(t, long, c.base, nil); Classify(err) != c.want {
				t.Errorf("%v is %q, want %q", err, Classify(err), c.want)
			}
		})
	}
}

func TestACertificateThatCannotBeVerifiedIsDown(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	if err := askAt(t, long, s.URL, nil); Classify(err) != ClassDown {
		t.Errorf("%v is %q", err, Classify(err))
	}
}

func TestTheKeyNeverFollowsARedirect(t *testing.T) {
	var stolen atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		err := ask(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, code) })
		if err == nil || stolen.Load() != 0 {
			t.Errorf("%d: %v; %d requests followed it", code, err, stolen.Load())
		}
	}
}

func TestWhatIsNotTheAPIsDoingHasItsClass(t *testing.T) {
	for want, errs := range map[Class][]error{
		ClassCanceled: {context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded), &listings.TransportError{Stage: listings.StageCanceled, Err: context.Canceled}, &listings.TransportError{Stage: listings.StageDial, Err: context.Canceled}},
		ClassHalted:   {&listings.RequestError{Err: ErrHalted}},
		ClassWaiting:  {&listings.RequestError{Err: &WaitError{}}},
		ClassAside:    {&listings.RequestError{Err: listings.ErrReference}, &listings.RequestError{Err: listings.ErrBodyTooLarge}},
		ClassFatal:    {errors.New("something else"), store.ErrUnknownOutcome, store.ErrNoSpace, store.ErrDamaged},
	} {
		for _, err := range errs {
			if got := Classify(err); got != want {
				t.Errorf("%v is %q, want %q", err, got, want)
			}
		}
	}
}

// long is enough for every answer that comes, on a busy machine too.
const long = 30 * time.Second

// ask puts one question to a handler, over a real connection.
func ask(t *testing.T, h http.HandlerFunc) error {
	t.Helper()
	return askWithin(t, long, h)
}

func askWithin(t *testing.T, within time.Duration, h http.HandlerFunc) error {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	defer s.Close()
	return askAt(t, within, s.URL, s)
}

func askAt(t *testing.T, within time.Duration, base string, s *httptest.Server) error {
	t.Helper()
	if s != nil {
		defer s.CloseClientConnections()
	}
	c, err := listings.New(listings.Options{BaseURL: base, Timeout: within, MaxBody: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Insertions(t.Context(), listings.NewKey("11111111-2222-4333-8444-555555555555"), "A100", listings.InsertionsQuery{})
	return err
}

// raw answers with these bytes and closes the connection.
func raw(bytes string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, bytes)
	}
}

func stalling(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "[")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func gzipped(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(body)
	}
}

func encoded(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", name)
		fmt.Fprint(w, "[]")
	}
}

// bomb is small as it comes and larger than allowed when unpacked.
func bomb(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 4 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	gzipped(b.Bytes())(w, r)
}
