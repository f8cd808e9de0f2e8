package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// pageURL waits for a daemon and returns where its page is, without the slash at the end.
func pageURL(t *testing.T, dir string) string {
	t.Helper()
	url := ""
	doorbelltest.Eventually(t, "an answer at the socket", func() bool {
		s, err := ops.NewClient(dir + "/" + daemon.SocketFile).Status(t.Context())
		url = strings.TrimSuffix(s.Page, "/")
		return err == nil && url != ""
	})
	return url
}

// get sends a GET request and returns status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	doorbelltest.HoldsNobody(t, string(text))
	return response.StatusCode, string(text)
}

// checks are those of /readyz?verbose by name.
func checks(t *testing.T, url string) map[string]ops.Check {
	t.Helper()
	var answer struct{ Checks []ops.Check }
	_, text := get(t, url+"/readyz?verbose")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	by := map[string]ops.Check{}
	for _, c := range answer.Checks {
		by[c.Name] = c
	}
	return by
}

func TestADaemonIsReadyEvenWhenAnAgencyIsHalted(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	must(t, s.Model.UnlinkKey(doorbelltest.TestKey, "B200"))
	d := doorbelltest.Launch(t, s.With("DOORBELL_WEBHOOK_URL="+hook), "run")
	url := pageURL(t, s.Dir)
	doorbelltest.Eventually(t, "a halt, and readiness", func() bool {
		code, _ := get(t, url+"/readyz")
		return code == http.StatusOK && doorbelltest.Run(t, s.Environ, "status", "--check").Code == exit.CodeFailed
	})
	found := checks(t, url)
	for _, name := range []string{"store", "polling", "staleness", "relay", "forwarders", "space", "NATS", "watch"} {
		if c, looked := found[name]; !looked || !c.OK {
			t.Errorf("%s: %v", name, c)
		}
	}
	if code, text := get(t, url+"/livez"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("livez: %d %s", code, text)
	}
	d.Stop(t)
}

// TestADaemonWithoutItsNATSIsAliveButNotReady: while it waits for NATS, the log and each command
// report that, and all is well once NATS is back.
func TestADaemonWithoutItsNATSIsAliveButNotReady(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	port := doorbelltest.FreePort(t)
	environ := s.With("NATS_URL=nats://u:" + doorbelltest.Sentinel + "@127.0.0.1:" + strconv.Itoa(port))
	d := doorbelltest.Launch(t, environ, "run")
	url := pageURL(t, s.Dir)
	code, text := get(t, url+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "failing\nNATS: ") || strings.Contains(text, doorbelltest.Sentinel) {
		t.Errorf("readyz: %d %s", code, text)
	}
	if code, text := get(t, url+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, text)
	}
	d.Stderr.Await(t, `"msg":"watching","waiting":2,"agencies":0,`)
	got := doorbelltest.Run(t, environ, "status", "--check")
	if got.Code != exit.CodeFailed {
		t.Errorf("exit code %d", got.Code)
	}
	doorbelltest.Has(t, got.Stderr, "doorbell: NATS is not connected; 2 agencies wait for the stream\n")
	doorbelltest.Has(t, got.Stdout, "2 agencies wait for the stream, since ", "A100, B200")
	doorbelltest.Has(t, doorbelltest.Run(t, environ, "events", "ls").Stderr, "the event log has no such event")

	doorbelltest.StartNATS(t, port)
	doorbelltest.Eventually(t, "readiness", func() bool {
		code, _ := get(t, url+"/readyz")
		return code == http.StatusOK
	})
	d.Stop(t)
}
