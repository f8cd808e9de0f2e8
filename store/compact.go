package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

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
	made, err := writeAside(s.path, func(io.Writer) error { return nil })
	if made != "" {
		defer os.Remove(made)
	}
	if err != nil {
		return c, err
	}
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
	if err = errors.Join(err, r.unsound()); err != nil {
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
