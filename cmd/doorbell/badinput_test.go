package main

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"
)

// mustBeUntouched holds a directory against what was in it.
func mustBeUntouched(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := tree(t, dir)
	if maps.Equal(before, after) {
		return
	}
	for name, text := range after {
		if was, ok := before[name]; !ok || was != text {
			t.Errorf("%s was written", name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s was removed", name)
		}
	}
}

// mustBeRefused runs `doorbell run`, which must end at once with 78, one sentence with these words, and advice.
func mustBeRefused(t *testing.T, environ []string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr strings.Builder
	code := Main(ctx, []string{"run"}, strings.NewReader(""), &stdout, &stderr, environ)
	if ctx.Err() != nil {
		t.Fatal("it was not refused")
	}
	mustSay(t, code, stderr.String(), words...)
	if stdout.Len() > 0 {
		t.Errorf("printed: %s", stdout.String())
	}
}

func mustSay(t *testing.T, code int, stderr string, words ...string) {
	t.Helper()
	if code != exit.CodeConfig {
		t.Errorf("exit code %d, want %d", code, exit.CodeConfig)
	}
	sentences := 0
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "doorbell: ") {
			sentences++
		}
	}
	if sentences != 1 {
		t.Errorf("%d sentences", sentences)
	}
	has(t, stderr, words...)
	holdsNobody(t, stderr)
	if strings.Contains(stderr, sentinel) {
		t.Errorf("a secret is in:\n%s", stderr)
	}
}

func TestRunRefusesWhatOnlyTheSystemKnowsToBeBadAndWritesNothing(t *testing.T) {
	t.Parallel()
	parent := shortDir(t)
	deep := parent + strings.Repeat("/deep", 30)
	mustBeRefused(t, fit("DOORBELL_DATA_DIR="+deep, "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off"), "DOORBELL_DATA_DIR", "choose a shorter data directory")
	mustBeRefused(t, fit("DOORBELL_DATA_DIR="+parent+"/data", "DOORBELL_NATS_LISTEN=192.0.2.1:4222", "DOORBELL_HTTP_LISTEN=off", "NATS_USER=u", "NATS_PASSWORD="+sentinel),
		"DOORBELL_NATS_LISTEN", "192.0.2.1:4222")
	mustBeUntouched(t, parent, map[string]string{parent: os.ModeDir.String()})
}

func TestRunRefusesADataDirectoryThatIsNone(t *testing.T) {
	t.Parallel()
	file := write(t, "file", "not a directory", 0o600)
	before := tree(t, filepath.Dir(file))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		mustBeRefused(t, fit("DOORBELL_DATA_DIR="+dir, "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off"), "DOORBELL_DATA_DIR", file+" is a file, and not a directory; choose another directory")
	}
	mustBeUntouched(t, filepath.Dir(file), before)
}

func TestADataDirectoryThatCannotBeMadeIsNoMatterOfSpace(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self"); err != nil {
		skiptest.Skipf(t, "there is no /proc here")
	}
	environ := fit("DOORBELL_DATA_DIR=/proc/x", "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off")
	mustBeRefused(t, environ, "DOORBELL_DATA_DIR: data directory: mkdir /proc/x", "no directory can be made there; choose another one")
	got := run(t, environ, "check")
	has(t, got.stdout, "fail", "no directory can be made there; choose another one")
	if strings.Contains(got.stdout, "space") || strings.Contains(got.stdout, "run makes it") {
		t.Errorf("check speaks of space, or of a directory that run makes:\n%s", got.stdout)
	}
}

func TestRunRefusesAPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newScene(t, "A100")
	for _, setting := range []string{"DOORBELL_NATS_LISTEN", "DOORBELL_HTTP_LISTEN"} {
		words := []string{setting, l.Addr().String(), "set " + setting + " to a free address"}
		fresh := filepath.Join(s.dir, "data")
		mustBeRefused(t, s.with("DOORBELL_DATA_DIR="+fresh, setting+"="+l.Addr().String()), words...)
		if _, err := os.Stat(fresh); !os.IsNotExist(err) {
			t.Errorf("%s was made", fresh)
		}
	}
	s.usedBefore(t)
	before := tree(t, s.dir)
	mustBeRefused(t, s.with("DOORBELL_NATS_LISTEN="+l.Addr().String()), "set DOORBELL_NATS_LISTEN to a free address")
	mustBeUntouched(t, s.dir, before)
	mustBeRefused(t, s.with("DOORBELL_HTTP_LISTEN="+l.Addr().String()), "set DOORBELL_HTTP_LISTEN to a free address")
}

func TestRunWaitsForAPortThatIsInUseForAMoment(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"DOORBELL_NATS_LISTEN", "DOORBELL_HTTP_LISTEN"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := newScene(t, "A100")
		d := launch(t, s.with(setting+"="+l.Addr().String()), "run")
		d.stderr.await(t, setting+".* is in use by another program; .*tried again")
		l.Close()
		natsURL(t, s.dir)
		d.stop(t)
	}
}

// usedBefore makes the data directory one of a daemon that has run.
func (s scene) usedBefore(t *testing.T) {
	t.Helper()
	d := launch(t, s.environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100")
	d.stop(t)
}

func TestRunRefusesAStoreThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	s.usedBefore(t)
	before := tree(t, s.dir)
	mustBeRefused(t, s.with("DOORBELL_BASE_URL=https://other.example.com"), s.url, "https://other.example.com", "choose another data directory")
	mustBeUntouched(t, s.dir, before)

	s.ofANewerVersion(t)
	before = tree(t, s.dir)
	mustBeRefused(t, s.environ, filepath.Join(s.dir, daemon.StoreFile), "use the newer doorbell")
	mustBeUntouched(t, s.dir, before)

	if err := os.Remove(filepath.Join(s.dir, daemon.StoreFile)); err != nil {
		t.Fatal(err)
	}
	before = tree(t, s.dir)
	mustBeRefused(t, s.environ, filepath.Join(s.dir, daemon.StoreFile), "backup")
	mustBeUntouched(t, s.dir, before)
}

// ofANewerVersion raises the schema of the store beyond what this program reads.
func (s scene) ofANewerVersion(t *testing.T) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(s.dir, daemon.StoreFile), 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("store"), []byte(`{"schema":1000}`))
	})
	if err != nil {
		t.Fatal(err)
	}
}
