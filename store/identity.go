package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// state repeats the identity outside of the file, and then notes in it that this was done: whoever finds the file alone knows
// whether it was copied without its store-id, or its first start was cut short.
func (s *Store) state(dir, stated string) error {
	if stated != s.meta.StoreID {
		if err := writeID(dir, s.meta.StoreID); err != nil {
			return err
		}
	}
	if s.meta.Stated {
		return nil
	}
	m := s.meta
	m.Stated = true
	if err := s.putMeta(m); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.meta = m
	return nil
}

func readID(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, idFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return string(bytes.TrimSpace(b)), nil
}

// writeID repeats the identity outside of the file, so that a truncated file is noticed.
func writeID(dir, id string) error {
	path := filepath.Join(dir, idFileName)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.WriteString(id + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
