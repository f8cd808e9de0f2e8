package store

import (
	"errors"
	"fmt"
)

// Errors of Open.
var (
	// ErrForeign is returned when the data directory holds another store than the one it should: another base URL, or a
	// file whose identity does not match the store-id beside it.
	ErrForeign = errors.New("foreign store")
	// ErrNewer is returned when the file was written by a newer version of doorbell.
	ErrNewer = errors.New("store of a newer version")
	// ErrDamaged is returned when the file cannot be read as a store; by View and Update, too, when they find that out. The process
	// must end: nothing is read or written any more.
	ErrDamaged = errors.New("damaged store")
	// ErrEmpty is the ErrDamaged of a file that nobody has filled yet. Open fills it, if it is told a base URL.
	ErrEmpty = fmt.Errorf("%w: it is empty; doorbell run fills it", ErrDamaged)
)

// Errors of Update.
var (
	// ErrNoSpace is returned when a commit found the disk full before it changed anything. It may be tried again.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrUnknownOutcome is returned when a commit failed in a way that may have left it on disk. The process must end
	// and read again.
	ErrUnknownOutcome = errors.New("commit of unknown outcome")
)

// DamagedError is an ErrDamaged that says of which file, and why.
type DamagedError struct{ Path, Why string }

func (e *DamagedError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrDamaged, e.Path, e.Why) }

// Unwrap returns ErrDamaged.
func (e *DamagedError) Unwrap() error { return ErrDamaged }

func damaged(path, why string) error { return &DamagedError{path, why} }

func emptyStore(path string) error { return fmt.Errorf("%s: %w", path, ErrEmpty) }

// LockedError is returned by Open when another process holds the store.
type LockedError struct {
	Path string
	PID  int // 0 if the system does not tell
}

func (e *LockedError) Error() string {
	if e.PID > 0 {
		return fmt.Sprintf("%s is in use by process %d", e.Path, e.PID)
	}
	return e.Path + " is in use by another process"
}
