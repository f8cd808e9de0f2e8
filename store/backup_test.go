package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/store"
)

// into copies a store that is open.
func into(s *store.Store) func(io.Writer) error {
	return func(w io.Writer) error { return s.Backup(w, func(int64) {}) }
}

func TestABackupHoldsWhatTheStoreHeldAtItsBeginning(t *testing.T) {
	s := open(t, t.TempDir())
	update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err })
	path := filepath.Join(t.TempDir(), "copy.db")
	r, err := store.ReceiveBackup(t.Context(), path, false, store.Verify, into(s))
	if err != nil || r.Events != 1 || r.StoreID != s.ID() || r.Path != path {
		t.Fatalf("%v, %+v", err, r)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	update(t, s, func(tx *store.Tx) error { _, err := tx.Append(event(t, "A100")); return err })
	first := contents(t, filepath.Dir(path))
	if _, err := store.ReceiveBackup(t.Context(), path, false, store.Verify, into(s)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup was replaced: %v", err)
	}
	if again := contents(t, filepath.Dir(path)); len(again) != 1 || again["copy.db"] != first["copy.db"] {
		t.Error("the refused backup left something behind")
	}
	if r, err := store.ReceiveBackup(t.Context(), path, true, store.Verify, into(s)); err != nil || r.Events != 2 {
		t.Errorf("%v, %+v", err, r)
	}
	check(t, path)
}

func TestABackupThatFailsLeavesNothingBehind(t *testing.T) {
	s := open(t, t.TempDir())
	var whole bytes.Buffer
	if err := into(s)(&whole); err != nil {
		t.Fatal(err)
	}
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
		if _, err := store.ReceiveBackup(t.Context(), old, true, store.Verify, c.copy); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if left := contents(t, dir); len(left) != 1 || left["copy.db"] != "an old backup" {
			t.Errorf("%s: %d files are left, or the old backup is gone", name, len(left))
		}
	}
}

