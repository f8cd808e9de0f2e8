package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
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

func TestRunTakesAnAPIAtANewAddressOnlyWithItsFlag(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: "https://old.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	got := doorbelltest.Run(t, s.Environ, "run")
	if got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, "run --moved") || !strings.Contains(got.Stderr, "mv "+kept.Path()) {
		t.Errorf("%+v", got)
	}
	d := doorbelltest.Launch(t, s.Environ, "run", "--moved")
	doorbelltest.NatsURL(t, s.Dir)
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "--moved: the store remembers the API at this address", `"to":"`+s.URL)
	doorbelltest.Has(t, doorbelltest.Run(t, s.Environ, "verify").Stdout, "of "+s.URL+", is sound: 1 agency")
}

// TestARestoredBackupGoesOnWhateverBecameOfTheStream is the drill: a backup, more events, and then the store is lost.
func TestARestoredBackupGoesOnWhateverBecameOfTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lost, away bool }{
		"which is there, with NATS away at the start": {away: true},
		"which is lost too":                           {lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, far := doorbelltest.NewScene(t, "A100"), doorbelltest.StartFar(t)
			environ, backup := s.With("NATS_URL="+far.URL()), filepath.Join(t.TempDir(), "doorbell.db")
			d := doorbelltest.Launch(t, environ, "run")
			doorbelltest.NatsURL(t, s.Dir)
			sub := doorbelltest.SubscribeTo(t, far.URL())
			sub.Baselined(t, "A100")
			var leads []string
			ring := func(sub *doorbelltest.Subscriber) {
				t.Helper()
				leads = append(leads, s.Ring(t, "A100"))
				sub.Request(t, leads[len(leads)-1])
			}
			ring(sub)
			if got := doorbelltest.Run(t, environ, "backup", backup); got.Code != exit.Done {
				t.Fatalf("%+v", got)
			}
			ring(sub)
			ring(sub)
			d.Stop(t)

			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(s.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(backup)
			if err == nil {
				err = os.WriteFile(filepath.Join(s.Dir, daemon.StoreFile), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			far.Stop()
			if c.lost {
				if err := os.RemoveAll(far.Folder); err != nil {
					t.Fatal(err)
				}
			}
			if !c.away {
				far.Start(t)
			}
			d = doorbelltest.Launch(t, environ, "run")
			doorbelltest.NatsURL(t, s.Dir)
			leads = append(leads, s.Ring(t, "A100"))
			s.GoesOn(t, "A100", 20)
			if c.away {
				far.Start(t)
			}
			sub = doorbelltest.SubscribeTo(t, far.URL())
			ring(sub)
			doorbelltest.Eventually(t, "all is published", func() bool {
				status, err := ops.NewClient(filepath.Join(s.Dir, daemon.SocketFile)).Status(t.Context())
				return err == nil && len(status.Relay) == 1 && status.Relay[0].Pending == 0
			})
			doorbelltest.Oracle{SetBack: true}.MustBeWhole(t, far.URL(), leads...)
			d.Stop(t)
			if got := doorbelltest.Run(t, environ, "verify"); got.Code != exit.Done {
				t.Errorf("%+v", got)
			}
		})
	}
}
