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
)

func TestWhatGoodAnswersShowedIsRemembered(t *testing.T) {
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
	if a.Served != 1 {
		t.Errorf("the older: %+v", a.Served)
	}
	if b.Served != 2 {
		t.Errorf("the newer: %+v", b.Served)
	}
	r1, _ := truth.Insertion("A100", "r1")
	r2, _ := truth.Insertion("A100", "r2")
	if r1.Served != 0 || r2.Served != 1 {
		t.Errorf("insertions %+v %+v", r1.Served, r2.Served)
	}
	log := m.Log(Filter{})
	if got := log[3]; !slices.Equal(got.Served, []string{second, first}) || got.AgencyID != "A100" || got.At != c.t {
		t.Errorf("%+v", got)
	}
	if got := log[4]; !slices.Equal(got.Served, []string{"r2"}) || got.Query.Get("pageSize") != "1" {
		t.Errorf("%+v", got)
	}
}

// TestWhoHangsUpBeforeTheLastByteIsNotServed cuts small and large answers, the
// latter beyond every buffer of net/http.
func TestWhoHangsUpBeforeTheLastByteIsNotServed(t *testing.T) {
	for _, message := range []string{"short", strings.Repeat("long ", 4000)} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(Options{KeepLog: true})
			publish(t, m, "A100", "r")
			id := add(t, m, "A100", "r", ContactRequest{Message: message})
			p := listen(t, New(m, steady(Flat())))
			served := func() int { synctest.Wait(); c, _ := m.Truth().ContactRequest(id); return c.Served }

			whole := p.exchange(t, contactRequestsPath("r"), -1)
			if got := served(); got != 1 {
				t.Fatalf("a whole answer: %+v", got)
			}
			head := bytes.Index(whole, []byte("\r\n\r\n")) + 4
			for _, n := range []int{0, 1, head - 1, head, head + 1, (head + len(whole)) / 2, len(whole) - 1} {
				p.exchange(t, contactRequestsPath("r"), n)
				if got := served(); got != 1 {
					t.Errorf("%d of %d bytes read: counted as served", n, len(whole))
				}
				log := m.Log(Filter{})
				if last := log[len(log)-1]; !last.Broken || len(last.Served) != 0 {
					t.Errorf("%d of %d bytes read: %+v", n, len(whole), last)
				}
			}
			p.exchange(t, contactRequestsPath("r"), len(whole))
			if got := served(); got != 2 {
				t.Errorf("the whole again: %+v", got)
			}
		})
	}
}

func TestAnAnswerUnderWayIsNotServedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{})
		publish(t, m, "A100", "r")
		id := add(t, m, "A100", "r", ContactRequest{Message: strings.Repeat("long ", 4000)})
		p := listen(t, New(m, Flat()))
		c := p.dial()
		defer c.Close()
		_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: ApiKey %s\r\n\r\n", contactRequestsPath("r"), testKey)
		must(t, err)
		_, err = io.CopyN(io.Discard, c, 10_000)
		must(t, err)
		synctest.Wait()
		if c, _ := m.Truth().ContactRequest(id); c.Served != 0 || m.Requests(Filter{}) != 0 {
			t.Errorf("half an answer: %+v", c.Served)
		}
		_, err = io.Copy(io.Discard, c)
		must(t, err)
		if c, _ := m.Truth().ContactRequest(id); c.Served != 1 || m.Requests(Filter{}) != 1 {
			t.Errorf("the whole answer: %+v", c.Served)
		}
	})
}

func TestRequestsAreCountedByAgencyOperationReferenceKeyAndStatus(t *testing.T) {
	m := newModel(Options{})
	m.AddKey(otherKey, "B200")
	publish(t, m, "A100", "a1", "a2")
	h := New(m, Flat())
	for range 3 {
		ask(h, testKey, insertionsPath("A100"))
	}
	ask(h, testKey, insertionsPath("B200"))
	ask(h, otherKey, insertionsPath("A100"))
	ask(h, otherKey, contactRequestsPath("a1"))
	ask(h, "invented", contactRequestsPath("a2"))
	for n := range 50 { // nothing that a stranger invents becomes a counter
		ask(h, fmt.Sprint("k", n), insertionsPath(fmt.Sprint("Z", n)))
		ask(h, testKey, contactRequestsPath(fmt.Sprint("unknown", n)))
		ask(h, testKey, fmt.Sprint("/path/", n))
	}
	for _, c := range []struct {
		filter Filter
		want   int
	}{
		{Filter{}, 157},
		{Filter{AgencyID: "A100"}, 6},
		{Filter{AgencyID: "A100", Operation: OperationInsertions}, 4},
		{Filter{AgencyID: "A100", Status: 403}, 3},
		{Filter{AgencyID: "B200"}, 1},
		{Filter{Reference: "a1"}, 1},
		{Filter{Key: "key-1", Status: 200}, 4},
		{Filter{Key: "key-2", Status: 403}, 2},
		{Filter{Status: 404}, 100},
		{Filter{AgencyID: "Z1"}, 0},
	} {
		if got := m.Requests(c.filter); got != c.want {
			t.Errorf("%+v: %d, want %d", c.filter, got, c.want)
		}
	}
	if got := len(m.counters); got > 10 {
		t.Errorf("%d counters", got)
	}
	total := 0
	for _, c := range m.Counts() {
		total += c.Requests
	}
	if total != 157 || !slices.Contains(m.Counts(), Count{Filter{AgencyID: "A100", Operation: OperationContactRequests, Key: "key-2", Status: 403}, 1}) {
		t.Errorf("%+v", m.Counts())
	}
}

