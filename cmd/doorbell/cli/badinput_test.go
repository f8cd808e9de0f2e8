package cli

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"

	bolt "go.etcd.io/bbolt"
)

// mustBeUntouched compares a directory with what was in it.
func mustBeUntouched(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if after := doorbelltest.Tree(t, dir); !maps.Equal(before, after) {
		t.Errorf("in %s there is %q, and was %q", dir, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
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

// usedBefore fills the data directory as a daemon that has run leaves it.
func usedBefore(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	d, _, _ := running(t, s)
	d.Stop(t)
}

// TestRunRefusesWhatItCannotUseAndTouchesNothing has a directory of a daemon that has run, one that
// does not exist yet, and a file.
func TestRunRefusesWhatItCannotUseAndTouchesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	s, taken := doorbelltest.NewScene(t, "A100"), l.Addr().String()
	usedBefore(s, t)
	parent, file := doorbelltest.ShortDir(t), filepath.Join(doorbelltest.ShortDir(t), "file")
	rewrite(t, file, "not a directory")
	refused := func(environ []string, words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), doorbelltest.Patience)
		defer cancel()
		dirs := []string{s.Dir, parent, filepath.Dir(file)}
		var before []map[string]string
		for _, dir := range dirs {
			before = append(before, doorbelltest.Tree(t, dir))
		}
		var stdout, stderr strings.Builder
		mustSay(t, Main(ctx, []string{"run"}, nil, &stdout, &stderr, environ), stderr.String(), words...)
		if ctx.Err() != nil || stdout.Len() > 0 {
			t.Errorf("it was not refused, or has printed: %s", stdout.String())
		}
		for n, dir := range dirs {
			mustBeUntouched(t, dir, before[n])
		}
	}
	for setting, words := range map[string][]string{
		"DATA_DIR=" + parent + strings.Repeat("/deep", 30): {"DOORBELL_DATA_DIR", "choose a shorter data directory"},
		"DATA_DIR=" + file:            {"DOORBELL_DATA_DIR", file + " is a file, and not a directory; choose another directory"},
		"DATA_DIR=" + file + "/below": {"DOORBELL_DATA_DIR", file + " is a file, and not a directory; choose another directory"},
		"NATS_LISTEN=192.0.2.1:4222":  {"DOORBELL_NATS_LISTEN", "192.0.2.1:4222"},
		"NATS_LISTEN=" + taken:        {taken, "set DOORBELL_NATS_LISTEN to a free address"},
		"HTTP_LISTEN=" + taken:        {taken, "set DOORBELL_HTTP_LISTEN to a free address"},
	} {
		refused(s.With("DOORBELL_DATA_DIR="+parent+"/data", "NATS_USER=u", "NATS_PASSWORD="+doorbelltest.Sentinel, "DOORBELL_"+setting), words...)
	}
	refused(s.With("DOORBELL_NATS_LISTEN="+taken), "set DOORBELL_NATS_LISTEN to a free address")
	refused(s.With("DOORBELL_BASE_URL=https://other.example.com"), s.URL, "https://other.example.com", "choose another data directory")
	ofANewerVersion(s, t)
	refused(s.Environ, filepath.Join(s.Dir, daemon.StoreFile), "use the newer doorbell")
}

// ofANewerVersion raises the schema of the store beyond what this program reads.
func ofANewerVersion(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(s.Dir, daemon.StoreFile), 0o600, &bolt.Options{Timeout: time.Second})
	must(t, err)
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("store"), []byte(`{"schema":1000}`))
	})
	must(t, err)
}
