package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// blocks are the shell commands of a section of the page on operating, with another directory for the backups.
func blocks(t *testing.T, section, backups string) (all [][]string) {
	t.Helper()
	_, text, ok := strings.Cut(readText(t, operatePage), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the page has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for {
		_, rest, ok := strings.Cut(text, "```sh\n")
		if !ok {
			return all
		}
		block, after, _ := strings.Cut(rest, "```")
		all = append(all, strings.Split(strings.TrimSpace(strings.ReplaceAll(block, "/backup/", backups+"/")), "\n"))
		text = after
	}
}

// TestARestoreAsThePageSaysGoesOnWhereTheBackupWas does what deploy/operate.md says, word for word.
func TestARestoreAsThePageSaysGoesOnWhereTheBackupWas(t *testing.T) {
	t.Parallel()
	commands := blocks(t, "Back up and restore", t.TempDir())
	if len(commands) != 2 || len(commands[0]) != 1 || len(commands[1]) != 2 {
		t.Fatalf("the page says %q", commands)
	}
	s := doorbelltest.NewScene(t, "A100")
	shell := func(line string) {
		t.Helper()
		c := exec.Command("sh", "-ec", line)
		c.Env = append(s.With("PATH="+filepath.Dir(doorbelltest.Binary(t))+":/usr/bin:/bin"), "HOME=/nonexistent")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	d := doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	before := s.Ring(t, "A100")
	sub.Request(t, before)
	shell(commands[0][0])
	between := s.Ring(t, "A100")
	sub.Request(t, between)
	d.Stop(t)

	shell(commands[1][0])
	last := strings.Fields(commands[1][1])
	d = doorbelltest.Launch(t, s.Environ, last[1:]...)
	url := doorbelltest.NatsURL(t, s.Dir)
	later := s.Ring(t, "A100")
	doorbelltest.SubscribeTo(t, url).Request(t, later)
	s.GoesOn(t, "A100", 10)
	doorbelltest.Oracle{SetBack: true}.MustBeWhole(t, url, before, between, later)
	d.Stop(t)
	if got := doorbelltest.Run(t, s.Environ, "verify"); got.Code != exit.Done {
		t.Errorf("%+v", got)
	}
}
