package natsd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestWhatWasDeletedButNotErasedIsErasedBeforeTheNextStart deletes messages without erasing them, which leaves what an erasure leaves that
// was cut short: one in the block of the note about it, and one in a block before.
func TestWhatWasDeletedButNotErasedIsErasedBeforeTheNextStart(t *testing.T) {
	o := Options{StoreDir: filepath.Join(t.TempDir(), "jetstream")}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, js := connect(t, s)
	config := jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxBytes: 127_000} // files of 32 kB
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	const messages = 10
	text := func(n uint64) []byte { return fmt.Appendf(nil, "message %d.", n) }
	for n := range uint64(messages) {
		if _, err := js.Publish(t.Context(), "listings.v1.A100.test", append(text(n+1), make([]byte, 9_000)...)); err != nil {
			t.Fatal(err)
		}
	}
	found := func(n uint64) (files int) {
		blocks, err := filepath.Glob(s.folder(account, "streams", "LISTINGS", "msgs", "*"))
		if err != nil || len(blocks) < 3 { // one is the index
			t.Fatal(blocks, err)
		}
		for _, path := range blocks {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files += bytes.Count(b, text(n))
		}
		return files
	}
	gone := []uint64{3, messages}
	stream, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range gone {
		if err := stream.DeleteMsg(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	for _, erasing := range []bool{false, true} {
		o.Erasing = func() bool { return erasing }
		if s, err = Start(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		_, js = connect(t, s)
		for n := range uint64(messages) {
			mustHold(t, js, n+1, n+1 != gone[0] && n+1 != gone[1], text(n+1))
		}
		s.Shutdown()
		for _, n := range gone {
			if files := found(n); files == 0 != erasing {
				t.Errorf("erasing %v: message %d stands in %d files", erasing, n, files)
			}
		}
	}
	if err := os.Remove(s.folder(account, "streams", "LISTINGS", "msgs", "index.db")); err != nil {
		t.Fatal(err)
	}
	if s, err = Start(t.Context(), o); err != nil { // it reads all blocks, with their checksums
		t.Fatal(err)
	}
	defer s.Shutdown()
	_, js = connect(t, s)
	for n := range uint64(messages) {
		mustHold(t, js, n+1, n+1 != gone[0] && n+1 != gone[1], text(n+1))
	}
}

// mustHold wants a message in the stream, or none.
func mustHold(t *testing.T, js jetstream.JetStream, n uint64, there bool, text []byte) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), n)
	if (err == nil) != there || there && !bytes.HasPrefix(m.Data, text) {
		t.Errorf("message %d: %v, want it there: %v", n, err, there)
	}
}
