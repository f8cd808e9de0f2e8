package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/store"
)

// A compaction finishes while another process waits for the lock of the file that is replaced.
func TestAProcessThatWaitsForAReplacedStoreOpensTheNewOne(t *testing.T) {
	dir := t.TempDir()
	old, opened := open(t, dir), make(chan error, 1)
	go func() {
		s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, LockTimeout: 10 * time.Second})
		if err == nil {
			err = errors.Join(s.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", "after", []byte(`"kept"`)) }), s.Close())
		}
		opened <- err
	}()
	time.Sleep(200 * time.Millisecond) // it waits now
	path := filepath.Join(dir, "doorbell.db")
	write(t, path+".new", contents(t, dir)["doorbell.db"])
	must(t, os.Rename(path+".new", path))
	old.Close()
	must(t, <-opened)
	must(t, open(t, dir).View(func(tx *store.Tx) error {
		if r := tx.Record("A100", "after"); string(r) != `"kept"` {
			t.Errorf("what was written is lost: %q", r)
		}
		return nil
	}))
}
