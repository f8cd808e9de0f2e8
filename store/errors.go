package store

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Errors of Open.
var (
	// ErrForeign is returned when the data directory holds another store than the one it should: of
	// another base URL, or of a version before the first release.
	ErrForeign = errors.New("foreign store")
	// ErrNewer is returned when the file was written by a newer version of doorbell.
	ErrNewer = errors.New("store of a newer version")
	// ErrDamaged is returned when the file cannot be read as a store; by View and Update, too, when
	// they find that out.
	ErrDamaged = errors.New("damaged store")
	// ErrEmpty is the ErrDamaged of a file that was never filled. Open fills it, if it has a base
	// URL.
	ErrEmpty = fmt.Errorf("%w: it is empty; doorbell run fills it", ErrDamaged)
)

// Errors of a commit that failed. The process must end, see Failed, and read again.
var (
	// ErrNoSpace is returned when a commit found no space, on the disk or below the limit of the
	// file, and changed nothing.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrUnknownOutcome is returned when a commit failed in a way that may have left it on disk.
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
type LockedError struct{ Path string }

func (e *LockedError) Error() string { return e.Path + " is in use by another process" }

// guarded runs what touches the mapped file. Where the file is damaged or cut off, a page may lead
// to where nothing is mapped, or be none; bbolt then faults or panics. That, and a value whose
// checksum does not hold, becomes an ErrDamaged. Any other panic is a mistake in a program, and
// stays one.
func guarded(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(path, whyDamaged(r))
		}
	}()
	return f()
}

// guard is guarded for an open store, which after a failure is read and written no more.
func (s *Store) guard(f func() error) (err error) {
	if err := s.Failure(); err != nil {
		return err
	}
	if err = guarded(s.path, f); errors.Is(err, ErrDamaged) {
		s.fail(err)
	}
	return err
}

// fail lets nothing be read or written any more. Of several failures the first counts.
func (s *Store) fail(err error) {
	if s.failure.CompareAndSwap(nil, &err) {
		close(s.failed)
	}
}

// Failed is closed when damage was met or a commit has failed. From then on View and Update return
// that error, which Failure returns too. The process must end: what it remembers and what the file
// holds may differ.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Failure is the damage that was met, or the error of the commit that failed; nil if there was
// none.
func (s *Store) Failure() error {
	if failure := s.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// whyDamaged says in our words what a panic in a transaction means, and panics again where it is
// none of a damaged file.
func whyDamaged(r any) string {
	switch r := r.(type) {
	case damage:
		return r.why
	case interface{ Addr() uintptr }: // of a fault: see debug.SetPanicOnFault
		return "it is truncated, or a page points outside the file"
	}
	if panickedInBolt() {
		return "its pages contradict each other"
	}
	panic(r)
}

// panickedInBolt says whether it was bbolt that has panicked, or made the runtime do it.
func panickedInBolt() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return strings.HasPrefix(f.Function, "go.etcd.io/bbolt")
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return false
		}
	}
}
