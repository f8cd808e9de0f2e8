package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// frozen stops a daemon in its tracks, lock and all, and wants its directory as it was when it goes on.
func frozen(t *testing.T, d *doorbelltest.Child, dir string, meanwhile func()) {
	t.Helper()
	if err := d.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	doorbelltest.Eventually(t, "it stands still", func() bool { // a thread may still be in a system call
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.Cmd.Process.Pid))
		for _, task := range tasks {
			if text, err := os.ReadFile(task); err == nil && !strings.Contains(string(text), ") T ") {
				return false
			}
		}
		return err == nil && len(tasks) > 0
	})
	before := doorbelltest.Tree(t, dir)
	meanwhile()
	after := doorbelltest.Tree(t, dir)
	if err := d.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for path := range before {
		if text, ok := after[path]; !ok || text != before[path] {
			t.Errorf("%s was changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
}

func TestASecondDaemonOnADataDirectoryIsRefusedAndTouchesNothing(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	first := doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	for name, more := range map[string][]string{
		"the same settings": nil,
		"the first's port":  {"DOORBELL_NATS_LISTEN=" + strings.TrimPrefix(url, "nats://")},
	} {
		frozen(t, first, s.Dir, func() {
			begin := time.Now()
			second := doorbelltest.Launch(t, s.With(more...), "run")
			if code := second.Exit(t); code != exit.CodeIO || time.Since(begin) > 20*time.Second {
				t.Errorf("%s: exit code %d after %s", name, code, time.Since(begin))
			}
			doorbelltest.Has(t, second.Stderr.String(), "DOORBELL_DATA_DIR", s.Dir, "in use by another process", "stop the other doorbell")
			if strings.Contains(second.Stderr.String(), "in use by another program") {
				t.Errorf("%s: it speaks of ports:\n%s", name, second.Stderr.String())
			}
		})
	}
	if _, err := ops.NewClient(filepath.Join(s.Dir, daemon.SocketFile)).Status(t.Context()); err != nil {
		t.Errorf("the first does not answer any more: %v", err)
	}
	sub.Request(t, s.Ring(t, "A100"))
	first.Stop(t)
}
