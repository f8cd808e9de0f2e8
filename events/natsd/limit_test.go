package natsd

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestALargeFolderMayTakeLongerToStart(t *testing.T) {
	dir := t.TempDir()
	s := &Server{options: Options{StoreDir: dir, StartTimeout: time.Second}}
	if got := s.startLimit(); got != time.Second {
		t.Errorf("an empty folder has %v", got)
	}
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "jetstream", "msgs", "1.blk")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(block, 4<<30); err != nil { // holes
		t.Fatal(err)
	}
	if got, want := s.startLimit(), 129*time.Second; got != want {
		t.Errorf("4 GiB have %v, want %v", got, want)
	}
}
