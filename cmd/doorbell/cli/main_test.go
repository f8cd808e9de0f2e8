package cli

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
)

// TestBytesAfterAResponseAreNotPrinted has a gateway whose Content-Length is too short.
func TestBytesAfterAResponseAreNotPrinted(t *testing.T) {
	t.Parallel()
	const person, list = "nora.beyond@example.org", `[{"propertyReferenceId":"a#1##"}]` // to look at which takes many requests
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { c.Close() })
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(list), list, person)
	}))
	t.Cleanup(api.Close)
	d := doorbelltest.Launch(t, doorbelltest.RunEnviron(t.TempDir(), api.URL, doorbelltest.TestKey, "A100"), "check")
	d.Exit(t)
	if said := d.Stdout.String() + d.Stderr.String(); strings.Contains(said, person) || !strings.Contains(said, "A100") {
		t.Errorf("it says:\n%s", said)
	}
}

// TestTheProxyOfTheEnvironmentIsUsedForHTTPS is about a proxy that refuses. It is not the API that
// does.
func TestTheProxyOfTheEnvironmentIsUsedForHTTPS(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:S3cret-of-proxy"))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect || r.Host != "api.invalid:443" || r.Header.Get("Proxy-Authorization") != login {
			t.Errorf("%s %s", r.Method, r.Host)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	for except, used := range map[string]bool{"": true, "example.org": true, "api.invalid": false} {
		asked.Store(0)
		environ := append(doorbelltest.RunEnviron(t.TempDir(), "https://api.invalid", doorbelltest.TestKey, "A100"),
			"HTTPS_PROXY="+strings.Replace(proxy.URL, "://", "://user:S3cret-of-proxy@", 1), "NO_PROXY="+except)
		d := doorbelltest.Launch(t, environ, "check")
		d.Exit(t)
		said := strings.Join(strings.Fields(d.Stdout.String()+d.Stderr.String()), " ")
		blamed := strings.Contains(said, "the proxy "+proxy.URL+" of HTTPS_PROXY does not connect to the API")
		if strings.Contains(said, "S3cret") || blamed != used || asked.Load() > 0 != used {
			t.Errorf("NO_PROXY=%s: the proxy gets %d requests, and the output is:\n%s", except, asked.Load(), said)
		}
	}
}
