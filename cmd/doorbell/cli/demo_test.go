package cli

import (
	"os"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// startDemo starts a demo that keeps its files in a directory of the test's.
func startDemo(t *testing.T, flags ...string) (d *doorbelltest.Child, dir string) {
	t.Helper()
	dir = doorbelltest.ShortDir(t)
	// What is set in the environment of a real doorbell must not matter to a demo.
	environ := []string{"TMPDIR=" + dir, "DOORBELL_DATA_DIR=" + dir + "/none", "DOORBELL_BASE_URL=nonsense", "NATS_URL=nonsense"}
	return doorbelltest.Launch(t, environ, append([]string{"demo", "--nats-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}, flags...)...), dir
}

func mustLeaveNothing(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestTheDemoRingsWithinTenSecondsAndStopsAtOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	d, dir := startDemo(t)
	url := d.Stdout.Await(t, `NATS +(nats://\S+)`)[1]
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Await(t, "a contact request", func(a doorbelltest.Arrival) bool { return a.Kind() == "contact_request.created" })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the first contact request took %s", took)
	}
	d.Stdout.Await(t, `New lead +\S`)
	if code := d.End(t, syscall.SIGINT); code != exit.Done {
		t.Errorf("exit code %d after SIGINT:\n%s", code, d.Stderr.String())
	}
	doorbelltest.Has(t, d.Stdout.String(), " events in ")
	mustLeaveNothing(t, dir)
}
