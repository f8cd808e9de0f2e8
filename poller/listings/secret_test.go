package listings

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAKeyCannotPrintItself(t *testing.T) {
	type hidden struct{ key Key }
	type shown struct {
		Key  Key
		Keys map[string]Key
	}
	values := []any{testKey, &testKey, hidden{testKey}, &hidden{testKey}, shown{testKey, map[string]Key{"a": testKey}}, []Key{testKey}, fmt.Errorf("x %v", testKey)}
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	text := slog.New(slog.NewTextHandler(&out, nil))
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
		log.Info("x", "v", v)
		text.Info("x", "v", v)
	}
	if got := fmt.Sprintf("%d %v", testKey, testKey); got != "[redacted] [redacted]" {
		t.Error(got)
	}
	hex := fmt.Sprintf("%x", sentinelKey)
	if s := out.String(); strings.Contains(s, "SENTINEL") || strings.Contains(s, hex) || !strings.Contains(s, "[redacted]") {
		t.Error("the key was printed")
	}
}

func TestKeysCompareByValueAndHaveFingerprints(t *testing.T) {
	if NewKey("ab") != NewKey(strings.Join([]string{"a", "b"}, "")) || NewKey("a") == NewKey("b") || !NewKey("").IsZero() || (Key{}) != NewKey("") || NewKey("a").IsZero() {
		t.Error("comparison")
	}
	if got := NewKey("hello").Fingerprint(); got != "sha256:2cf24dba" {
		t.Error(got)
	}
	if (Key{}).Fingerprint() != "sha256:e3b0c442" {
		t.Error("the zero value")
	}
}

func TestAKeyThatCannotBeAHeaderIsNeverSent(t *testing.T) {
	a := serve(t, body("[]"))
	c := a.client(t)
	for _, text := range []string{"", "SENTINEL KEY", "SENTINEL\n", "SENTINEL\x00", "SENTINEL\x7f", "SENTINELä", "\tSENTINEL"} {
		key := NewKey(text)
		_, err := c.Insertions(t.Context(), key, "A100", InsertionsQuery{})
		if err == nil || key.Validate() == nil || strings.Contains(err.Error(), "SENTINEL") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if len(a.requests()) != 0 || testKey.Validate() != nil {
		t.Error("requests were sent, or a good key refused")
	}
}

// person is what must not come out of a body by way of an error.
const person = "SENTINEL-PERSON nora.beispiel@example.org 079 000 01 23"

func TestNoErrorQuotesABodyOrTheKey(t *testing.T) {
	var bodies []string
	for _, o := range odd {
		bodies = append(bodies, o, o+person, person+o, strings.ReplaceAll(o, `"x"`, quote(person)))
	}
	bodies = append(bodies,
		`{"`+person+`":1}`, `{"results":"`+person+`"}`, `[{"id":"`+person+`"}]`, `{"agencyId":"`+person+`","results":[]}`, `{"error":"`+person+`","`+sentinelKey+`":{}}`,
		`{"propertyReferenceId":"`+person+`","leads":[]}`, `{"leads":[{"propertyReferenceId":"`+person+`"}]}`, `{"`+person+`":{"a":1,"a":2}}`, `{"a":`+person+`}`,
		"[\""+person+"\\u12\"]", `{"`+person+`":`, "{\"a\":\""+person)
	var sent string
	var status int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", person)
		w.Header().Set("Retry-After", person)
		w.Header().Set("X-Total-Count", person)
		w.WriteHeader(status)
		fmt.Fprint(w, sent)
	}))
	defer server.Close()
	c := newClient(t, func(o *Options) { o.BaseURL = server.URL })
	defer c.closeIdle()
	for _, sent = range bodies {
		for _, status = range []int{200, 204, 301, 403} {
			_, err := c.insertions(t)
			_, err2 := c.contactRequests(t)
			assertNoSentinel(t, err)
			assertNoSentinel(t, err2)
			if status != 200 && (err == nil || err2 == nil) {
				t.Errorf("status %d gave no error", status)
			}
		}
	}
}

func assertNoSentinel(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, text := range []string{e.Error(), fmt.Sprintf("%+v %#v", e, e)} {
			if strings.Contains(text, "SENTINEL") || strings.Contains(text, "nora") || strings.Contains(text, "079") {
				t.Errorf("quotes what it read: %s", text)
			}
		}
	}
}
