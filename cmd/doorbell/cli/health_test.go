package cli

import (
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

// TestADaemonWithoutItsNATSIsAliveButNotReady: the log and each command report which agencies wait for NATS. One that the store knows is
// polled immediately. Once NATS is back, all is well.
func TestADaemonWithoutItsNATSIsAliveButNotReady(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200", "C300")
	s.Watched(t, "A100")
	port := doorbelltest.FreePort(t)
	environ := s.With("NATS_URL=nats://u:" + doorbelltest.Sentinel + "@127.0.0.1:" + strconv.Itoa(port))
	d := doorbelltest.Launch(t, environ, "run")
	url := pageURL(t, s.Dir)
	code, text := get(t, url+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "failing\nNATS: ") || strings.Contains(text, doorbelltest.Sentinel) {
		t.Errorf("readyz: %d %s", code, text)
	}
	doorbelltest.Has(t, text, "waiting for the stream: 2 agencies")
	if code, text := get(t, url+"/livez"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("livez: %d %s", code, text)
	}
	d.Stderr.Await(t, `"msg":"watching","waiting":2,"agencies":1,`)
	d.Stderr.Await(t, `"level":"WARN","msg":"agencies that are new to this store wait[^\n]*"agencies":2,`)
	s.GoesOn(t, "A100", 5)
	got := doorbelltest.Run(t, environ, "status", "--check")
	if got.Code != exit.CodeFailed {
		t.Errorf("exit code %d", got.Code)
	}
	doorbelltest.Has(t, got.Stderr, "doorbell: NATS is not connected; 2 agencies wait for the stream\n")
	doorbelltest.Has(t, got.Stdout, "2 agencies wait for the stream, since ", "B200, C300")
	doorbelltest.Has(t, doorbelltest.Run(t, environ, "events", "ls", "--agency", "B200").Stderr, "the event log has no such event")
	if n := s.Asked("B200") + s.Asked("C300"); n != 0 {
		t.Errorf("%d requests for agencies that wait", n)
	}

	id := s.Ring(t, "B200") // since the begin of its watch
	sub := doorbelltest.SubscribeTo(t, doorbelltest.StartNATS(t, port))
	doorbelltest.Eventually(t, "readiness", func() bool {
		code, _ := get(t, url+"/readyz")
		return code == http.StatusOK
	})
	sub.Request(t, id)
	d.Stop(t)
}
