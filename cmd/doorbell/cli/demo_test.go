package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

func TestADemoEndsWithItsDaemon(t *testing.T) {
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	d := doorbelltest.Launch(t, []string{"TMPDIR=" + dir}, "demo", "--nats-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	d.Stdout.Await(t, `now watching`)
	files, err := filepath.Glob(filepath.Join(dir, "*", daemon.StoreFile))
	must(t, err)
	must(t, os.Truncate(files[0], 0))
	if code := d.Exit(t); code != exit.CodeIO || !strings.Contains(d.Stderr.String(), "damaged store") {
		t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
	}
}

// TestTheDemoRingsWithinTenSecondsAndLeavesNothing sets what a demo must ignore. It runs alone: a
// user has ten seconds without other tests beside the demo.
func TestTheDemoRingsWithinTenSecondsAndLeavesNothing(t *testing.T) {
	dir, began := doorbelltest.ShortDir(t), time.Now()
	environ := []string{"TMPDIR=" + dir, "DOORBELL_DATA_DIR=" + dir + "/none", "DOORBELL_BASE_URL=nonsense", "NATS_URL=nonsense"}
	d := doorbelltest.Launch(t, environ, "demo", "--nats-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	sub := doorbelltest.SubscribeTo(t, d.Stdout.Await(t, `NATS +(nats://\S+)`)[1])
	sub.Await(t, "a contact request", func(a doorbelltest.Arrival) bool { return a.Kind() == "contact_request.created" })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the first contact request took %s", took)
	}
	d.Stdout.Await(t, `New lead +\S`)
	if code := d.End(t, syscall.SIGINT); code != exit.Done {
		t.Errorf("exit code %d after SIGINT:\n%s", code, d.Stderr.String())
	}
	doorbelltest.Has(t, d.Stdout.String(), " events in ")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
