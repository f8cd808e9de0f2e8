package cli

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

	"doorbell/cmd/doorbell/doorbelltest"
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

func TestAProxyThatIsAwayOrNoneIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	environ := func(proxy string) []string {
		return []string{ // each in a folder of its own: a daemon that begins holds the store before it answers
			"HTTPS_PROXY=" + proxy, "DOORBELL_BASE_URL=https://api.invalid", "DOORBELL_AGENCIES=A100,B200", "DOORBELL_API_KEY=" + doorbelltest.TestKey,
			"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off", "DOORBELL_DATA_DIR=" + doorbelltest.ShortDir(t),
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
	c, d := doorbelltest.Launch(t, environ(away), "check"), doorbelltest.Launch(t, environ(away), "run")
	if code := c.Exit(t); code != exit.CodeFailed {
		t.Errorf("exit code %d", code)
	}
	d.Stderr.Await(t, regexp.QuoteMeta(says))
	d.Stop(t)
	printed := strings.Join(strings.Fields(c.Stdout.String()), " ")
	doorbelltest.Has(t, printed, says, "is HTTPS_PROXY right, and does the proxy run?")
	if strings.Contains(printed, "is DOORBELL_BASE_URL right") {
		t.Errorf("the API is blamed for its proxy:\n%s", printed)
	}
	holdsNoSecret(c.Stdout.String() + c.Stderr.String() + d.Stderr.String())
	for _, receiver := range []string{"slack", "webhook"} {
		tried := doorbelltest.Launch(t, environ(away), "forward", receiver, "--test")
		tried.Exit(t)
		doorbelltest.Has(t, tried.Stdout.String(), "the proxy of HTTPS_PROXY cannot be reached")
		holdsNoSecret(tried.Stdout.String() + tried.Stderr.String())
	}
	for _, command := range []string{"check", "run"} {
		refused := doorbelltest.Launch(t, environ("http://user:S3cret-of-proxy@[proxy"), command)
		if code := refused.Exit(t); code != exit.CodeConfig {
			t.Errorf("%s: exit code %d", command, code)
		}
		doorbelltest.Has(t, refused.Stderr.String(), "HTTPS_PROXY is not the address of a proxy; write it like http://")
		holdsNoSecret(refused.Stdout.String() + refused.Stderr.String())
	}
}

// basicOfProxy is what a request shows a proxy.
func basicOfProxy(r *http.Request) (user, password string, ok bool) {
	shown := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return shown.BasicAuth()
}
