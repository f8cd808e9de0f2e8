package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
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
	s := newScene(t, "A100")
	shell := func(line string) {
		t.Helper()
		c := exec.Command("sh", "-ec", line)
		c.Env = append(s.with("PATH="+filepath.Dir(binary(t))+":/usr/bin:/bin"), "HOME=/nonexistent")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	d := launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	before := s.ring(t, "A100")
	sub.request(t, before)
	shell(commands[0][0])
	between := s.ring(t, "A100")
	sub.request(t, between)
	d.stop(t)

	shell(commands[1][0])
	refused := run(t, s.environ, "run")
	if refused.code != exit.CodeConfig || !strings.Contains(refused.stderr, "run --restored") {
		t.Errorf("without the flag: %+v", refused)
	}
	last := strings.Fields(commands[1][1])
	d = launch(t, s.environ, last[1:]...)
	url := natsURL(t, s.dir)
	has(t, d.stderr.String(), "--restored: a backup is accepted", `"backup_of":"20`)
	later := s.ring(t, "A100")
	subscribeTo(t, url).request(t, later)
	s.goesOn(t, "A100", 10)
	mustBeWhole(t, url, before, between, later)
	d.stop(t)
	if got := run(t, s.environ, "verify"); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	d = launch(t, s.environ, "run") // the flag was for one start
	natsURL(t, s.dir)
	d.stop(t)
}

func TestRunTakesAnotherAddressOrANewStoreOnlyWhenTold(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	for name, url := range map[string]string{"elsewhere": "https://old.example.org", "here": s.url} {
		kept, err := store.Open(store.Options{Dir: filepath.Join(s.dir, name), BaseURL: url})
		if err != nil {
			t.Fatal(err)
		}
		kept.Close()
	}
	elsewhere := s.with("DOORBELL_DATA_DIR=" + filepath.Join(s.dir, "elsewhere"))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run"}, exit.CodeConfig, "run --moved"},
		{[]string{"run", "--restored"}, exit.CodeConfig, "run --moved"},
		{[]string{"run", "--fresh", "--moved"}, exit.CodeUsage, "--fresh"},
		{[]string{"run", "--fresh", "--restored"}, exit.CodeUsage, "--fresh"},
	} {
		if got := run(t, elsewhere, c.args...); got.code != c.code || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: %+v, want %d, %s", c.args, got, c.code, c.says)
		}
	}
	d := launch(t, elsewhere, "run", "--moved")
	natsURL(t, filepath.Join(s.dir, "elsewhere"))
	d.stop(t)
	has(t, d.stderr.String(), "--moved: the store remembers the API at its new address", `"from":"https://old.example.org","to":"`+s.url)
	has(t, run(t, elsewhere, "verify").stdout, "of "+s.url+", is sound: 1 agency")

	here := filepath.Join(s.dir, "here")
	d = launch(t, s.with("DOORBELL_DATA_DIR="+here), "run", "--fresh")
	natsURL(t, here)
	d.stop(t)
	has(t, d.stderr.String(), "--fresh: a new store was begun and the old one set aside", `"aside":"doorbell.db.20`, " store-id.20")
	for _, name := range []string{"doorbell.db", "store-id"} {
		if aside, err := filepath.Glob(filepath.Join(here, name+".20*Z")); err != nil || len(aside) != 1 {
			t.Errorf("%v is set aside of %s: %v", aside, name, err)
		}
	}
}

// TestARestoredBackupGoesOnWhateverBecameOfTheStream is the drill: a backup, more events, and then the store is lost.
func TestARestoredBackupGoesOnWhateverBecameOfTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lost, away bool }{
		"which is there":    {},
		"which is lost too": {lost: true},
		"which is there, with NATS away at the start":     {away: true},
		"which is lost too, with NATS away at the start ": {lost: true, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, far := newScene(t, "A100"), startFar(t)
			environ, backup := s.with("NATS_URL="+far.url()), filepath.Join(t.TempDir(), "doorbell.db")
			d := launch(t, environ, "run")
			natsURL(t, s.dir)
			sub := subscribeTo(t, far.url())
			sub.baselined(t, "A100")
			var leads []string
			ring := func(sub *subscriber) {
				t.Helper()
				leads = append(leads, s.ring(t, "A100"))
				sub.request(t, leads[len(leads)-1])
			}
			ring(sub)
			if got := run(t, environ, "backup", backup); got.code != exit.Done {
				t.Fatalf("%+v", got)
			}
			ring(sub)
			ring(sub)
			d.stop(t)

			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(backup)
			if err == nil {
				err = os.WriteFile(filepath.Join(s.dir, daemon.StoreFile), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			far.stop()
			if c.lost {
				if err := os.RemoveAll(far.folder); err != nil {
					t.Fatal(err)
				}
			}
			if !c.away {
				far.start(t)
			}
			d = launch(t, environ, "run", "--restored")
			natsURL(t, s.dir)
			leads = append(leads, s.ring(t, "A100"))
			s.goesOn(t, "A100", 20)
			if c.away {
				far.start(t)
			}
			sub = subscribeTo(t, far.url())
			sub.event(t, "watch.stream_repaired", "A100")
			ring(sub)
			eventually(t, "all is published", func() bool {
				status, err := ops.NewClient(filepath.Join(s.dir, daemon.SocketFile)).Status(t.Context())
				return err == nil && len(status.Relay) == 1 && status.Relay[0].Pending == 0
			})
			mustBeWhole(t, far.url(), leads...)
			d.stop(t)
			if got := run(t, environ, "verify"); got.code != exit.Done {
				t.Errorf("%+v", got)
			}
		})
	}
}
