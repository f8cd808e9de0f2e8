package natsd

import (
	"os"
	"path/filepath"
	"testing"
)

// A process that is killed while it makes a stream leaves a folder without one.
func TestAStreamThatWasNeverFinishedKeepsNoServerIll(t *testing.T) {
	dir := t.TempDir()
	s := start(t, func(o *Options) { o.StoreDir = dir })
	_, js := connect(t, s)
	makeStream(t, js, 3)
	s.Shutdown()
	left := filepath.Join(dir, "jetstream", "DOORBELL", "streams", "LISTINGS_REPLAY", "msgs")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	s = start(t, func(o *Options) { o.StoreDir = dir; o.StuckAfter = 2e9 })
	for range 2 {
		if err := s.RunOnce(t.Context()); err != nil || s.Status().Restarts > 0 {
			t.Fatalf("%v, %+v", err, s.Status())
		}
	}
	_, js = connect(t, s)
	if n := messages(t, js); n != 3 {
		t.Errorf("%d messages", n)
	}
}
