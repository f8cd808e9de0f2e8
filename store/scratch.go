package store

import (
	"fmt"
	"os"
	"path/filepath"
)

// scratchPattern names the folders that Scratch makes.
const scratchPattern = ".verify-*"

// Scratch makes a folder in dir for copies that are looked at. done removes it. Those that killed processes have left are
// removed before.
func Scratch(dir string) (path string, done func(), err error) {
	RemoveScratch(dir)
	if path, err = os.MkdirTemp(dir, scratchPattern); err != nil {
		return "", nil, fmt.Errorf("store: %w", err)
	}
	release, err := lockFile(path, 0) // whoever is killed has it no more
	if err != nil {
		_ = os.Remove(path)
		return "", nil, err
	}
	return path, func() {
		_ = os.RemoveAll(path)
		release()
	}, nil
}

// RemoveScratch removes from dir what killed processes have left of Scratch, and leaves alone what others are at work with.
func RemoveScratch(dir string) {
	left, _ := filepath.Glob(filepath.Join(globbed(dir), scratchPattern))
	for _, path := range left {
		if release, err := lockFile(path, 0); err == nil {
			_ = os.RemoveAll(path)
			release()
		}
	}
}
