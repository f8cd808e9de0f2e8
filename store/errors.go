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
	// ErrDamaged is returned when the file cannot be read as a store.
	ErrDamaged = errors.New("damaged store")
)

// Errors of Update.
var (
	// ErrNoSpace is returned when a commit found the disk full before it changed anything. It may be tried again.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrUnknownOutcome is returned when a commit failed in a way that may have left it on disk. The process must end
	// and read again.
	ErrUnknownOutcome = errors.New("commit of unknown outcome")
)

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
