package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/store"
)

// noRestart are the exit codes after which the systemd unit stays down.
func noRestart(t *testing.T) (codes []int) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindStringSubmatch(readText(t, filepath.Join(top, "deploy", "doorbell.service")))
	if found == nil {
		t.Fatal("the unit restarts after every exit code")
	}
	for _, text := range strings.Fields(found[1]) {
		code, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	return codes
}

func TestADaemonThatMeetsAStoreInUseIsStartedAgainByItsSupervisor(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := store.OpenReadOnly(store.Options{Dir: s.Dir}) // as verify and replay do, for minutes
	if err != nil {
		t.Fatal(err)
	}
	got := doorbelltest.Run(t, s.Environ, "run")
	if slices.Contains(noRestart(t), got.Code) || got.Code != exit.CodeIO {
		t.Errorf("%+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "in use by another process", "if it is a command such as verify, wait for it")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.NatsURL(t, s.Dir)
	d.Stop(t)
}
