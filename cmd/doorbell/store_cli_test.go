package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
)

func TestABackupOfARunningDaemonIsWholeAndVerified(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	killed := filepath.Join(s.dir, ".doorbell-123") // what a verify that was killed has left
	if err := errors.Join(os.MkdirAll(killed, 0o700), os.WriteFile(filepath.Join(killed, daemon.StoreFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d := launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100", "B200")
	sub.request(t, s.ring(t, "A100"))
	file := filepath.Join(t.TempDir(), "copy.db")
	got := run(t, s.environ, "backup", file)
	if got.code != exit.Done {
		t.Fatalf("%+v", got)
	}
	has(t, got.stdout, file+" holds store ", "verified: 2 agencies, 8 insertions, 9 contact requests, ")
	if again := run(t, s.environ, "backup", file); again.code != exit.CodeFailed || !strings.Contains(again.stderr, "--force") {
		t.Errorf("%+v", again)
	}
	forced := run(t, s.environ, "backup", "--force", "--json", file)
	var r store.Report
	if err := json.Unmarshal([]byte(forced.stdout), &r); err != nil || forced.code != exit.Done || r.Events < 3 {
		t.Errorf("%+v: %v", forced, err)
	}
	if self := run(t, s.environ, "backup", "--force", filepath.Join(s.dir, daemon.StoreFile)); self.code != exit.CodeUsage {
		t.Errorf("a backup onto itself: %+v", self)
	}
	verified := run(t, s.environ, "verify")
	if verified.code != exit.Done {
		t.Errorf("%+v", verified)
	}
	has(t, verified.stdout, filepath.Join(s.dir, daemon.StoreFile)+", store ", "is sound: 2 agencies")
	if compacted := run(t, s.environ, "compact"); compacted.code != exit.CodeFailed || !strings.Contains(compacted.stderr, "stop the daemon first") {
		t.Errorf("%+v", compacted)
	}
	s.goesOn(t, "A100", 10)
	d.stop(t)
	left, err := filepath.Glob(filepath.Join(s.dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	for _, args := range [][]string{{"verify"}, {"backup", "--force", file}, {"compact"}, {"verify", "--json"}, {"verify", "--file", file}} {
		if got := run(t, s.environ, args...); got.code != exit.Done {
			t.Errorf("%v: %+v", args, got)
		}
	}
	holdsNobody(t, d.stderr.String()+got.stdout+verified.stdout)
}

func TestADaemonThatStartsLeavesTheCopyOfAVerifyAtWorkAlone(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := ops.Listen(filepath.Join(dir, daemon.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: ops.Handler(ops.Verbs{
		Status: func() (ops.Status, error) { return ops.Status{}, nil },
		Backup: func(w io.Writer, sized func(int64)) error {
			err := s.Backup(w, sized)
			_, done, err2 := store.Scratch(dir) // removes what killed processes have left, as the start of a daemon does
			if err2 == nil {
				done()
			}
			return errors.Join(err, err2)
		},
	})}
	defer server.Close()
	go server.Serve(l)
	r, err := verifyCopy(t.Context(), config.Base{DataDir: dir})
	if err != nil || r.StoreID != s.ID() {
		t.Errorf("%+v, %v", r, err)
	}
	if err := server.Shutdown(t.Context()); err != nil { // its handler may be at work still
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

func TestADamagedStoreIsToldApartAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.dir, BaseURL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	path := filepath.Join(s.dir, daemon.StoreFile)
	whole := readText(t, path)
	for name, c := range map[string]struct {
		text string
		code int
		says string
	}{
		"zeroed":    {strings.Repeat("\x00", 8192) + whole[8192:], exit.CodeIO, "backup"},
		"cut":       {whole[:9000], exit.CodeIO, "it is cut off"},
		"not one":   {strings.Repeat("nonsense", 4000), exit.CodeIO, "it does not begin as a store does"},
		"truncated": {"", exit.CodeConfig, "is missing or empty"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"verify", "run", "compact", "status"} {
			got := run(t, s.environ, command)
			if got.code != c.code || !strings.Contains(got.stderr, c.says) || !strings.Contains(got.stderr, path) {
				t.Errorf("%s: %s: exit code %d, %s, want %d, %s", name, command, got.code, got.stderr, c.code, c.says)
			}
		}
		if got := run(t, s.environ, "verify", "--file", path); got.code != exit.CodeIO {
			t.Errorf("%s: --file: %+v", name, got)
		}
		if readText(t, path) != c.text {
			t.Errorf("%s: it was touched", name)
		}
	}
	if got := run(t, s.environ, "verify", "--file", filepath.Join(s.dir, "none")); got.code != exit.CodeFailed {
		t.Errorf("%+v", got)
	}
}

func TestABackupIsNotPutInThePlaceOfAFolder(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	if got := run(t, s.environ, "backup", t.TempDir(), "--force"); got.code != exit.CodeUsage || !strings.Contains(got.stderr, "FILE is a folder") {
		t.Errorf("%+v", got)
	}
}
