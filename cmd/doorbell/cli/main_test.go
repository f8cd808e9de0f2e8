package cli

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
)

// TestWhatAServerSaysBeyondItsAnswerIsNotPrinted is about a gateway that tells a length too short.
func TestWhatAServerSaysBeyondItsAnswerIsNotPrinted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const person, list = "nora.beyond@example.org", `[{"propertyReferenceId":"a#1##"}]` // to look at which takes many requests
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(list), list, person)
				}
			}()
		}
	}()
	d := doorbelltest.Launch(t, []string{
		"DOORBELL_BASE_URL=http://" + l.Addr().String(), "DOORBELL_AGENCIES=A100", "DOORBELL_API_KEY=" + doorbelltest.TestKey, "DOORBELL_DATA_DIR=" + t.TempDir(),
		"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off",
	}, "check")
	d.Exit(t)
	if said := d.Stdout.String() + d.Stderr.String(); strings.Contains(said, person) || !strings.Contains(said, "A100") {
		t.Errorf("it says:\n%s", said)
	}
}

// TestTheProxyOfTheEnvironmentIsUsedForHTTPS is about a proxy that wants another password. It is not the API that refuses.
func TestTheProxyOfTheEnvironmentIsUsedForHTTPS(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if user, password, ok := basicOfProxy(r); r.Method != http.MethodConnect || r.Host != "api.invalid:443" || !ok || user != "user" || password != "S3cret-of-proxy" {
			t.Errorf("%s %s", r.Method, r.Host)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	for except, used := range map[string]bool{"": true, "example.org": true, "api.invalid": false} {
		asked.Store(0)
		d := doorbelltest.Launch(t, []string{
			"HTTPS_PROXY=" + strings.Replace(proxy.URL, "://", "://user:S3cret-of-proxy@", 1), "NO_PROXY=" + except,
			"DOORBELL_BASE_URL=https://api.invalid", "DOORBELL_AGENCIES=A100", "DOORBELL_API_KEY=" + doorbelltest.TestKey, "DOORBELL_DATA_DIR=" + t.TempDir(),
			"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off",
		}, "check")
		d.Exit(t)
		said := strings.Join(strings.Fields(d.Stdout.String()+d.Stderr.String()), " ")
		if strings.Contains(said, "S3cret") || strings.Contains(said, "the proxy "+proxy.URL+" of HTTPS_PROXY does not connect to the API") != used || asked.Load() > 0 != used {
			t.Errorf("NO_PROXY=%s: the proxy is asked %d times, and it says:\n%s", except, asked.Load(), said)
		}
	}
}

// basicOfProxy is what a request shows a proxy.
func basicOfProxy(r *http.Request) (user, password string, ok bool) {
	shown := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return shown.BasicAuth()
}
