package ops

import (
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
	{method: "GET", path: "/v1/status"},
	{method: "GET", path: "/debug/pprof/goroutine?debug=1"},
	{method: "GET", path: "/v1/events"},
	{method: "HEAD", path: "/events"}, // a GET does not end
	{method: "GET", path: "/backup"},
	{method: "GET", path: "/v1/poll"},
	{method: "POST", path: "/v1/poll", body: `{"agencyId":"A100"}`, acts: true},
	{method: "POST", path: "/v1/resume", body: `{"agencyId":"A100"}`, acts: true},
	{method: "POST", path: "/v1/approve", body: `{"agencyId":"A100"}`, acts: true},
	{method: "POST", path: "/any", public: true}, // there is nothing
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
			got := to.ask(t, p.method, p.path, p.body)
			if refused := got.StatusCode == http.StatusUnauthorized; refused == p.public {
				t.Errorf("%s: %s %s without the token: %s", via.name, p.method, p.path, got.Status)
			}
			if !p.public && (strings.Contains(got.body, "the status") || strings.Contains(got.body, "the page") || got.body == "the feed") {
				t.Errorf("%s: %s %s without the token shows %q", via.name, p.method, p.path, got.body)
			}
			got = to.ask(t, p.method, p.path, p.body, withToken...)
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
			got := s.ask(t, p.method, p.path, p.body, headers...)
			want := !p.public && (p.acts || headers != nil)
			if refused := got.StatusCode == http.StatusForbidden; refused != want {
				t.Errorf("%s: %s %s: %s", name, p.method, p.path, got.Status)
			}
		}
	}
	if back := s.raw(t, "GET /v1/status HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"); !strings.HasPrefix(back, "HTTP/1.0 403") {
		t.Errorf("HTTP/1.0, as nginx sends it: %s", back)
	}
	if s.verbs() != "" {
		t.Errorf("done: %s", s.verbs())
	}
}
