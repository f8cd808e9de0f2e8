package listings

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

const sentinelKey = "0e9fa1b2-SENTINEL-KEY-4d5e-9c8b7a6f5e4d"

var testKey = NewKey(sentinelKey)

// api is a server that responds as it is configured, and remembers its requests.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // request lines
	heads []http.Header
}

func serve(t *testing.T, answer http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked = append(a.asked, r.Method+" "+r.RequestURI)
		a.heads = append(a.heads, r.Header.Clone())
		a.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

func (a *api) client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	return newClient(t, append([]func(*Options){func(o *Options) { o.BaseURL = a.URL }}, change...)...)
}

func newClient(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Version: "1.2.3", Gate: hooks{}}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.closeIdle)
	return c
}

func (c *Client) closeIdle() {
	if t, ok := c.o.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// body answers with status 200 and a body.
func body(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

func (c *Client) insertions(t *testing.T) (*InsertionsPage, error) {
	t.Helper()
	return c.Insertions(t.Context(), testKey, "A100", InsertionsQuery{PageSize: 50})
}

func (c *Client) contactRequests(t *testing.T) (*ContactRequestsPage, error) {
	t.Helper()
	return c.ContactRequests(t.Context(), testKey, "A100", "a#b##", ContactRequestsQuery{NumberOfItemsPerPage: 20, SortBy: "createdAt", SortOrder: "desc"})
}

// asking is a good response to a request of the operation.
func asking(o Operation, known Place, body string) *exchange {
	r := Request{Operation: o, AgencyID: "A100"}
	if o == OperationContactRequests {
		r.Reference = "a#b##"
	}
	return &exchange{request: r, place: known, status: 200, body: []byte(body)}
}

func decodeInsertions(t testing.TB, body string) (*InsertionsPage, error) {
	t.Helper()
	return bare(t).insertionsPage(asking(OperationInsertions, Place{}, body))
}

func decodeContactRequests(t testing.TB, body string) (*ContactRequestsPage, error) {
	t.Helper()
	return bare(t).contactRequestsPage(asking(OperationContactRequests, Place{}, body))
}

func bare(t testing.TB) *Client {
	t.Helper()
	c, err := New(Options{BaseURL: "https://api.example", Gate: hooks{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func quote(s string) string {
	q, _ := json.Marshal(s)
	return string(q)
}

// quiet keeps servers from printing what a test provokes.
var quiet = log.New(io.Discard, "", 0)

// valueOf decodes a JSON value.
func valueOf(raw string) value {
	v, wrong := decode([]byte(raw))
	if wrong != "" {
		panic(wrong)
	}
	return v
}

// hooks are a gate of which a test wants to know a part.
type hooks struct {
	wait func(Request) error
	done func(Outcome)
}

func (h hooks) Wait(_ context.Context, r Request) error {
	if h.wait == nil {
		return nil
	}
	return h.wait(r)
}

func (h hooks) Done(_ Request, o Outcome) {
	if h.done != nil {
		h.done(o)
	}
}

func printOf(r ContactRequest, reference string) [16]byte {
	print, _ := r.Prints(reference)
	return print
}
