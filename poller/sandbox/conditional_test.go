package sandbox

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// again asks for something on a condition.
func again(h http.Handler, key, target, name, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Authorization", "ApiKey "+key)
	r.Header.Set(name, value)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestA304ServesWhatTheAnswerItStandsForHeld(t *testing.T) {
	for condition, validator := range map[string]string{"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"} {
		c := newClock()
		m := newModel(Options{Now: c.now, KeepLog: -1})
		m.AddKey(otherKey, "A100")
		publish(t, m, "A100", "r")
		first := add(t, m, "A100", "r", ContactRequest{})
		r := Flat() // whose body differs every time
		r.Conditional = true
		h := New(m, r)
		w := ask(h, testKey, contactRequestsPath("r"))
		value := w.Header().Get(validator)
		if w.Code != http.StatusOK || value == "" {
			t.Fatal(w.Code, w.Header())
		}
		c.advance(time.Minute)
		if w := again(h, testKey, contactRequestsPath("r"), condition, value); w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get(validator) != value {
			t.Errorf("%s, nothing changed: %d %s", condition, w.Code, w.Header())
		}
		if got, _ := m.Truth().ContactRequest(first); got.Served.Count != 2 {
			t.Errorf("served %d times", got.Served.Count)
		}
		if w := again(h, otherKey, contactRequestsPath("r"), condition, value); w.Code != http.StatusOK {
			t.Errorf("another key never had the answer: %d", w.Code)
		}
		if w := again(h, testKey, contactRequestsPath("r")+"?sortOrder=asc", condition, value); w.Code != http.StatusOK {
			t.Errorf("another question: %d", w.Code)
		}
		second := add(t, m, "A100", "r", ContactRequest{})
		if w := again(h, testKey, contactRequestsPath("r"), condition, value); w.Code != http.StatusOK {
			t.Errorf("%s, something new: %d", condition, w.Code)
		}
		if got, _ := m.Truth().ContactRequest(second); got.Served.Count != 1 {
			t.Errorf("the new one served %d times", got.Served.Count)
		}
		if last := m.Log(Filter{Status: 304}); len(last) != 1 || !slices.Equal(last[0].Served, []string{first}) {
			t.Errorf("%+v", last)
		}
	}
}

func TestAChangeInTheSameSecondIsNoReasonFor304(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	publish(t, m, "A100", "r")
	r := Flat()
	r.Conditional = true
	h := New(m, r)
	date := ask(h, testKey, contactRequestsPath("r")).Header().Get("Last-Modified")
	add(t, m, "A100", "r", ContactRequest{})
	if w := again(h, testKey, contactRequestsPath("r"), "If-Modified-Since", date); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
}

func TestOnlyARenderingThatIsToldSoIsConditional(t *testing.T) {
	m := newModel(Options{})
	h := New(m, Flat())
	if w := ask(h, testKey, insertionsPath("A100")); w.Header().Get("ETag") != "" || w.Header().Get("Last-Modified") != "" {
		t.Error(w.Header())
	}
	if w := again(h, testKey, insertionsPath("A100"), "If-None-Match", "*"); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
}

func TestAnAnswerThatDidNotArriveIsNoReasonFor304(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{})
		m.AddKey(otherKey, "A100")
		publish(t, m, "A100", "r")
		r := steady(Flat())
		r.Conditional = true
		h := New(m, r)
		p := listen(t, h)
		tag := ask(h, otherKey, contactRequestsPath("r")).Header().Get("ETag") // of the same answer
		whole := p.exchange(t, contactRequestsPath("r")+"?sortBy=score", -1)
		p.exchange(t, contactRequestsPath("r"), len(whole)-1)
		synctest.Wait()
		if w := again(h, testKey, contactRequestsPath("r"), "If-None-Match", tag); w.Code != http.StatusOK {
			t.Error(w.Code)
		}
		if w := again(h, testKey, contactRequestsPath("r"), "If-None-Match", tag); w.Code != http.StatusNotModified {
			t.Errorf("%d once it has arrived", w.Code)
		}
	})
}