func TestAFaultReplacesDelaysOrCutsAnAnswer(t *testing.T) {
	m := newModel(Options{KeepLog: true})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{Message: strings.Repeat("long ", 4000)})
	server := httptest.NewServer(New(m, Flat()))
	defer server.Close()
	get := func() (int, string, http.Header, error) {
		r, err := http.NewRequest(http.MethodGet, server.URL+contactRequestsPath("r"), nil)
		must(t, err)
		r.Header.Set("Authorization", "ApiKey "+testKey)
		answer, err := server.Client().Do(r)
		if err != nil {
			return 0, "", nil, err
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(b), answer.Header, err
	}
	var fault *Fault
	var calls []Call
	m.SetFault(func(c Call) *Fault { calls = append(calls, c); return fault })
	for name, c := range map[string]struct {
		fault  Fault
		status int
		body   string
		cut    bool
	}{
		"status and header": {Fault{Status: 503, Header: http.Header{"retry-after": {"7"}}}, 503, "", false},
		"status and body":   {Fault{Status: 403, Body: []byte("<html>")}, 403, "<html>", false},
		"body alone":        {Fault{Body: []byte("null")}, 200, "null", false},
		"no content":        {Fault{Status: 204}, 204, "", false},
		"cut in the body":   {Fault{Cut: 0.01}, 200, "", true},
		"cut a given body":  {Fault{Body: []byte(`{"a":1}`), Cut: 0.43}, 200, `{"a`, true},
		"cut its last byte": {Fault{Body: []byte(`{"a":1}`), Cut: 1}, 200, `{"a":1`, true},
		"cut before all":    {Fault{Cut: -1}, 0, "", true},
	} {
		fault = &c.fault
		status, body, header, err := get()
		if status != c.status || (err != nil) != c.cut || (!c.cut || c.body != "") && body != c.body {
			t.Errorf("%s: %d %q %v", name, status, body, err)
		}
		if c.fault.Header != nil && header.Get("Retry-After") != "7" {
			t.Errorf("%s: %v", name, header)
		}
		log := m.Log(Filter{})
		if last := log[len(log)-1]; last.Broken != c.cut || last.Status != c.status || len(last.Served) != 0 {
			t.Errorf("%s: logged as %+v", name, last)
		}
	}
	if c, _ := m.Truth().ContactRequest(id); c.Served != 0 {
		t.Errorf("served %d times", c.Served)
	}
	if c := calls[0]; c.AgencyID != "A100" || c.Reference != "r" || c.Operation != OperationContactRequests || c.Key != "key-1" {
		t.Errorf("%+v", c)
	}
	fault = &Fault{Header: http.Header{"X-Cache": {"stale"}}}
	if status, _, header, err := get(); status != 200 || err != nil || header.Get("X-Cache") != "stale" {
		t.Errorf("an honest answer with one header more: %d %v", status, err)
	}
	m.SetFault(nil)
	if status, _, _, err := get(); status != 200 || err != nil {
		t.Errorf("without faults: %d %v", status, err)
	}
	if c, _ := m.Truth().ContactRequest(id); c.Served != 2 {
		t.Errorf("served %d times, want 2", c.Served)
	}
}

func TestADelayEndsWithTheClientAndTellsTheTruthOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{KeepLog: true})
		publish(t, m, "A100", "r")
		p := listen(t, New(m, Flat()))
		m.SetFault(func(Call) *Fault { return &Fault{Delay: time.Hour} })

		began := time.Now()
		p.exchange(t, insertionsPath("A100"), 0) // hangs up at once
		synctest.Wait()
		if log := m.Log(Filter{}); len(log) != 1 || log[0].Status != 0 || !log[0].Broken || time.Since(began) != 0 {
			t.Errorf("%+v after %v", log, time.Since(began))
		}

		go func() {
			time.Sleep(time.Minute)
			_ = m.DeactivateKey(testKey)
		}()
		answer := p.exchange(t, insertionsPath("A100"), -1)
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 403 ")) || time.Since(began) != time.Hour {
			t.Errorf("%.20s after %v", answer, time.Since(began))
		}
		if log := m.Log(Filter{}); log[1].At != wall(began) {
			t.Errorf("arrived at %v, want %v", log[1].At, began)
		}
	})
}
