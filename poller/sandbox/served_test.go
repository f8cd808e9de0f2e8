package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings/listingstest"
)

func TestWhatGoodResponsesShowedIsRemembered(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now, KeepLog: true})
	m.AddKey(otherKey, "A100")
	h := New(m, Flat())
	publish(t, m, "A100", "r1", "r2")
	first := add(t, m, "A100", "r1", ContactRequest{CreatedAt: c.t.Add(-time.Second)})
	second := add(t, m, "A100", "r1", ContactRequest{})
	c.advance(time.Minute)
	ask(h, testKey, contactRequestsPath("r1")+"?numberOfItemsPerPage=1")
	ask(h, "wrong", contactRequestsPath("r1"))
	ask(h, testKey, contactRequestsPath("r1")+"?sortBy=nothing")
	c.advance(time.Minute)
	ask(h, otherKey, contactRequestsPath("r1"))
	ask(h, testKey, insertionsPath("A100")+"?pageSize=1")

	truth := m.Truth()
	a, _ := truth.ContactRequest(first)
	b, _ := truth.ContactRequest(second)
	r1, _ := truth.Insertion("A100", "r1")
	r2, _ := truth.Insertion("A100", "r2")
	if a.Served != 1 || b.Served != 2 || r1.Served != 0 || r2.Served != 1 {
		t.Errorf("served %d and %d times, insertions %d and %d times", a.Served, b.Served, r1.Served, r2.Served)
	}
	log := m.Log(Filter{})
	if got := log[3]; !slices.Equal(got.Served, []string{second, first}) || got.AgencyID != "A100" || got.At != c.t {
		t.Errorf("%+v", got)
	}
	if got := log[4]; !slices.Equal(got.Served, []string{"r2"}) || got.Query.Get("pageSize") != "1" {
		t.Errorf("%+v", got)
	}
}

// TestAClientThatHangsUpBeforeTheLastByteIsNotServed cuts small and large responses, the latter
// beyond every buffer of net/http.
func TestAClientThatHangsUpBeforeTheLastByteIsNotServed(t *testing.T) {
	for _, message := range []string{"short", strings.Repeat("long ", 4000)} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(Options{KeepLog: true})
			publish(t, m, "A100", "r")
			id := add(t, m, "A100", "r", ContactRequest{Message: message})
			p := listingstest.Serve(t, New(m, steady(Flat())))
			served := func() int { synctest.Wait(); c, _ := m.Truth().ContactRequest(id); return c.Served }

			whole := fetch(t, p, contactRequestsPath("r"), -1)
			if got := served(); got != 1 {
				t.Fatalf("a whole answer: %+v", got)
			}
			head := bytes.Index(whole, []byte("\r\n\r\n")) + 4
			for _, n := range []int{0, 1, head - 1, head, head + 1, (head + len(whole)) / 2, len(whole) - 1} {
				fetch(t, p, contactRequestsPath("r"), n)
				if got := served(); got != 1 {
					t.Errorf("%d of %d bytes read: counted as served", n, len(whole))
				}
				log := m.Log(Filter{})
				if last := log[len(log)-1]; !last.Broken || len(last.Served) != 0 {
					t.Errorf("%d of %d bytes read: %+v", n, len(whole), last)
				}
			}
		})
	}
}

func TestRequestsAreCountedByAgencyOperationReferenceKeyAndStatus(t *testing.T) {
	m := newModel(Options{})
	m.AddKey(otherKey, "B200")
	publish(t, m, "A100", "a1", "a2")
	h := New(m, Flat())
	for _, key := range []string{testKey, testKey, testKey, otherKey} {
		ask(h, key, insertionsPath("A100"))
	}
	ask(h, testKey, insertionsPath("B200"))
	ask(h, otherKey, contactRequestsPath("a1"))
	ask(h, "invented", contactRequestsPath("a2"))
	for n := range 50 { // nothing that a stranger invents becomes a counter
		ask(h, fmt.Sprint("k", n), insertionsPath(fmt.Sprint("Z", n)))
		ask(h, testKey, contactRequestsPath(fmt.Sprint("unknown", n)))
		ask(h, testKey, fmt.Sprint("/path/", n))
	}
	for filter, want := range map[Filter]int{
		{}:                 157,
		{AgencyID: "A100"}: 6,
		{AgencyID: "A100", Operation: OperationInsertions}: 4,
		{AgencyID: "A100", Status: 403}:                    3,
		{AgencyID: "B200"}:                                 1,
		{Reference: "a1"}:                                  1,
		{Key: "key-1", Status: 200}:                        4,
		{Key: "key-2", Status: 403}:                        2,
		{Status: 404}:                                      100,
		{AgencyID: "Z1"}:                                   0,
	} {
		if got := m.Requests(filter); got != want {
			t.Errorf("%+v: %d, want %d", filter, got, want)
		}
	}
	if got := len(m.Counts()); got > 10 {
		t.Errorf("%d counters", got)
	}
}

