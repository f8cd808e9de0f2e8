// Package exit defines how the program ends: exit codes, errors that carry a code and a hint, and
// [Outcome], the one place that turns any error into a code, sentences and a hint. It examines a
// data directory without writing to it.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"doorbell/cmd/doorbell/config"
	"doorbell/store"
)

// Exit codes. They are a contract with supervisors: 78 must not be restarted, the others may be.
const (
	Done            = 0
	CodeFailed      = 1
	CodeUsage       = 2
	CodeUnavailable = 69 // the daemon holds the store and does not answer
	CodeIO          = 74 // store, disk
	CodeConfig      = 78
)

// AdviceOnDamage says what to do about a damaged store of a data directory.
func AdviceOnDamage(path string) string {
	return fmt.Sprintf("stop doorbell, replace that file with the newest backup that `doorbell verify --file PATH` reports as sound, and start it again; "+
		"without a backup: mv %[1]q %[1]q.damaged; the stream takes no contact request twice", path)
}

// Error is an error that knows its exit code and what a person can do about it.
type Error struct {
	Code int
	Hint string // what to check, what to type; may be empty
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Failed, Usage, Unavailable, IO and Config make the errors of the exit codes 1, 2, 69, 74 and 78.
func Failed(err error, hint string) error { return &Error{CodeFailed, hint, err} }

func Usage(text, hint string) error { return &Error{CodeUsage, hint, errors.New(text)} }

func Unavailable(err error, hint string) error { return &Error{CodeUnavailable, hint, err} }

func IO(err error, hint string) error { return &Error{CodeIO, hint, err} }

func Config(err error, hint string) error { return &Error{CodeConfig, hint, err} }

// Outcome is the one place that turns an error into an exit code, its sentences and a hint.
func Outcome(err error) (code int, sentences []string, hint string) {
	if err == nil {
		return Done, nil, ""
	}
	if cfg, is := errors.AsType[*config.Error](err); is {
		return CodeConfig, cfg.Sentences(),
			"`doorbell config` shows what is in effect and where it comes from"
	}
	// whatever was tried, and whatever else came of it
	if damage, is := errors.AsType[*store.DamagedError](err); is {
		return CodeIO, []string{damage.Error()}, AdviceOnDamage(damage.Path)
	}
	if known, is := errors.AsType[*Error](err); is {
		return known.Code, []string{err.Error()}, known.Hint
	}
	return CodeFailed, []string{err.Error()}, ""
}

// Held is for a store that is locked by a process that does not respond: a daemon that hangs, or a
// command, for a replay or a verify without a daemon takes the store for itself.
func Held(err error) error {
	return Unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err),
		"check its log, and restart it if it hangs; "+
			"if another doorbell command is running there, wait for it")
}

// Store says what to do about a store that cannot be opened. An error that says it already stays as
// it is.
func Store(err error, dir string) error {
	switch {
	case err == nil, errors.As(err, new(*Error)):
		return err
	case errors.Is(err, store.ErrEmpty):
		return IO(err, "")
	case errors.Is(err, store.ErrDamaged):
		return err
	case errors.As(err, new(*store.LockedError)):
		// And not 78: a command lets go of it, and a supervisor has to try again until then.
		return IO(fmt.Errorf("DOORBELL_DATA_DIR: %w", err),
			"stop the other doorbell; if it is a command such as verify, wait for it; or give this one another data directory")
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrNewer):
		return Config(err, "")
	case errors.Is(err, fs.ErrNotExist):
		return Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err),
			"no directory can be created there; choose another one")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), LetWrite(dir))
	}
	return IO(err, fmt.Sprintf("check %s and the free space on its disk", dir))
}

// LetWrite says what to do about a data directory in which doorbell may not read or write, or which
// it may not make: its parents are not ours to give away.
func LetWrite(dir string) string {
	for at := filepath.Clean(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			return at + " is a file, and not a directory; choose another directory"
		}
	}
	for _, name := range []string{"", "doorbell.db", "jetstream"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !MayWrite(path) {
			return fmt.Sprintf("%s has mode %04o, and doorbell runs as user %d: let that user read and write it, for example with chmod -R u+rwX %s or "+
				"chown -R %[3]d %[4]s, or choose another directory", path, info.Mode().Perm(),
				os.Getuid(), dir)
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf(
			"create it for the user that runs doorbell, for example with install -d -m 700 -o %d %s, or choose another directory", os.Getuid(), dir)
	}
	return fmt.Sprintf(
		"give user %d, which doorbell runs as, access to %s and the right to write everything in it, or choose another directory", os.Getuid(), dir)
}

// LeastSpace is what a store and a stream need to begin at all.
const LeastSpace = 64 << 20
