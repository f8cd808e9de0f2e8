package sandbox

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

// torture holds what a path cannot bear unescaped.
var torture = []string{
	"seefeld#1203#H2#0305", "a#b##", "a##c#d", "###x", "#", "####", "A/B#1##", "50%#a", "%23", "%2523", "a%2Fb",
	"bäcker#1##", "Haus am See#12 b##", "a+b#c&d=e?f;g", `q"u<o>t\e`, "..", ".", "../x", "a//b", "日本#🏠##", "a:b@c", "~!*'()",
}

func TestAReferenceSurvivesThePath(t *testing.T) {
	m := newModel(Options{KeepLog: true})
	server := httptest.NewServer(New(m, steady(Flat())))
	defer server.Close()
	for _, ref := range torture {
		publish(t, m, "A100", ref)
		want := add(t, m, "A100", ref, ContactRequest{})
		r, err := http.NewRequest(http.MethodGet, server.URL+contactRequestsPath(ref), nil)
		must(t, err)
		r.Header.Set("Authorization", "ApiKey "+testKey)
		answer, err := server.Client().Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		log := m.Log(Filter{})
		got := log[len(log)-1]
		if answer.StatusCode != 200 || got.Reference != ref || len(got.Served) != 1 || got.Served[0] != want {
			t.Errorf("%q: status %d, reference %q", ref, answer.StatusCode, got.Reference)
		}
	}
}

func TestAnUnescapedReferenceAsksForSomethingElse(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "a/b", "50%25", "a#b")
	h := New(m, Flat())
	for path, want := range map[string]int{"a/b": 404, "50%25": 404 /* decodes to 50% */, "a#b": 400, "ä": 400, `"`: 400} {
		if w := ask(h, testKey, "/ubm-contact-request/property/"+path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestAnyReferenceIsDecodedExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("#/%ä .;?+&\\\"~2F35")), rapid.Rune())).
			Filter(func(s string) bool { return s != "" }).Draw(t, "reference")
		call, ok := parsePath("/ubm-contact-request/property/" + url.PathEscape(ref))
		if !ok || call.Reference != ref {
			t.Fatalf("%q became %q, %v", ref, call.Reference, ok)
		}
	})
}

func TestTheSameReferenceOfTwoAgenciesIsTwoInsertions(t *testing.T) {
	m := newModel(Options{})
	m.AddKey("only-b", "B200")
	m.AddKey("neither", "C300")
	publish(t, m, "A100", "x#1##")
	publish(t, m, "B200", "x#1##")
	a := add(t, m, "A100", "x#1##", ContactRequest{})
	b := add(t, m, "B200", "x#1##", ContactRequest{})
	h := New(m, Flat())
	for key, want := range map[string]string{testKey: a, "only-b": b} {
		got := decoded[[]map[string]any](t, ask(h, key, contactRequestsPath("x#1##")))
		if len(got) != 1 || got[0]["id"] != want {
			t.Errorf("%s sees %v, want %s", key, got, want)
		}
	}
	if w := ask(h, "neither", contactRequestsPath("x#1##")); w.Code != http.StatusForbidden {
		t.Errorf("status %d for a key of another agency", w.Code)
	}
	must(t, m.Withdraw("A100", "x#1##"))
	if got := listed(t, h, "B200", "").references(); len(got) != 1 {
		t.Errorf("B200 lists %v after A100 withdrew its own", got)
	}
}

func TestWhatAWithdrawnInsertionAnswersIsASwitch(t *testing.T) {
	for status, want := range map[int]int{0: 200, 404: 404, 403: 403, 410: 410} {
		m := newModel(Options{WithdrawnStatus: status})
		publish(t, m, "A100", "r")
		add(t, m, "A100", "r", ContactRequest{})
		must(t, m.Withdraw("A100", "r"))
		w := ask(New(m, Flat()), testKey, contactRequestsPath("r"))
		if w.Code != want || want == http.StatusOK && len(under(t, w.Body.Bytes(), "id")) != 1 {
			t.Errorf("WithdrawnStatus %d: %d %s, want %d", status, w.Code, w.Body, want)
		}
	}
}
