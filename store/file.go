package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// mapAhead is how far beyond its end the file is mapped, which costs addresses and no memory. When it outgrows that, a commit
// has to map it anew, and waits until nobody reads.
const mapAhead = (16 << 30) * int(^uint(0)>>63) // none where addresses are short

// growBy is how much larger the file becomes when it is full.
const growBy = 4 << 20

// errReplaced: while we waited for the lock, another file has taken the place of the one that we have opened. What is written
// to ours is lost, and the lock of it keeps nobody out.
var errReplaced = errors.New("the store was replaced")

// openFile opens the bbolt file to be written, with its lock, and says whether one of its heads is torn. f is the file that bbolt has
// open, and closes. See errReplaced.
func openFile(path string, wait time.Duration) (db *bolt.DB, f *os.File, torn bool, err error) {
	db, err = openBolt(path, &bolt.Options{
		Timeout: wait, FreelistType: bolt.FreelistMapType, InitialMmapSize: mapAhead,
		OpenFile: func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
			f, err = os.OpenFile(name, flag, perm)
			return f, err
		},
	})
	switch {
	case err == nil && !isAt(f, path):
		return nil, nil, false, errors.Join(errReplaced, db.Close())
	case err == nil:
		db.AllocSize = growBy
		_, whole := readHeads(f)
		return db, f, whole < 2, ownersAlone(db)
	}
	return nil, nil, false, err
}

// openAsItIs opens the bbolt file to be read; free asks also for what is free in it, which a file that nobody trusts may tell wrongly.
func openAsItIs(path string, wait time.Duration, free bool) (*bolt.DB, error) {
	return openBolt(path, &bolt.Options{Timeout: wait, ReadOnly: true, PreLoadFreelist: free, FreelistType: bolt.FreelistMapType})
}

func openBolt(path string, o *bolt.Options) (db *bolt.DB, err error) {
	if err := refuseCut(path); err != nil {
		return nil, err
	}
	err = guarded(path, func() error {
		db, err = bolt.Open(path, 0o600, o)
		return err
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, ErrDamaged):
		return nil, err
	case errors.Is(err, berrors.ErrTimeout):
		return nil, &LockedError{Path: path, PID: lockHolder(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, damaged(path, err.Error())
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w: %s", ErrNoSpace, path)
	}
	return nil, fmt.Errorf("store: %w", err)
}

// isAt says whether an open file is still the one at a path.
func isAt(f *os.File, path string) bool {
	ours, err := f.Stat()
	there, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(ours, there)
}

// ownersAlone takes away what a copy or a careless hand may have allowed to others: the file holds people.
func ownersAlone(db *bolt.DB) error {
	info, err := os.Stat(db.Path())
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(db.Path(), 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store: %w", err), db.Close())
	}
	return nil
}

// head is one of the two meta pages of a bbolt file, as far as it says how long the file is. The newer one that is whole counts.
type head struct{ pageSize, free, pages, commit uint64 }

// readHeads finds the head that counts, and says how many of the two are whole: where one was torn, the commit before it counts.
func readHeads(r io.ReaderAt) (h head, whole int) {
	for n := range uint64(2) {
		for size := uint64(512); size <= 64<<10; size *= 2 { // of the first one they are all at 0
			if one, ok := readHead(r, n*size); ok && one.pageSize == size {
				if whole++; whole == 1 || one.commit > h.commit {
					h = one
				}
				break
			}
		}
	}
	return h, whole
}

func readHead(r io.ReaderAt, at uint64) (h head, ok bool) {
	const before, size = 16, 64 // of a page, and of what stands in it
	b := make([]byte, size)
	if _, err := r.ReadAt(b, int64(at)+before); err != nil {
		return h, false
	}
	sum := fnv.New64a()
	sum.Write(b[:size-8])
	native := binary.NativeEndian
	if native.Uint64(b[size-8:]) != sum.Sum64() {
		return h, false
	}
	return head{uint64(native.Uint32(b[8:])), native.Uint64(b[32:]), native.Uint64(b[40:]), native.Uint64(b[48:])}, true
}

// refuseCut says whether a file is as long as its head says, before bbolt maps it: what is read beyond the end ends the process. An
// empty file is a new one.
func refuseCut(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if !info.Mode().IsRegular() {
		return damaged(path, "it is not a file")
	}
	h, whole := readHeads(f)
	if whole == 0 {
		return damaged(path, "it does not begin as a store does")
	}
	if need := h.pages * h.pageSize; h.pages > 1<<40 || need > uint64(info.Size()) {
		return damaged(path, fmt.Sprintf("it is cut off: %d of %d bytes are there", info.Size(), need))
	}
	if !freeFits(f, h) {
		return damaged(path, "its list of free pages is longer than the file")
	}
	return nil
}

// freeFits says whether the list of free pages is no longer than the file: bbolt takes as much memory as it says.
func freeFits(r io.ReaderAt, h head) bool {
	const none = ^uint64(0) // bbolt finds the free pages itself
	b := make([]byte, 24)
	if h.free == none {
		return true
	}
	if _, err := r.ReadAt(b, int64(h.free*h.pageSize)); h.free >= h.pages || err != nil {
		return false
	}
	count := uint64(binary.NativeEndian.Uint16(b[10:]))
	if count == 0xFFFF { // it stands where the first page would
		count = binary.NativeEndian.Uint64(b[16:])
	}
	return count <= h.pages
}
