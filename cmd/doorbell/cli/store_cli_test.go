package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/store"
)

func TestABackupOfARunningDaemonIsWholeAndVerified(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	killed := filepath.Join(s.Dir, ".doorbell-123") // what a verify that was killed has left
	if err := errors.Join(os.MkdirAll(killed, 0o700), os.WriteFile(filepath.Join(killed, daemon.StoreFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d := doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100", "B200")
	sub.Request(t, s.Ring(t, "A100"))
	file := filepath.Join(t.TempDir(), "copy.db")
	got := doorbelltest.Run(t, s.Environ, "backup", file)
	if got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	doorbelltest.Has(t, got.Stdout, file+" holds store ", "verified: 2 agencies, 8 insertions, 9 contact requests, ")
	if again := doorbelltest.Run(t, s.Environ, "backup", file); again.Code != exit.CodeFailed || !strings.Contains(again.Stderr, "--force") {
		t.Errorf("%+v", again)
	}
	forced := doorbelltest.Run(t, s.Environ, "backup", "--force", "--json", file)
	var r store.Report
	if err := json.Unmarshal([]byte(forced.Stdout), &r); err != nil || forced.Code != exit.Done || r.Events < 3 {
		t.Errorf("%+v: %v", forced, err)
	}
	if self := doorbelltest.Run(t, s.Environ, "backup", "--force", filepath.Join(s.Dir, daemon.StoreFile)); self.Code != exit.CodeUsage {
		t.Errorf("a backup onto itself: %+v", self)
	}
	verified := doorbelltest.Run(t, s.Environ, "verify")
	if verified.Code != exit.Done {
		t.Errorf("%+v", verified)
	}
	doorbelltest.Has(t, verified.Stdout, filepath.Join(s.Dir, daemon.StoreFile)+", store ", "is sound: 2 agencies")
	s.GoesOn(t, "A100", 10)
	d.Stop(t)
	left, err := filepath.Glob(filepath.Join(s.Dir, daemon.StoreFile+".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	for _, args := range [][]string{{"verify"}, {"backup", "--force", file}, {"verify", "--json"}, {"verify", "--file", file}} {
		if got := doorbelltest.Run(t, s.Environ, args...); got.Code != exit.Done {
			t.Errorf("%v: %+v", args, got)
		}
	}
	doorbelltest.HoldsNobody(t, d.Stderr.String()+got.Stdout+verified.Stdout)
}

func TestADamagedStoreIsToldApartAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	path := filepath.Join(s.Dir, daemon.StoreFile)
	whole := readText(t, path)
	for name, c := range map[string]struct {
		text string
		code int
		says string
	}{
		"zeroed":  {strings.Repeat("\x00", 8192) + whole[8192:], exit.CodeIO, "backup"},
		"cut":     {whole[:9000], exit.CodeIO, "it is cut off"},
		"not one": {strings.Repeat("nonsense", 4000), exit.CodeIO, "invalid database"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"verify", "run", "status"} {
			got := doorbelltest.Run(t, s.Environ, command)
			if got.Code != c.code || !strings.Contains(got.Stderr, c.says) || !strings.Contains(got.Stderr, path) {
				t.Errorf("%s: %s: exit code %d, %s, want %d, %s", name, command, got.Code, got.Stderr, c.code, c.says)
			}
		}
		if got := doorbelltest.Run(t, s.Environ, "verify", "--file", path); got.Code != exit.CodeIO {
			t.Errorf("%s: --file: %+v", name, got)
		}
		if readText(t, path) != c.text {
			t.Errorf("%s: it was touched", name)
		}
	}
	if got := doorbelltest.Run(t, s.Environ, "verify", "--file", filepath.Join(s.Dir, "none")); got.Code != exit.CodeFailed {
		t.Errorf("%+v", got)
	}
}
