package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// frozen stops a daemon in its tracks, lock and all, and wants its directory as it was when it goes on.
func frozen(t *testing.T, d *child, dir string, meanwhile func()) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stands still", func() bool { // a thread may still be in a system call
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
		for _, task := range tasks {
			if text, err := os.ReadFile(task); err == nil && !strings.Contains(string(text), ") T ") {
				return false
			}
		}
		return err == nil && len(tasks) > 0
	})
	before := tree(t, dir)
	meanwhile()
	after := tree(t, dir)
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
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
	s := newScene(t, "A100")
	first := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	for name, more := range map[string][]string{
		"the same settings": nil,
		"another API":       {"DOORBELL_BASE_URL=http://127.0.0.1:1"},
		"an external NATS":  {"NATS_URL=nats://127.0.0.1:1"},
		"the first's port":  {"DOORBELL_NATS_LISTEN=" + strings.TrimPrefix(url, "nats://")},
	} {
		frozen(t, first, s.dir, func() {
			begin := time.Now()
			second := launch(t, s.with(more...), "run")
			if code := second.exit(t); code != exit.CodeIO || time.Since(begin) > 5*time.Second {
				t.Errorf("%s: exit code %d after %s", name, code, time.Since(begin))
			}
			has(t, second.stderr.String(), "DOORBELL_DATA_DIR", s.dir, fmt.Sprintf("process %d", first.cmd.Process.Pid), "stop the other doorbell")
			if strings.Contains(second.stderr.String(), "in use by another program") {
				t.Errorf("%s: it speaks of ports:\n%s", name, second.stderr.String())
			}
		})
	}
	if _, err := ops.NewClient(filepath.Join(s.dir, daemon.SocketFile)).Status(t.Context()); err != nil {
		t.Errorf("the first does not answer any more: %v", err)
	}
	sub.request(t, s.ring(t, "A100"))
	first.stop(t)
}

func TestOfTwoDaemonsThatBeginTogetherOneIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	both := []*child{launch(t, s.environ, "run"), launch(t, s.environ, "run")}
	var winner *child
	select {
	case <-both[0].gone:
		winner = both[1]
	case <-both[1].gone:
		winner = both[0]
	case <-time.After(patience):
		t.Fatal("both run")
	}
	for _, c := range both {
		if c != winner && c.exit(t) != exit.CodeIO {
			t.Errorf("exit code %d: %s", c.exit(t), c.stderr.String())
		}
	}
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	sub.request(t, s.ring(t, "A100"))
	winner.stop(t)
}

func TestADemoBesideARunningDaemonLeavesItAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	d := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	frozen(t, d, s.dir, func() {
		demo := launch(t, s.environ, "demo", "--for", "2s", "--nats-listen", strings.TrimPrefix(url, "nats://"), "--http-listen", "127.0.0.1:0")
		if code := demo.exit(t); code != exit.Done {
			t.Errorf("exit code %d: %s", code, demo.stderr.String())
		}
		has(t, demo.stdout.String(), strings.TrimPrefix(url, "nats://"), "in use")
	})
	sub.request(t, s.ring(t, "A100"))
	d.stop(t)
}
