package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/exit"
)

// startDemo starts a demo that keeps its files in a directory of the test's.
func startDemo(t *testing.T, flags ...string) (d *child, dir string) {
	t.Helper()
	dir = shortDir(t)
	// What is set in the environment of a real doorbell must not matter to a demo.
	environ := []string{"TMPDIR=" + dir, "DOORBELL_DATA_DIR=" + dir + "/none", "DOORBELL_BASE_URL=nonsense", "NATS_URL=nonsense"}
	return launch(t, environ, append([]string{"demo", "--nats-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}, flags...)...), dir
}

func mustLeaveNothing(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestTheDemoShowsContactRequestsAndEndsByItself(t *testing.T) {
	t.Parallel()
	d, dir := startDemo(t, "--for", "8s")
	if code := d.exit(t); code != exit.Done {
		t.Errorf("exit code %d:\n%s", code, d.stderr.String())
	}
	text := d.stdout.String()
	has(t, text, "The listings API   http://127.0.0.1:", "nats --server nats://127.0.0.1:", "watch.baselined", " events in ", "The first contact request arrived ")
	shown := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "contact_request.created  ") && strings.Contains(line, " from ") {
			shown++
		}
	}
	if shown == 0 {
		t.Errorf("no contact request was shown:\n%s", text)
	}
	if d.stderr.String() != "" {
		t.Errorf("complains:\n%s", d.stderr.String())
	}
	mustLeaveNothing(t, dir)
}

func TestTheDemoRingsWithinTenSecondsAndStopsAtOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	d, dir := startDemo(t)
	url := d.stdout.await(t, `NATS +(nats://\S+)`)[1]
	sub := subscribeTo(t, url)
	sub.await(t, "a contact request", func(a arrival) bool { return a.kind() == "contact_request.created" })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the first contact request took %s", took)
	}
	d.stdout.await(t, `contact_request\.created +\S`)
	if code := d.end(t, syscall.SIGINT); code != exit.Done {
		t.Errorf("exit code %d after SIGINT:\n%s", code, d.stderr.String())
	}
	has(t, d.stdout.String(), " events in ", "contact_request.created\n")
	mustLeaveNothing(t, dir)
}
