package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What a store that is found in the data directory means is not guessed: a backup that was put back, an API that has moved and
// a wish to begin anew look alike. A person says it, for one start.

// Accepted is what was not guessed about a store, and was done because Options said so. The zero value: nothing.
type Accepted struct {
	Copied   time.Time // Restored: it is a backup of that moment
	Stranger bool      // Restored: store-id named another store, or was missing
	From     string    // Moved: the base URL that it remembered
	Aside    []string  // Fresh: names of the files that were set aside
}

// Accepted says what was accepted when the store was opened.
func (s *Store) Accepted() Accepted { return s.accepted }

// accept writes what was said about a store that is ours: it is a copy no more, and the API is where we are told.
func (s *Store) accept(o Options) error {
	m := s.meta
	if o.Restored {
		s.accepted.Copied, m.Copied = m.Copied, time.Time{}
	}
	if o.Moved && o.BaseURL != "" && o.BaseURL != m.BaseURL {
		s.accepted.From, m.BaseURL = m.BaseURL, o.BaseURL
	}
	if m == s.meta {
		return nil
	}
	if err := s.putMeta(m); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.meta = m
	return nil
}

// setAside gives the store in a directory, whatever state it is in, a name that nobody opens. It waits as long as allowed for
// whoever has it open.
func setAside(dir string, wait time.Duration, now time.Time) (aside []string, err error) {
	path := filepath.Join(dir, fileName)
	release, err := lockFile(path, wait)
	if err != nil {
		return nil, err
	}
	defer release()
	suffix := "." + now.UTC().Format("20060102T150405.000Z")
	for _, name := range []string{fileName, idFileName} {
		from := filepath.Join(dir, name)
		if _, err := os.Lstat(from + suffix); err == nil {
			return aside, fmt.Errorf("store: %s is there already", from+suffix)
		}
		err := os.Rename(from, from+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, fmt.Errorf("store: %w", err)
		}
		if err == nil {
			aside = append(aside, name+suffix)
		}
	}
	return aside, syncDir(dir)
}
