package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
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
	s := newStore(db, path, time.Now)
	if err := s.recognise(o, stated); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// recognise is identify without writing.
func (s *Store) recognise(o Options, stated string) error {
	found, err := s.readMeta()
	if err != nil {
		return err
	}
	if found == nil {
		return emptyStore(s.path)
	}
	s.meta = *found
	return s.refuseForeign(o, stated)
}
