package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"doorbell/poller/listings/listingstest"
)

const (
	testKey  = "3f1b7a52-0d5e-4c58-9a0e-5f0f2d1c7e11"
	otherKey = "9d2c4e10-7b6a-4f3d-8c21-1a2b3c4d5e6f"
)

// clock is a time that moves only when it is set.
type clock struct{ t time.Time }

func newClock() *clock                   { return &clock{time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)} }
func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }
func steady(r Rendering) Rendering       { r.Steady = true; return r }

func publish(t testing.TB, m *Model, a string, refs ...string) {
	t.Helper()
	for _, ref := range refs {
		must(t, m.Publish(a, Insertion{Reference: ref}))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newModel has agencies A100 and B200, both linked to testKey.
func newModel(o Options) *Model {
	m := NewModel(o)
	m.AddAgency("A100")
	m.AddAgency("B200")
	m.AddKey(testKey, "A100", "B200")
	return m
}

func add(t testing.TB, m *Model, agencyID, ref string, c ContactRequest) string {
	t.Helper()
	id, err := m.AddContactRequest(agencyID, ref, c)
	must(t, err)
	return id
}

func insertionsPath(agencyID string) string {
	return "/insertion-funnel/integration/" + url.PathEscape(agencyID) + "/insertions"
}

func contactRequestsPath(ref string) string {
	return "/ubm-contact-request/property/" + url.PathEscape(ref)
}

// ask sends one request with the key, straight to the handler.
func ask(h http.Handler, key, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if key != "" {
		r.Header.Set("Authorization", "ApiKey "+key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// decoded fails the test unless the answer is a good one.
func decoded[T any](t testing.TB, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); w.Code != http.StatusOK || err != nil {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	return v
}

// listed are the references on a page of the flat rendering.
func listed(h http.Handler, agencyID, query string) []string {
	return shown(h, insertionsPath(agencyID)+"?"+query, "propertyReferenceId")
}

// ids are those of contact requests in the flat rendering.
func ids(h http.Handler, ref, query string) []string {
	return shown(h, contactRequestsPath(ref)+"?"+query, "id")
}

// shown are the texts of a member in a good response; of another one the status.
func shown(h http.Handler, target, name string) []string {
	w := ask(h, testKey, target)
	if w.Code != http.StatusOK {
		return []string{fmt.Sprint("status ", w.Code)}
	}
	return texts(w.Body.Bytes(), name)
}

// fetch sends a request and hangs up after n bytes of the answer, which have no buffer at all;
// negative: at its end. It returns what it read.
func fetch(t testing.TB, p *listingstest.Pipes, target string, n int) []byte {
	t.Helper()
	c, err := p.Dial(t.Context(), "", "")
	must(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: ApiKey %s\r\n\r\n", target, testKey)
	must(t, err)
	b := make([]byte, max(n, 0))
	if n < 0 {
		b, err = io.ReadAll(c)
	} else {
		_, err = io.ReadFull(c, b)
	}
	must(t, err)
	return b
}
