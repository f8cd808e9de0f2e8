package store_test

import (
	"errors"
	"io/fs"
	"maps"
	"testing"
	"time"

	"doorbell/store"
)

func TestAStoreIsReadWithoutBeingTouched(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{Dir: dir, BaseURL: "https://api.example.com", LockTimeout: 50 * time.Millisecond}
	if _, err := store.OpenReadOnly(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
	if len(contents(t, dir)) > 0 {
		t.Error("something was made")
	}
	s, err := store.Open(o)
	must(t, err)
	var locked *store.LockedError
	if _, err := store.OpenReadOnly(o); !errors.As(err, &locked) {
		t.Errorf("while it is written: %v", err)
	}
	id := s.ID()
	must(t, s.Close())
	before := contents(t, dir)
	r, err := store.OpenReadOnly(o)
	must(t, err)
	if r.ID() != id || r.BaseURL() != o.BaseURL {
		t.Errorf("store %s of %s", r.ID(), r.BaseURL())
	}
	if err := r.Update(func(*store.Tx) error { return nil }); err == nil {
		t.Error("it can be written")
	}
	must(t, r.Close())
	if !maps.Equal(contents(t, dir), before) {
		t.Error("it was changed, or not left alone")
	}
	o.BaseURL = "https://other.example.com"
	if _, err := store.OpenReadOnly(o); !errors.Is(err, store.ErrForeign) {
		t.Errorf("of another API: %v", err)
	}
}
