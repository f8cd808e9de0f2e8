package store_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/store"
)

// into copies an open store.
func into(s *store.Store) func(io.Writer) error {
	return func(w io.Writer) error { return s.Backup(w, func(int64) {}) }
}

func TestABackupHoldsWhatTheStoreHeldAtItsBeginning(t *testing.T) {
	s := open(t, t.TempDir())
	update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err })
	path := filepath.Join(t.TempDir(), "copy.db")
	r, err := store.ReceiveBackup(t.Context(), path, false, into(s))
	if err != nil || r.Events != 1 || r.StoreID != s.ID() || r.Path != path {
		t.Fatalf("%v, %+v", err, r)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err })
	first := contents(t, filepath.Dir(path))
	if _, err := store.ReceiveBackup(t.Context(), path, false, into(s)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup was replaced: %v", err)
	}
	if again := contents(t, filepath.Dir(path)); len(again) != 1 || again["copy.db"] != first["copy.db"] {
		t.Error("the refused backup left something behind")
	}
	if r, err := store.ReceiveBackup(t.Context(), path, true, into(s)); err != nil || r.Events != 2 {
		t.Errorf("%v, %+v", err, r)
	}
	check(t, path)
}

func TestABackupThatFailsLeavesNothingBehind(t *testing.T) {
	s := open(t, t.TempDir())
	var whole bytes.Buffer
	must(t, into(s)(&whole))
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		copy func(io.Writer) error
		want error
	}{
		"the other side failed": {func(w io.Writer) error { w.Write(whole.Bytes()); return boom }, boom},
		"half of it":            {func(w io.Writer) error { _, err := w.Write(whole.Bytes()[:whole.Len()/2]); return err }, store.ErrDamaged},
		"nothing":               {func(io.Writer) error { return nil }, store.ErrDamaged},
		"something else":        {func(w io.Writer) error { _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); return err }, store.ErrDamaged},
	} {
		dir := t.TempDir()
		old := filepath.Join(dir, "copy.db")
		write(t, old, "an old backup")
		if _, err := store.ReceiveBackup(t.Context(), old, true, c.copy); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if left := contents(t, dir); len(left) != 1 || left["copy.db"] != "an old backup" {
			t.Errorf("%s: %d files are left, or the old backup is gone", name, len(left))
		}
	}
}

// slowWriter waits after its first bytes until it is released.
type slowWriter struct {
	begun, goOn chan struct{}
	n           int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.n++; w.n == 3 { // the heads are written, and now the pages
		close(w.begun)
		<-w.goOn
	}
	return len(p), nil
}

func TestCommitsDoNotWaitForABackup(t *testing.T) {
	s := open(t, t.TempDir())
	w := &slowWriter{begun: make(chan struct{}), goOn: make(chan struct{})}
	copied := make(chan error, 1)
	go func() { copied <- into(s)(w) }()
	<-w.begun
	written := make(chan error, 1)
	go func() { // 16 MB: the file would have had to be mapped again several times
		var err error
		for n := 0; n < 16 && err == nil; n++ {
			err = s.Update(func(tx *store.Tx) error {
				return tx.PutRecord("A100", string(rune('a'+n)), bytes.Repeat([]byte("1"), 1<<20))
			})
		}
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("commits wait for a copy that is under way")
	}
	close(w.goOn)
	if err := <-copied; err != nil {
		t.Error(err)
	}
}

func TestAStartCompactsAFileOfWhichHalfIsFree(t *testing.T) {
	dir := filepath.Dir(furnished(t))
	path := filepath.Join(dir, "doorbell.db")
	was, err := store.Verify(t.Context(), path)
	must(t, err)
	s := open(t, dir)
	update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", "large", bytes.Repeat([]byte("1"), 32<<20)) })
	update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", "large", []byte("1")) })
	s.Close()
	for _, left := range []string{"doorbell.db.compact", "doorbell.db.copy", "doorbell.db.copy.part"} {
		write(t, filepath.Join(dir, left), "of a process that was killed")
	}
	s = open(t, dir)
	if info, err := os.Stat(path); err != nil || s.NotCompacted() != nil || info.Size() > 8<<20 {
		t.Error(err, s.NotCompacted(), info.Size())
	}
	s.Close()
	is, err := store.Verify(t.Context(), path)
	if err != nil || len(is.Findings) > 0 || is.Events != was.Events || is.ContactRequests != was.ContactRequests || is.StoreID != was.StoreID {
		t.Errorf("%v: was %+v, is %+v", err, was, is)
	}
	if after := contents(t, dir); len(after) != 1 {
		t.Errorf("there are %d files", len(after))
	}
}

// Where the newer head of a file is damaged, bbolt takes the older one, which must not be that of an empty file.
func TestACompactedStoreHasTwoHeadsThatLeadToAllOfIt(t *testing.T) {
	for at := int64(16); at < 8192; at += 7 {
		if at > 80 && at < 4096+16 || at > 4096+80 {
			continue
		}
		dir := filepath.Dir(furnished(t))
		s := open(t, dir)
		erases(t, s, store.Request{Reference: "a#1##", ID: "c1-1"})
		s.Close()
		s = open(t, dir)
		if holds, err := s.HoldsErased(); err != nil || holds {
			t.Fatalf("it was not compacted: %v", err)
		}
		want, err := everything(s)
		must(t, errors.Join(err, s.Close()))
		path := filepath.Join(dir, "doorbell.db")
		b := []byte(contents(t, dir)["doorbell.db"])
		b[at] ^= 0x7f
		write(t, path, string(b))
		s, err = store.Open(store.Options{Dir: dir, BaseURL: baseURL})
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		got, err := everything(s)
		must(t, errors.Join(err, s.Close()))
		if !maps.Equal(got, want) {
			t.Fatalf("byte %d: it holds something else", at)
		}
	}
}

func TestErasedPeopleLeaveTheFileAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	knows(t, s)
	appended(t, s, asked(t, request(1), 0, era))
	holds := func(want bool) {
		t.Helper()
		if got, err := s.HoldsErased(); err != nil || got != want {
			t.Errorf("%t, %v; want %t", got, err, want)
		}
		if inFile := strings.Contains(contents(t, dir)["doorbell.db"], nora); inFile != want {
			t.Errorf("the person is in the file: %t, want %t", inFile, want)
		}
	}
	erases(t, s, request(1))
	holds(true)
	s.Close()
	s = open(t, dir)
	holds(false)
}