func TestAFaultReplacesDelaysOrCutsAResponse(t *testing.T) {
	m := newModel(Options{KeepLog: true})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{Message: strings.Repeat("long ", 4000)})
	server := httptest.NewServer(New(m, Flat()))
	defer server.Close()
	for name, c := range map[string]struct {
		fault  *Fault
		status int
		body   string // the beginning of it
		served int
	}{
		"status and header": {&Fault{Status: 503, Header: http.Header{"x-cache": {"stale"}}}, 503, "", 0},
		"status and body":   {&Fault{Status: 403, Body: []byte("<html>")}, 403, "<html>", 0},
		"body alone":        {&Fault{Body: []byte("null")}, 200, "null", 0},
		"no content":        {&Fault{Status: 204}, 204, "", 0},
		"cut in the body":   {&Fault{Cut: 0.01}, 200, "[", 0},
		"cut a given body":  {&Fault{Body: []byte(`{"a":1}`), Cut: 0.43}, 200, `{"a`, 0},
		"cut its last byte": {&Fault{Body: []byte(`{"a":1}`), Cut: 1}, 200, `{"a":1`, 0},
		"cut before all":    {&Fault{Cut: -1}, 0, "", 0},
		"a header more":     {&Fault{Header: http.Header{"X-Cache": {"stale"}}}, 200, "[", 1},
		"none":              {nil, 200, "[", 1},
	} {
		before, _ := m.Truth().ContactRequest(id)
		m.SetFault(func(Call) *Fault { return c.fault })
		r, err := http.NewRequest(http.MethodGet, server.URL+contactRequestsPath("r"), nil)
		must(t, err)
		r.Header.Set("Authorization", "ApiKey "+testKey)
		status, body := 0, []byte{}
		response, err := server.Client().Do(r)
		if err == nil {
			status = response.StatusCode
			body, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		cut := c.fault != nil && c.fault.Cut != 0
		if status != c.status || (err != nil) != cut || !strings.HasPrefix(string(body), c.body) || cut && len(body) > 1000 {
			t.Errorf("%s: %d %.99q %v", name, status, body, err)
		}
		if c.fault != nil && c.fault.Header != nil && response.Header.Get("X-Cache") != "stale" {
			t.Errorf("%s: %v", name, response.Header)
		}
		log := m.Log(Filter{})
		if last := log[len(log)-1]; last.Broken != cut || last.Status != c.status || len(last.Served) != c.served {
			t.Errorf("%s: logged as %+v", name, last)
		}
		if after, _ := m.Truth().ContactRequest(id); after.Served-before.Served != c.served {
			t.Errorf("%s: served %d times", name, after.Served-before.Served)
		}
	}
}

func TestADelayEndsWithTheClientAndTheResponseShowsTheStateAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{KeepLog: true})
		publish(t, m, "A100", "r")
		p := listingstest.Serve(t, New(m, Flat()))
		m.SetFault(func(Call) *Fault { return &Fault{Delay: time.Hour} })

		began := time.Now()
		fetch(t, p, insertionsPath("A100"), 0) // hangs up immediately
		synctest.Wait()
		if log := m.Log(Filter{}); len(log) != 1 || log[0].Status != 0 || !log[0].Broken || time.Since(began) != 0 {
			t.Errorf("%+v after %v", log, time.Since(began))
		}

		go func() {
			time.Sleep(time.Minute)
			_ = m.DeactivateKey(testKey)
		}()
		answer := fetch(t, p, insertionsPath("A100"), -1)
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 403 ")) || time.Since(began) != time.Hour {
			t.Errorf("%.20s after %v", answer, time.Since(began))
		}
		if log := m.Log(Filter{}); log[1].At != wall(began) {
			t.Errorf("arrived at %v, want %v", log[1].At, began)
		}
	})
}
