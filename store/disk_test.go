//go:build linux

package store_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"doorbell/events/helptest"
	"doorbell/store"
)

func TestOnAFullDiskNothingIsLostAndNothingIsLeft(t *testing.T) {
	disk, fill, free := helptest.SmallDisk(t, "20m", 0)
	dir, now := filepath.Join(disk, "data"), era
	s := openAt(t, dir, &now)
	for range 40 {
		must(t, large(t, s, 100<<10))
		now = now.Add(time.Minute)
	}
	publish(t, s, 40)
	fill(0)
	entries := func() int {
		all, _ := filepath.Glob(filepath.Join(disk, "*"))
		data, _ := filepath.Glob(filepath.Join(dir, "*"))
		return len(all) + len(data)
	}
	before := entries()
	if _, err := store.ReceiveBackup(t.Context(), filepath.Join(disk, "copy.db"), false, into(s)); err == nil {
		t.Errorf("backup: %v", err)
	}
	trimmed := 0
	var err error
	for n := 1; n > 0; trimmed += n {
		if n, err = s.Trim(now, 3); err != nil && (!errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrUnknownOutcome)) {
			t.Fatalf("trim: %v", err)
		}
	}
	if failure := s.Failure(); !errors.Is(err, failure) || !errors.Is(s.View(func(*store.Tx) error { return nil }), failure) {
		t.Errorf("it continues after %v", err)
	}
	s.Close()
	s = openAt(t, dir, &now)
	if got := kept(t, s); len(got) != 40-trimmed || got[len(got)-1] != 40 {
		t.Errorf("after %d were trimmed the log holds %v", trimmed, got)
	}
	s.Close()
	if after := entries(); after != before {
		t.Errorf("there are %d files, and there were %d", after, before)
	}
	free()
	s = openAt(t, dir, &now)
	if n, err := s.Trim(now, 100); err != nil || n+trimmed != 39 {
		t.Errorf("%d and %d were trimmed: %v", trimmed, n, err)
	}
	if _, err := store.ReceiveBackup(t.Context(), filepath.Join(disk, "copy.db"), false, into(s)); err != nil {
		t.Error(err)
	}
	erases(t, s, request(1))
	s.Close()
	if holds, err := openAt(t, dir, &now).HoldsErased(); err != nil || holds {
		t.Errorf("it was not compacted: %v", err)
	}
}
