package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	bytewise "encoding/binary"
)

// mustBeDamage wants a process to have exited for a damaged store: 74, one sentence that names the file, what to do, and no trace.
func mustBeDamage(s doorbelltest.Scene, t *testing.T, what string, code int, stderr string) {
	t.Helper()
	if code != exit.CodeIO {
		t.Errorf("%s: exit code %d, want %d", what, code, exit.CodeIO)
	}
	doorbelltest.Has(t, stderr, "doorbell: damaged store: "+filepath.Join(s.Dir, daemon.StoreFile)+": ", "backup", "start it again")
	if regexp.MustCompile("goroutine |panic|assert|exit status|signal:").MatchString(stderr) {
		t.Errorf("%s: %s", what, stderr)
	}
	if n := strings.Count(stderr, "damaged store"); n != 1 {
		t.Errorf("%s: said %d times:\n%s", what, n, stderr)
	}
}

// spoilLeaves changes the high byte of the size of the first key in every leaf page of the store, in place, as a disk does.
func spoilLeaves(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	path := filepath.Join(s.Dir, daemon.StoreFile)
	text, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	for at := 8192; at+4096 <= len(text); at += 4096 {
		if bytewise.NativeEndian.Uint16(text[at+8:]) == 2 && bytewise.NativeEndian.Uint64(text[at:]) == uint64(at/4096) {
			if _, err := f.WriteAt([]byte{text[at+16+8+3] ^ 0x7f}, int64(at+16+8+3)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestADaemonDoesNotStartOnADamagedStore(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	usedBefore(s, t)
	path := filepath.Join(s.Dir, daemon.StoreFile)
	whole := readText(t, path)
	for name, spoil := range map[string]func(){
		"leaves": func() { spoilLeaves(s, t) },
		"cut":    func() { rewrite(t, path, whole[:9000]) },
		"pages":  func() { rewrite(t, path, whole[:2*4096]+strings.Repeat("x", len(whole)-2*4096)) },
	} {
		spoil()
		before := doorbelltest.Tree(t, s.Dir)
		for _, args := range [][]string{{"run"}, {"verify"}, {"backup", filepath.Join(t.TempDir(), "copy")}} {
			c := doorbelltest.Launch(t, s.Environ, args...)
			code := c.Exit(t)
			if args[0] == "verify" && strings.Contains(c.Stdout.String(), "is damaged") { // with findings
				doorbelltest.Has(t, c.Stderr.String(), "doorbell.db is damaged: 1 finding\n", "start it again")
				if strings.Contains(c.Stdout.String(), "0 agencies") || code != exit.CodeIO {
					t.Errorf("%s: exit code %d, or it counts what it cannot read: %s", name, code, c.Stdout.String())
				}
				continue
			}
			mustBeDamage(s, t, name+": "+args[0], code, c.Stderr.String())
		}
		checked(t, s, exit.CodeIO, check.SectionDisk, s.Environ, "damaged store: "+path+": ", "backup", "start it again", "A100: access")
		mustBeUntouched(t, s.Dir, before)
		rewrite(t, path, whole)
	}
	usedBefore(s, t)
}

// TestADaemonExitsWhenItsStoreIsDamaged changes the file beneath a running daemon, which fails as
// soon as it reads the damaged part.
func TestADaemonExitsWhenItsStoreIsDamaged(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	d, sub, _ := running(t, s)
	sub.Request(t, s.Ring(t, "A100"))
	spoilLeaves(s, t)
	s.Ring(t, "A100")
	for _, when := range []string{"run", "again"} {
		if when == "again" {
			d = doorbelltest.Launch(t, s.Environ, "run")
		}
		code := d.Exit(t)
		all := doorbelltest.Lines(d.Stderr.String())
		mustBeDamage(s, t, when, code, strings.Join(all[max(0, len(all)-2):], "\n"))
	}
}
