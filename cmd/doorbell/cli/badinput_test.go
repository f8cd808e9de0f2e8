package cli

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"

	bolt "go.etcd.io/bbolt"
)

// mustBeUntouched holds a directory against what was in it.
func mustBeUntouched(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := doorbelltest.Tree(t, dir)
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
	ctx, cancel := context.WithTimeout(t.Context(), doorbelltest.Patience)
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
	doorbelltest.Has(t, stderr, words...)
	doorbelltest.HoldsNobody(t, stderr)
	if strings.Contains(stderr, doorbelltest.Sentinel) {
		t.Errorf("a secret is in:\n%s", stderr)
	}
}

func TestRunRefusesWhatOnlyTheSystemKnowsToBeBadAndWritesNothing(t *testing.T) {
	t.Parallel()
	parent := doorbelltest.ShortDir(t)
	deep := parent + strings.Repeat("/deep", 30)
	mustBeRefused(t, doorbelltest.Fit("DOORBELL_DATA_DIR="+deep, "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off"), "DOORBELL_DATA_DIR", "choose a shorter data directory")
	mustBeRefused(t, doorbelltest.Fit("DOORBELL_DATA_DIR="+parent+"/data", "DOORBELL_NATS_LISTEN=192.0.2.1:4222", "DOORBELL_HTTP_LISTEN=off", "NATS_USER=u", "NATS_PASSWORD="+doorbelltest.Sentinel),
		"DOORBELL_NATS_LISTEN", "192.0.2.1:4222")
	mustBeUntouched(t, parent, map[string]string{parent: os.ModeDir.String()})
}

func TestRunRefusesADataDirectoryThatIsNone(t *testing.T) {
	t.Parallel()
	file := write(t, "file", "not a directory", 0o600)
	before := doorbelltest.Tree(t, filepath.Dir(file))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		mustBeRefused(t, doorbelltest.Fit("DOORBELL_DATA_DIR="+dir, "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off"), "DOORBELL_DATA_DIR", file+" is a file, and not a directory; choose another directory")
	}
	mustBeUntouched(t, filepath.Dir(file), before)
}

func TestRunRefusesAPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := doorbelltest.NewScene(t, "A100")
	for _, setting := range []string{"DOORBELL_NATS_LISTEN", "DOORBELL_HTTP_LISTEN"} {
		words := []string{setting, l.Addr().String(), "set " + setting + " to a free address"}
		fresh := filepath.Join(s.Dir, "data")
		mustBeRefused(t, s.With("DOORBELL_DATA_DIR="+fresh, setting+"="+l.Addr().String()), words...)
		if _, err := os.Stat(fresh); !os.IsNotExist(err) {
			t.Errorf("%s was made", fresh)
		}
	}
	usedBefore(s, t)
	before := doorbelltest.Tree(t, s.Dir)
	mustBeRefused(t, s.With("DOORBELL_NATS_LISTEN="+l.Addr().String()), "set DOORBELL_NATS_LISTEN to a free address")
	mustBeUntouched(t, s.Dir, before)
}

// usedBefore makes the data directory one of a daemon that has run.
func usedBefore(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
}

func TestRunRefusesAStoreThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	usedBefore(s, t)
	before := doorbelltest.Tree(t, s.Dir)
	mustBeRefused(t, s.With("DOORBELL_BASE_URL=https://other.example.com"), s.URL, "https://other.example.com", "choose another data directory")
	mustBeUntouched(t, s.Dir, before)

	ofANewerVersion(s, t)
	before = doorbelltest.Tree(t, s.Dir)
	mustBeRefused(t, s.Environ, filepath.Join(s.Dir, daemon.StoreFile), "use the newer doorbell")
	mustBeUntouched(t, s.Dir, before)
}

// ofANewerVersion raises the schema of the store beyond what this program reads.
func ofANewerVersion(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(s.Dir, daemon.StoreFile), 0o600, &bolt.Options{Timeout: time.Second})
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
