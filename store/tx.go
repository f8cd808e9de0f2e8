package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// Tx is a transaction: the snapshot and the event log at one moment. It is valid only inside the function it was given
// to, and only on that goroutine. Values that it returns are copies.
type Tx struct {
	tx       *bolt.Tx
	store    *Store
	appended bool // to the log
}

// View runs fn on the state as it is. No network, no waiting inside: an open View keeps the file growing.
func (s *Store) View(fn func(*Tx) error) error {
	return s.guard(func() error {
		s.reading.Add(1) // before it begins; bbolt counts afterwards
		defer s.reading.Add(-1)
		last := s.lastCommit.Load() // likewise: others go on to commit
		return s.db.View(func(tx *bolt.Tx) error { return fn(s.begin(tx, last)) })
	})
}

// read is what f makes of the state as it is.
func read[T any](s *Store, f func(*Tx) T) (value T, err error) {
	err = s.View(func(tx *Tx) error {
		value = f(tx)
		return nil
	})
	return value, err
}

// Update runs fn and commits what it wrote, all or nothing; it is durable when Update returns nil. An error of fn is
// returned as it is and changed nothing. See ErrNoSpace, ErrUnknownOutcome and ErrDamaged for the others.
func (s *Store) Update(fn func(*Tx) error) error {
	if s.full.Load() {
		return fmt.Errorf("%w: it holds all that it may", ErrNoSpace)
	}
	return s.update(fn)
}

// update is Update without the question whether the store is full.
func (s *Store) update(fn func(*Tx) error) error {
	var own *Tx
	err := s.guard(func() error {
		last := s.lastCommit.Load()
		tx, err := s.db.Begin(true)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
		own = s.begin(tx, last)
		if err := fn(own); err != nil {
			return err
		}
		if err := s.Damage(); err != nil { // somebody who reads has met it meanwhile
			return err
		}
		id := tx.ID()
		if err := tx.Commit(); err != nil {
			return commitError(err)
		}
		s.lastCommit.Store(int64(id))
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err != nil {
		return err
	}
	s.commits.Add(1)
	if wake := s.onAppend.Load(); wake != nil && own.appended {
		(*wake)()
	}
	return nil
}

// errUnchanged ends an Update that has nothing to write after all.
var errUnchanged = errors.New("unchanged")

// Change runs look on the state as it is and then, if look asks for it, write as Update would. Where something was committed in
// between, look has another look first, in the transaction of write. What look does not ask for costs no commit, and waits for
// none.
func (s *Store) Change(look func(*Tx) (bool, error), write func(*Tx) error) error {
	return s.change(s.Update, look, write)
}

func (s *Store) change(update func(func(*Tx) error) error, look func(*Tx) (bool, error), write func(*Tx) error) error {
	var commit int
	wanted := false
	err := s.View(func(tx *Tx) (err error) {
		commit = tx.commit()
		wanted, err = look(tx)
		return err
	})
	if err != nil || !wanted {
		return err
	}
	return update(func(tx *Tx) error {
		if tx.commit() == commit {
			return write(tx)
		}
		if wanted, err := look(tx); err != nil || !wanted {
			return cmp.Or(err, errUnchanged)
		}
		return write(tx)
	})
}

// commit is the number of the last commit that tx sees.
func (tx *Tx) commit() int {
	if tx.tx.Writable() {
		return tx.tx.ID() - 1
	}
	return tx.tx.ID()
}

// commitError tells a full disk, found while the file was to grow, from an error after which the outcome is unknown.
func commitError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// begin wraps a transaction that sees at least the last commit. If it does not, the newer head of the file is damaged: bbolt
// falls back on the other one.
func (s *Store) begin(tx *bolt.Tx, last int64) *Tx {
	own := &Tx{tx: tx, store: s}
	if int64(own.commit()) < last {
		panic(damagef("its head is not the one that was written last"))
	}
	return own
}

// OnAppend registers a callback that runs after every commit that appended events, on the committing goroutine. It must not
// block. A later call replaces it.
func (s *Store) OnAppend(wake func()) { s.onAppend.Store(&wake) }

// Storable says whether a reference or id can be part of a key: it is not empty, holds no 0x00 and is not endlessly long.
func Storable(part string) bool {
	return part != "" && len(part) <= 4096 && strings.IndexByte(part, 0) < 0
}

// key joins parts with 0x00, which no part holds; see Storable.
func key(parts ...string) []byte {
	var b bytes.Buffer
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(p)
	}
	return b.Bytes()
}

// prefix is the beginning of all keys below parts.
func prefix(parts ...string) []byte { return append(key(parts...), 0) }

// bucket is where something is to be looked up, or written; see get, put, delete, ascend and descend.
func (tx *Tx) bucket(name []byte) *bolt.Bucket {
	b := tx.tx.Bucket(name)
	if b == nil {
		panic(damagef("%s is missing", name))
	}
	return b
}

// InUse is how many bytes of the file hold something. What is left is taken by the next commits.
func (s *Store) InUse() (bytes int64, err error) {
	return read(s, func(tx *Tx) int64 {
		stats := s.db.Stats()
		return tx.tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*int64(s.db.Info().PageSize)
	})
}
