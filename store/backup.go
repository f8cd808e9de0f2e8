package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the store while it is in use. sized is called with their
// number before the first byte.
//
// As long as it takes, what is changed cannot be overwritten, and the file grows by it. No commit
// waits: the file is mapped far beyond its end, so that a commit never has to move it.
func (s *Store) Backup(w io.Writer, sized func(bytes int64)) error {
	err := s.View(func(tx *Tx) error {
		sized(tx.tx.Size())
		_, err := tx.tx.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("store: copy: %w", err)
	}
	return nil
}

// partial is behind the name of a backup that is not finished.
const partial = ".part"

// CopyFile is the name of a copy beside the store that is only looked at. A start removes it if it
// was left behind.
const CopyFile = fileName + ".copy"

// compacting is behind the name of the store that a compaction makes.
const compacting = ".compact"

// scratchFiles are behind the name of the store what processes that were killed may have left
// beside it.
var scratchFiles = []string{compacting, ".copy", ".copy" + partial}

// ReceiveBackup makes the file of a backup at path: from what copy writes, under another name
// beside it until all of it is on disk and verified. A file that is there is replaced only if so
// asked. On failure no file is left behind.
func ReceiveBackup(ctx context.Context, path string, replace bool,
	copy func(io.Writer) error,
) (r Report, err error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return r, &os.PathError{Op: "backup", Path: path, Err: os.ErrExist}
	}
	made := path + partial
	defer os.Remove(made)
	if err := writeFile(made, copy); err != nil {
		return r, err
	}
	if r, err = Verify(ctx, made); err != nil || len(r.Findings) > 0 {
		return r, errors.Join(err, r.Damage())
	}
	r.Path = path
	if err := os.Rename(made, path); err != nil {
		return r, fmt.Errorf("store: %w", err)
	}
	return r, syncDir(filepath.Dir(path))
}

// writeFile writes a file, for its owner only, and brings it to the disk.
func writeFile(path string, copy func(io.Writer) error) error {
	_ = os.Remove(path) // of a process that was killed
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return errors.Join(copy(f), f.Sync(), f.Close())
}

// ReplaceFile writes a file for its owner only, all of it or nothing, and brings it to the disk.
func ReplaceFile(path string, b []byte) error {
	made := path + ".new"
	err := writeFile(made, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// NotCompacted is why the start could not compact the file, which is as it was; nil if it did or
// had no need to.
func (s *Store) NotCompacted() error { return s.notCompacted }

// leastCompacted is the size of a file below which it is not worth while.
const leastCompacted = 4 * growBy

// compactBytes is how much goes into one transaction of a new file.
const compactBytes = 1 << 20

var keyCompact = []byte("compact")

// wantCompaction lets the next start compact the file, whatever its size: a person was overwritten,
// whose bytes stay in pages that are free then.
func (tx *Tx) wantCompaction() error { return tx.put(bucketMeta, keyCompact, []byte("true")) }

// HoldsErased reports whether free pages of the file may hold people who were erased since its last
// compaction.
func (s *Store) HoldsErased() (bool, error) {
	return read(s, func(tx *Tx) bool { return tx.get(bucketMeta, keyCompact) != nil })
}

func (tx *Tx) wantsCompaction() bool {
	size := tx.tx.Size()
	return tx.get(bucketMeta, keyCompact) != nil || size >= leastCompacted && tx.inUse() < size/2
}

// compacted returns the store, compacted if that is worth while: then it has another file in the
// place of its own. Where the disk has no room for both it stays as it is.
func (s *Store) compacted(o Options) (*Store, error) {
	wanted, err := read(s, (*Tx).wantsCompaction)
	if err == nil && !wanted {
		return s, nil
	}
	if err == nil {
		err = s.compact()
	}
	switch {
	case errors.Is(err, ErrDamaged):
		return nil, errors.Join(err, s.Close())
	case err != nil:
		s.notCompacted = err
		return s, nil
	}
	// From here on ours is the file of before, into which nothing may be written. Until it is
	// closed no other process opens the new one.
	if err := errors.Join(syncDir(filepath.Dir(s.path)), s.Close()); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return openFile(s.path, o, false)
}

// compact writes the store into a new file without the pages that are free, verifies it, and puts
// it in the place of the old one.
func (s *Store) compact() error {
	made := s.path + compacting
	defer os.Remove(made)
	if err := s.copyInto(made, func(*Tx) uint64 { return 0 }); err != nil {
		return err
	}
	r, err := Verify(context.Background(), made)
	if err = errors.Join(err, r.Damage()); err != nil {
		return err
	}
	if err := os.Rename(made, s.path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
