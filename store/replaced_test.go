package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/store"
)

// replaced lets compact finish while another process waits for the lock: it returns when the file has been replaced, with
// the store that still has the old one.
func replaced(t *testing.T, wait store.Options) (old *store.Store, opened chan error) {
	t.Helper()
	path := filepath.Join(wait.Dir, "doorbell.db")
	old, opened = open(t, wait.Dir), make(chan error, 1)
	go func() {
		s, err := store.Open(wait)
		if err == nil {
			err = errors.Join(s.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", "after", []byte(`"kept"`)) }), s.Close())
		}
		opened <- err
	}()
	time.Sleep(200 * time.Millisecond) // it waits now
	write(t, path+".new", contents(t, wait.Dir)["doorbell.db"])
	must(t, os.Rename(path+".new", path))
	return old, opened
}

func TestAProcessThatWaitsForAReplacedStoreOpensTheNewOne(t *testing.T) {
	dir := t.TempDir()
	old, opened := replaced(t, store.Options{Dir: dir, BaseURL: baseURL, LockTimeout: 10 * time.Second})
	old.Close()
	must(t, <-opened)
	must(t, open(t, dir).View(func(tx *store.Tx) error {
		if r := tx.Record("A100", "after"); string(r) != `"kept"` {
			t.Errorf("what was written is lost: %q", r)
		}
		return nil
	}))
}
