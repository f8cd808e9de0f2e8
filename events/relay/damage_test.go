package relay

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rounds = flag.Int("rounds", 1, "how many times 10 happenings, 4 kills of a server and one of a leader are tried")

// TestWhatTheServersFilesHaveLostIsOfferedAgain clears a part of a block, as a bad disk does. The server does not miss what
// stood there.
func TestWhatTheServersFilesHaveLostIsOfferedAgain(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 60)
	b.deliver()
	b.whileDown(func() error {
		blocks, err := filepath.Glob(filepath.Join(folder, "jetstream/DOORBELL/streams/LISTINGS/msgs/*.blk"))
		if err != nil || len(blocks) != 1 {
			t.Fatal(blocks, err)
		}
		block, err := os.ReadFile(blocks[0])
		if err != nil {
			return err
		}
		clear(block[len(block)/2 : len(block)/2+64])
		return os.WriteFile(blocks[0], block, 0o600)
	})
	if n := len(held(t, b.js, "listings.v1.>")); n >= 60 {
		t.Fatalf("%d messages are left of 60: nothing is damaged", n)
	}
	b.log.ring(t, "A100", 1)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}
