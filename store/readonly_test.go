package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAStoreIsReadWithoutBeingTouched(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, BaseURL: "https://api.example.com", LockTimeout: 50 * time.Millisecond}
	if _, err := OpenReadOnly(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v was made: %v", files, err)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := OpenReadOnly(o); !errors.As(err, &locked) {
		t.Errorf("while it is written: %v", err)
	}
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}

	r, err := OpenReadOnly(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.ID() != id || r.BaseURL() != o.BaseURL {
		t.Errorf("store %s of %s", r.ID(), r.BaseURL())
	}
	if err := r.Update(func(*Tx) error { return nil }); err == nil {
		t.Error("it can be written")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil || string(after) != string(before) {
		t.Errorf("it was changed: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v lie there: %v", files, err)
	}
	o.BaseURL = "https://other.example.com"
	if _, err := OpenReadOnly(o); !errors.Is(err, ErrForeign) {
		t.Errorf("of another API: %v", err)
	}
}
