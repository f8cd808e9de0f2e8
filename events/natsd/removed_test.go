package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What was erased on purpose, and before the server wrote down how the stream stands, is no damage.
func TestAStreamFromWhichWholeBlocksWereErasedIsLeftAlone(t *testing.T) {
	for name, erased := range map[string][2]uint64{"in the middle": {10, 75}, "at the front": {1, 60}, "all but one": {1, 99}} {
		t.Run(name, func(t *testing.T) {
			clean, _ := folders(t)
			s := start(t, func(o *Options) { o.StoreDir = filepath.Join(clean, "jetstream") })
			_, js := connect(t, s)
			stream, err := js.Stream(t.Context(), "LISTINGS")
			if err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(clean, "jetstream/jetstream/DOORBELL/streams/LISTINGS")
			before, _ := blockNumbers(filepath.Join(folder, "msgs"))
			for seq := erased[0]; seq <= erased[1]; seq++ {
				if err := stream.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
			crashed := filepath.Join(t.TempDir(), "LISTINGS")
			if err := os.CopyFS(crashed, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			if after, _ := blockNumbers(filepath.Join(crashed, "msgs")); len(after) >= len(before) {
				t.Fatalf("no block is gone: %v, were %v", after, before)
			}
			if err := checkStream(t.Context(), crashed, "LISTINGS"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStreamThatWasPurgedIsLeftAlone(t *testing.T) {
	clean, _ := folders(t)
	s := start(t, func(o *Options) { o.StoreDir = filepath.Join(clean, "jetstream") })
	_, js := connect(t, s)
	stream, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), message(written+1)); err != nil {
		t.Fatal(err)
	}
	crashed := filepath.Join(t.TempDir(), "LISTINGS")
	if err := os.CopyFS(crashed, os.DirFS(filepath.Join(clean, "jetstream/jetstream/DOORBELL/streams/LISTINGS"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(crashed, "msgs/index.db")); err != nil && !os.IsNotExist(err) { // the last that a purge writes
		t.Fatal(err)
	}
	numbers, _ := blockNumbers(filepath.Join(crashed, "msgs"))
	if len(numbers) != 1 || numbers[0] == 1 {
		t.Fatalf("blocks %v", numbers)
	}
	if err := checkStream(t.Context(), crashed, "LISTINGS"); err != nil {
		t.Error(err)
	}
}

func TestAFirstBlockThatIsGoneBeforeTheServerWroteAnIndexIsDamage(t *testing.T) {
	_, crashed := folders(t)
	folder := filepath.Join(crashed, "jetstream/jetstream/DOORBELL/streams/LISTINGS")
	if err := os.Remove(filepath.Join(folder, "msgs/1.blk")); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(folder, "msgs/index.db")) // mostly there is none yet
	if err := checkStream(t.Context(), folder, "LISTINGS"); !errors.Is(err, errDamaged) {
		t.Errorf("%v", err)
	}
}
