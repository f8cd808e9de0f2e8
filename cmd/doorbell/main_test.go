package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"doorbell/cmd/doorbell/exit"
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
	d := launch(t, []string{
		"DOORBELL_BASE_URL=http://" + l.Addr().String(), "DOORBELL_AGENCIES=A100", "DOORBELL_API_KEY=" + testKey, "DOORBELL_DATA_DIR=" + t.TempDir(),
		"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off",
	}, "check")
	d.exit(t)
	if said := d.stdout.String() + d.stderr.String(); strings.Contains(said, person) || !strings.Contains(said, "A100") {
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
		d := launch(t, []string{
			"HTTPS_PROXY=" + strings.Replace(proxy.URL, "://", "://user:S3cret-of-proxy@", 1), "NO_PROXY=" + except,
			"DOORBELL_BASE_URL=https://api.invalid", "DOORBELL_AGENCIES=A100", "DOORBELL_API_KEY=" + testKey, "DOORBELL_DATA_DIR=" + t.TempDir(),
			"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off",
		}, "check")
		d.exit(t)
		said := strings.Join(strings.Fields(d.stdout.String()+d.stderr.String()), " ")
		if strings.Contains(said, "S3cret") || strings.Contains(said, "the proxy "+proxy.URL+" of HTTPS_PROXY does not connect to the API") != used || asked.Load() > 0 != used {
			t.Errorf("NO_PROXY=%s: the proxy is asked %d times, and it says:\n%s", except, asked.Load(), said)
		}
	}
}

func TestAProxyThatIsAwayOrNoneIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	environ := func(proxy string) []string {
		return []string{ // each in a folder of its own: a daemon that begins holds the store before it answers
			"HTTPS_PROXY=" + proxy, "DOORBELL_BASE_URL=https://api.invalid", "DOORBELL_AGENCIES=A100,B200", "DOORBELL_API_KEY=" + testKey,
			"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off", "DOORBELL_DATA_DIR=" + shortDir(t),
			"DOORBELL_SLACK_URL=A100=https://hooks.invalid/a,B200=https://hooks.invalid/b", "DOORBELL_WEBHOOK_URL=https://leads.invalid/x",
		}
	}
	holdsNoSecret := func(said string) {
		t.Helper()
		if strings.Contains(said, "S3cret") {
			t.Errorf("it says:\n%s", said)
		}
	}
	away := strings.Replace(gone.URL, "://", "://user:S3cret-of-proxy@", 1)
	says := "the proxy " + gone.URL + " of HTTPS_PROXY does not connect to the API: connection refused"
	c, d := launch(t, environ(away), "check"), launch(t, environ(away), "run")
	if code := c.exit(t); code != exit.CodeFailed {
		t.Errorf("exit code %d", code)
	}
	d.stderr.await(t, regexp.QuoteMeta(says))
	d.stop(t)
	printed := strings.Join(strings.Fields(c.stdout.String()), " ")
	has(t, printed, says, "is HTTPS_PROXY right, and does the proxy run?")
	if strings.Contains(printed, "is DOORBELL_BASE_URL right") {
		t.Errorf("the API is blamed for its proxy:\n%s", printed)
	}
	holdsNoSecret(c.stdout.String() + c.stderr.String() + d.stderr.String())
	for _, receiver := range []string{"slack", "webhook"} {
		tried := launch(t, environ(away), "forward", receiver, "--test")
		tried.exit(t)
		has(t, tried.stdout.String(), "the proxy of HTTPS_PROXY cannot be reached")
		holdsNoSecret(tried.stdout.String() + tried.stderr.String())
	}
	for _, command := range []string{"check", "run"} {
		refused := launch(t, environ("http://user:S3cret-of-proxy@[proxy"), command)
		if code := refused.exit(t); code != exit.CodeConfig {
			t.Errorf("%s: exit code %d", command, code)
		}
		has(t, refused.stderr.String(), "HTTPS_PROXY is not the address of a proxy; write it like http://")
		holdsNoSecret(refused.stdout.String() + refused.stderr.String())
	}
}

// basicOfProxy is what a request shows a proxy.
func basicOfProxy(r *http.Request) (user, password string, ok bool) {
	shown := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return shown.BasicAuth()
}
