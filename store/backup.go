package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// Backup writes a consistent copy of the store while it is in use. sized is called with their number before the first byte.
//
// As long as it takes, what is changed cannot be overwritten, and the file grows by it. Nobody waits: the file is mapped far
// beyond its end, so that a commit never has to move it.
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

// ReceiveBackup makes the file of a backup at path: from what copy writes, in a Scratch beside it, until all of it is on disk
// and verified. A file that is there is replaced only if so asked. On failure no file is left behind.
func ReceiveBackup(ctx context.Context, path string, replace bool, verify Verifier, copy func(io.Writer) error) (r Report, err error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return r, &os.PathError{Op: "backup", Path: path, Err: os.ErrExist}
	}
	dir, done, err := Scratch(filepath.Dir(path))
	if err != nil {
		return r, err
	}
	defer done()
	made := filepath.Join(dir, fileName)
	if err := writeFile(made, copy); err != nil {
		return r, err
	}
	if r, err = verify(ctx, made); err != nil || len(r.Findings) > 0 {
		return r, errors.Join(err, r.Damage())
	}
	r.Path = path
	if err := os.Rename(made, path); err != nil {
		return r, fmt.Errorf("store: %w", err)
	}
	return r, syncDir(filepath.Dir(path))
}

// writeFile writes a new file, for its owner only, and brings it to the disk.
func writeFile(path string, copy func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	w := &remembering{w: f}
	err = errors.Join(copy(w), w.err, f.Sync(), f.Close())
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// remembering keeps the error of a write as it was: bbolt passes on no more than its text.
type remembering struct {
	w   io.Writer
	err error
}

func (r *remembering) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil {
		r.err = err
	}
	return n, err
}

// compactBytes is how much goes into one transaction of a new file.
const compactBytes = 1 << 20

// Compacted is what Compact did, in bytes of the file.
type Compacted struct {
	Before int64 `json:"beforeBytes"`
	After  int64 `json:"afterBytes"`
}

// Compact writes the store in o.Dir into a new file, without the space that it does not use, verifies it and puts it in the place
// of the old one, which is not changed until then. room is asked before whether there is space for so many bytes. Nobody else
// may have the store open: LockedError.
func Compact(ctx context.Context, o Options, verify Verifier, room func(bytes int64) error) (c Compacted, err error) {
	if _, err := os.Stat(filepath.Join(o.Dir, fileName)); err != nil {
		return c, fmt.Errorf("store: %w", err)
	}
	s, err := Open(o)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // until then nobody opens what is replaced
	inUse, err := s.InUse()
	if err != nil {
		return c, err
	}
	if err := room(inUse + inUse/4); err != nil {
		return c, err
	}
	dir, done, err := Scratch(o.Dir)
	if err != nil {
		return c, err
	}
	defer done()
	made := filepath.Join(dir, fileName)
	if err := s.copyInto(ctx, made); err != nil {
		return c, err
	}
	return s.replace(ctx, made, verify)
}

// copyInto copies every entry into a new file and brings it to the disk.
func (s *Store) copyInto(ctx context.Context, path string) error {
	into, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoSync: true, NoGrowSync: true, InitialMmapSize: mapAhead})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	into.AllocSize = compactBytes // and not much beyond what it holds
	err = s.guard(func() error { return bolt.Compact(into, s.db, compactBytes) })
	err = errors.Join(err, ctx.Err(), into.Sync(), into.Close())
	if err != nil {
		return fmt.Errorf("store: copy: %w", err)
	}
	return nil
}

// replace puts a new file in the place of the old one, when it is sound and holds the same.
func (s *Store) replace(ctx context.Context, made string, verify Verifier) (c Compacted, err error) {
	r, err := verify(ctx, made)
	if err = errors.Join(err, r.Damage()); err != nil {
		return c, err
	}
	if r.StoreID != s.meta.StoreID {
		return c, damaged(made, "the copy is another store")
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return c, fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(made, s.path); err != nil {
		return c, fmt.Errorf("store: %w", err)
	}
	return Compacted{Before: info.Size(), After: r.Bytes}, syncDir(filepath.Dir(s.path))
}

// scratchPattern names the folders that Scratch makes.
const scratchPattern = ".doorbell-*"

// Scratch makes a folder in dir for a file that is not finished, or only looked at. done removes it. Those that killed processes
// have left are removed before.
func Scratch(dir string) (path string, done func(), err error) {
	removeScratch(dir)
	if path, err = os.MkdirTemp(dir, scratchPattern); err != nil {
		return "", nil, fmt.Errorf("store: %w", err)
	}
	release, err := lockFile(path, 0) // whoever is killed has it no more
	if errors.As(err, new(*LockedError)) {
		_ = os.Remove(path)
		return "", nil, err
	}
	if err != nil { // NFS locks no folders, for the next one neither, which then leaves it alone
		release = func() {}
	}
	return path, func() {
		_ = os.RemoveAll(path)
		release()
	}, nil
}

// removeScratch removes from dir what killed processes have left of Scratch, and leaves alone what others are at work with.
func removeScratch(dir string) {
	left, _ := fs.Glob(os.DirFS(dir), scratchPattern)
	for _, name := range left {
		path := filepath.Join(dir, name)
		if release, err := lockFile(path, 0); err == nil {
			_ = os.RemoveAll(path)
			release()
		}
	}
}
