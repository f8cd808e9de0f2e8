package store

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
)

// guarded runs what touches the mapped file. Where the file is damaged, a page may lead to where nothing is mapped, or be none;
// bbolt then faults or panics. That, and an entry whose seal does not hold, becomes an ErrDamaged. Any other panic is a mistake
// in a program, and stays one.
func guarded(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(path, whyDamaged(r))
		}
	}()
	return f()
}

// guard is guarded for an open store, which after damage is read and written no more.
func (s *Store) guard(f func() error) (err error) {
	if err := s.Damage(); err != nil {
		return err
	}
	if err = guarded(s.path, f); errors.Is(err, ErrDamaged) && s.broken.CompareAndSwap(nil, &err) {
		close(s.damaged)
	}
	return err
}

// Damaged is closed when damage was met. From then on View and Update return that ErrDamaged, which Damage returns too. The
// process must end.
func (s *Store) Damaged() <-chan struct{} { return s.damaged }

// Damage is the damage that was met, nil if none was.
func (s *Store) Damage() error {
	if broken := s.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// whyDamaged says in our words what a panic in a transaction means, and panics again where it is none of a damaged file.
func whyDamaged(r any) string {
	switch r := r.(type) {
	case damage:
		return r.why
	case interface{ Addr() uintptr }: // of a fault: see debug.SetPanicOnFault
		return "a page leads out of the file"
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
