package cli

import (
	"maps"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// TestASecondDaemonOnADataDirectoryIsRefusedAndTouchesNothing has the first one stand still meanwhile.
func TestASecondDaemonOnADataDirectoryIsRefusedAndTouchesNothing(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	first := doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	if err := first.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var before map[string]string
	doorbelltest.Eventually(t, "it stands still", func() bool { // a thread may still be in a system call
		last := before
		before = doorbelltest.Tree(t, s.Dir)
		return maps.Equal(last, before)
	})
	second := doorbelltest.Launch(t, s.With("DOORBELL_NATS_LISTEN="+strings.TrimPrefix(url, "nats://")), "run") // the first's port
	if code := second.Exit(t); code != exit.CodeIO {
		t.Errorf("exit code %d", code)
	}
	doorbelltest.Has(t, second.Stderr.String(), "DOORBELL_DATA_DIR", s.Dir, "in use by another process", "stop the other doorbell")
	mustBeUntouched(t, s.Dir, before)
	if err := first.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sub.Request(t, s.Ring(t, "A100"))
	first.Stop(t)
}