func TestABackupRemovesWhatKilledOnesLeftAndNothingElse(t *testing.T) {
	s, dir := open(t, t.TempDir()), t.TempDir()
	hidden := func() []string {
		parts, err := filepath.Glob(filepath.Join(dir, ".doorbell-*"))
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	backup := func(name string, during func()) {
		_, err := store.ReceiveBackup(t.Context(), filepath.Join(dir, name), false, store.Verify, func(w io.Writer) error {
			defer during()
			return into(s)(w)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	killed := filepath.Join(dir, ".doorbell-123")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(killed, "doorbell.db"), "half")
	backup("2026-11-21.db", func() {
		atWork := hidden()
		if len(atWork) != 1 || atWork[0] == killed {
			t.Errorf("%v", atWork)
		}
		backup("2026-11-22.db", func() {})
		if parts := hidden(); !slices.Equal(parts, atWork) {
			t.Errorf("%v, want %v", parts, atWork)
		}
	})
	if got := contents(t, dir); len(got) != 2 {
		t.Errorf("%d files", len(got))
	}
}

// slowWriter waits after its first bytes until it is told to go on.
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
	go func() { // 16 MB: the file would have had to be mapped anew several times
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

func TestACompactedStoreHoldsTheSameInLess(t *testing.T) {
	dir := filepath.Dir(furnished(t))
	was, err := store.Verify(t.Context(), filepath.Join(dir, "doorbell.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", "large", bytes.Repeat([]byte("1"), 32<<20)) })
	update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", "large", []byte("1")) })
	o, asked := store.Options{Dir: dir, LockTimeout: 50 * time.Millisecond}, int64(0)
	room := func(bytes int64) error { asked = bytes; return nil }
	var locked *store.LockedError
	if _, err := store.Compact(t.Context(), o, store.Verify, room); !errors.As(err, &locked) {
		t.Errorf("while it is open: %v", err)
	}
	s.Close()
	before := contents(t, dir)
	boom := errors.New("boom")
	if _, err := store.Compact(t.Context(), o, store.Verify, func(int64) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("without room: %v", err)
	}
	if after := contents(t, dir); len(after) != 1 || after["doorbell.db"] != before["doorbell.db"] {
		t.Error("a refused compaction changed something")
	}
	done, err := store.Compact(t.Context(), o, store.Verify, room)
	if err != nil || done.Before < 32<<20 || done.After > 2<<20 || asked < done.After/2 {
		t.Errorf("%+v, %v, asked for %d bytes", done, err, asked)
	}
	is, err := store.Verify(t.Context(), filepath.Join(dir, "doorbell.db"))
	if err != nil || len(is.Findings) > 0 || is.Events != was.Events || is.ContactRequests != was.ContactRequests || is.StoreID != was.StoreID {
		t.Errorf("%v: was %+v, is %+v", err, was, is)
	}
	if after := contents(t, dir); len(after) != 1 {
		t.Errorf("%d files lie there", len(after))
	}
	open(t, dir)
}

// What Compact makes has one commit: the other head is that of an empty file.
func TestAStoreWhoseOnlyHeadIsUnreadableIsNotTakenForANewOne(t *testing.T) {
	for at := int64(16); at < 80; at += 7 {
		dir := filepath.Dir(furnished(t))
		o := store.Options{Dir: dir, BaseURL: "https://api.example.org"}
		if _, err := store.Compact(t.Context(), o, store.Verify, func(int64) error { return nil }); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "doorbell.db")
		b := []byte(contents(t, dir)["doorbell.db"])
		b[at] ^= 0x7f
		write(t, path, string(b))
		s, err := store.Open(o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrEmpty) {
			t.Errorf("byte %d: opened: %v", at, err)
		}
		if _, err := store.Verify(t.Context(), path); !errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrEmpty) {
			t.Errorf("byte %d: verified: %v", at, err)
		}
		if contents(t, dir)["doorbell.db"] != string(b) {
			t.Fatalf("byte %d: the file has changed", at)
		}
	}
}

// BenchmarkBackup measures the copy of a store of 1 GB while others commit 16 kB each, as fast as they can: what the longest of
// their commits took, and how much the file has grown by what could not be overwritten meanwhile.
//
//	go test ./store -run '^$' -bench Backup -benchtime 1x
func BenchmarkBackup(b *testing.B) {
	for range b.N {
		s := open(b, b.TempDir())
		record := slices.Concat([]byte(`"`), bytes.Repeat([]byte("a"), 16<<10), []byte(`"`))
		for from := 0; from < 1<<16; from += 1 << 10 {
			update(b, s, func(tx *store.Tx) (err error) {
				for n := from; n < from+1<<10; n++ {
					err = errors.Join(err, tx.PutRecord("A100", fmt.Sprintf("%08d", n), record))
				}
				return err
			})
		}
		stop, ended, commits := make(chan struct{}), make(chan time.Duration), 0
		go func() {
			var longest time.Duration
			for ; ; commits++ {
				began := time.Now()
				err := s.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", fmt.Sprintf("%08d", commits*37%(1<<16)), record) })
				if longest = max(longest, time.Since(began)); err != nil {
					b.Error(err)
				}
				select {
				case <-stop:
					ended <- longest
					return
				default:
				}
			}
		}()
		before, began := size(b, s.Path()), time.Now()
		path := filepath.Join(b.TempDir(), "copy.db")
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		var copied int64
		if err := errors.Join(s.Backup(f, func(bytes int64) { copied = bytes }), f.Sync(), f.Close()); err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		close(stop)
		longest := <-ended
		b.ReportMetric(float64(copied)/1e6/took.Seconds(), "MB/s")
		b.ReportMetric(float64(longest.Milliseconds()), "longest-commit-ms")
		b.ReportMetric(float64(commits), "commits")
		b.ReportMetric(float64(size(b, s.Path())-before)/1e6, "grown-MB")
		b.ReportMetric(0, "ns/op")
	}
}

func size(b *testing.B, path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
