package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// OpenReadOnly opens the store in o.Dir as it is: nothing is made, mended or migrated, and what Open would refuse is
// refused alike. Where there is no store the error is fs.ErrNotExist. The lock is shared with other readers; a store that is
// open to be written is a LockedError after LockTimeout. Update of a store that was opened so fails.
func OpenReadOnly(o Options) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = 2 * time.Second
	}
	path := filepath.Join(o.Dir, fileName)
	stated, err := readID(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := refuseLost(path, stated); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db, err := openAsItIs(path, o.LockTimeout, true)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, path: path, now: time.Now, damaged: make(chan struct{})}
	if err := s.recognise(o, stated); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// openAsItIs opens a file to be read; free asks also for what is free in it, which a file that nobody trusts may tell wrongly.
func openAsItIs(path string, wait time.Duration, free bool) (db *bolt.DB, err error) {
	if err := refuseCut(path); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged(path, fmt.Sprint(r))
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: wait, ReadOnly: true, PreLoadFreelist: free, FreelistType: bolt.FreelistMapType})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, &LockedError{Path: path, PID: lockHolder(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, damaged(path, err.Error())
	case err != nil:
		return nil, fmt.Errorf("store: %w", err)
	}
	return db, nil
}

// recognise is identify without writing.
func (s *Store) recognise(o Options, stated string) error {
	found, err := s.readMeta()
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("%w: %s is empty; doorbell run fills it", ErrDamaged, s.path)
	}
	s.meta = *found
	return s.refuseForeign(o, stated)
}
