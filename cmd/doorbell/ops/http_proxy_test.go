package ops

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// httpPaths is every path of the HTTP server. A request needs the token where one is configured, unless the path is public;
// without a configured token, only paths that read are served.
var httpPaths = []struct {
	method, path, body string
	public, acts       bool
}{
	{method: "GET", path: "/livez", public: true},
	{method: "GET", path: "/readyz", public: true},
	{method: "GET", path: "/metrics", public: true},
	{method: "GET", path: "/schemas", public: true},
	{method: "GET", path: "/schemas/a.json", public: true},
	{method: "GET", path: "/"},
	{method: "GET", path: "/large"},
	{method: "GET", path: "/healthz"},
	{method: "GET", path: "/status"},
	{method: "HEAD", path: "/events"}, // a GET does not end
	{method: "GET", path: "/backup", acts: true},
	{method: "POST", path: "/poll", body: `{"agencyId":"A100"}`, acts: true},
	{method: "POST", path: "/resume", body: `{"agencyId":"A100"}`, acts: true},
	{method: "POST", path: "/approve", body: `{"agencyId":"A100"}`, acts: true},

	{method: "POST", path: "/any", acts: true},
	{method: "POST", path: "/actions/poll", body: "agency=A100", acts: true},
	{method: "POST", path: "/actions/resume", body: "agency=A100", acts: true},
	{method: "POST", path: "/actions/approve", body: "agency=A100", acts: true},
}

// newProxy passes requests on as nginx does with its defaults: the Host of its target, and no X-Forwarded header. It serves
// the target below prefix.
func newProxy(t *testing.T, target, prefix string) *httptest.Server {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := httptest.NewServer(http.StripPrefix(prefix, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}))
	t.Cleanup(p.Close)
	return p
}

func TestAConfiguredTokenIsNeededOnEveryPathThatIsNotPublic(t *testing.T) {
	s := open(t, here, testToken)
	for _, via := range []struct{ name, url string }{
		{"direct", s.url},
		{"through a proxy", newProxy(t, s.url, "").URL},
		{"through a proxy, below a path", newProxy(t, s.url, "/doorbell").URL + "/doorbell"},
	} {
		to := &site{url: via.url, log: s.log}
		for _, p := range httpPaths {
			got := to.ask(t, p.method, p.path, p.body, "Content-Type", asForm)
			if refused := got.StatusCode == http.StatusUnauthorized; refused == p.public {
				t.Errorf("%s: %s %s without the token: %s", via.name, p.method, p.path, got.Status)
			}
			if !p.public && (strings.Contains(got.body, "the status") || strings.Contains(got.body, "the page") || got.body == "backup") {
				t.Errorf("%s: %s %s without the token shows %q", via.name, p.method, p.path, got.body)
			}
			got = to.ask(t, p.method, p.path, p.body, append([]string{"Content-Type", asForm}, withToken...)...)
			if got.StatusCode == http.StatusUnauthorized || got.StatusCode == http.StatusForbidden {
				t.Errorf("%s: %s %s with the token: %s", via.name, p.method, p.path, got.Status)
			}
		}
	}
}

func TestWithoutATokenNothingCanBeDoneAndAVisibleProxySeesNothing(t *testing.T) {
	s := open(t, here, "")
	for _, p := range httpPaths {
		for name, headers := range map[string][]string{"direct": nil, "a proxy that says so": {"X-Forwarded-For", "192.0.2.1"}} {
			got := s.ask(t, p.method, p.path, p.body, append([]string{"Content-Type", asForm}, headers...)...)
			want := !p.public && (p.acts || headers != nil)
			if refused := got.StatusCode == http.StatusForbidden; refused != want {
				t.Errorf("%s: %s %s: %s", name, p.method, p.path, got.Status)
			}
		}
	}
	if back := s.raw(t, "GET /status HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"); !strings.HasPrefix(back, "HTTP/1.0 403") {
		t.Errorf("HTTP/1.0, as nginx sends it: %s", back)
	}
	if s.verbs() != "" {
		t.Errorf("done: %s", s.verbs())
	}
}

// A browser follows the redirect of an action, through a proxy that knows nothing of it.
func TestAnActionLeadsBackToThePageBelowAnyPath(t *testing.T) {
	s := open(t, here, testToken)
	for prefix, action := range map[string]string{"": "poll", "/doorbell": "resume", "/a/b": "approve"} {
		p := newProxy(t, s.url, prefix)
		r, err := http.NewRequest("POST", p.URL+prefix+"/actions/"+action, strings.NewReader("agency=A100"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", asForm)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.SetBasicAuth("any", testToken)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		at := response.Request.URL
		if err != nil || response.StatusCode != http.StatusOK || string(body) != "the page" || at.Path != prefix+"/" || at.Query().Get("done") == "" {
			t.Errorf("below %q: %s at %s: %q %v", prefix, response.Status, at, body, err)
		}
	}
	for _, verb := range []string{"poll A100", "resume A100", "approve A100"} {
		if !strings.Contains(s.verbs(), verb) {
			t.Errorf("%s was not done: %s", verb, s.verbs())
		}
	}
}
