package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Tx is a transaction: the snapshot and the event log at one moment. It is valid only inside the
// function it was given to, and only on that goroutine. Values that it returns are copies.
type Tx struct {
	tx       *bolt.Tx
	store    *Store
	appended bool // to the log
	urgent   bool // see OnUrgent
}

// View runs fn on the state as it is. No network, no waiting inside: an open View keeps the file
// growing.
func (s *Store) View(fn func(*Tx) error) error {
	return s.guard(func() error {
		last := s.lastCommit.Load() // before it begins: other goroutines commit meanwhile
		return s.db.View(func(tx *bolt.Tx) error {
			s.requireHead(int64(tx.ID()), last)
			return fn(&Tx{tx: tx, store: s})
		})
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

// ErrUnchanged is what the function of an Update returns when it found nothing to write: Update
// returns nil, and nothing is committed.
var ErrUnchanged = errors.New("unchanged")

// Update runs fn and commits what it wrote, all or nothing; it is durable when Update returns nil.
// An error of fn changes nothing and is returned as it is, but for ErrUnchanged. After any other
// one, which is ErrNoSpace, ErrUnknownOutcome or ErrDamaged, the process must end; see Failed.
func (s *Store) Update(fn func(*Tx) error) error {
	var own *Tx
	err := s.guard(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
		s.requireHead(int64(tx.ID())-1, s.lastCommit.Load())
		own = &Tx{tx: tx, store: s}
		if err := fn(own); err != nil {
			return err
		}
		if err := s.Failure(); err != nil { // another goroutine has met it meanwhile
			return err
		}
		id := int64(tx.ID())
		if err := tx.Commit(); err != nil {
			err = commitError(err)
			s.fail(err)
			return err
		}
		s.lastCommit.Store(id)
		return nil
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	if err != nil {
		return err
	}
	s.commits.Add(1)
	if wake := s.onAppend.Load(); wake != nil && own.appended {
		(*wake)()
	}
	if wake := s.onUrgent.Load(); wake != nil && own.urgent {
		(*wake)()
	}
	return nil
}

// requireHead panics where a transaction does not see the last commit: the newer head of the file
// is damaged, and bbolt falls back on the other one.
func (s *Store) requireHead(seen, last int64) {
	if seen < last {
		panic(damagef("its head is not the last one written"))
	}
}

// commitError tells missing space, found before the commit took effect, from an error after which
// the outcome is unknown.
func commitError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, berrors.ErrMaxSizeReached) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// rehearsed is more than the commit of a halt takes.
const rehearsed = 128 << 10

// RequireSpace writes more than a halt takes to the disk, then to the store, and removes both. A
// process that begins with it requests nothing that it could not remember. The file of its own is
// needed because pages that are free in the store serve commits on a full disk for a while.
func (s *Store) RequireSpace() error {
	if err := s.Failure(); err != nil {
		return err
	}
	if err := rehearse(filepath.Dir(s.path)); err != nil {
		err = commitError(err)
		s.fail(err)
		return err
	}
	err := s.Update(func(tx *Tx) error { return tx.put(bucketMeta, keyRehearsal, make([]byte, rehearsed)) })
	if err != nil {
		return err
	}
	return s.Update(func(tx *Tx) error { return tx.delete(bucketMeta, keyRehearsal) })
}

// rehearse writes a file that has no name any more, so that none is left by a crash.
func rehearse(dir string) error {
	f, err := os.CreateTemp(dir, ".space-")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if _, err := f.Write(make([]byte, rehearsed)); err != nil {
		return err
	}
	return f.Sync()
}

// Full reports whether the store holds all that it may, as Housekeeping has found. The file has
// some room beyond that for what is under way, and for what makes room.
func (s *Store) Full() bool { return s.full.Load() }

// OnAppend registers a callback that runs after every commit that appended events, on the
// committing goroutine. It must not block. A later call replaces it.
func (s *Store) OnAppend(wake func()) { s.onAppend.Store(&wake) }

// InUse is how many bytes of the file hold something. What is left is taken by the next commits.
func (s *Store) InUse() (bytes int64, err error) { return read(s, (*Tx).inUse) }

func (tx *Tx) inUse() int64 {
	db := tx.store.db
	stats := db.Stats()
	return tx.tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*int64(db.Info().PageSize)
}

// Storable says whether a reference or id can be part of a key: it is not empty, holds no 0x00 and
// is not endlessly long.
func Storable(part string) bool {
	return part != "" && len(part) <= 4096 && strings.IndexByte(part, 0) < 0
}

// key joins parts with 0x00, which no part holds; see Storable.
func key(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// prefix is the beginning of all keys below parts.
func prefix(parts ...string) []byte { return append(key(parts...), 0) }

// A value is a version byte, a CRC32C over the bucket, the key and the payload, and the payload:
// JSON, but for positions in cursors. bbolt keeps no checksums, so a byte that a disk has flipped
// would be read as something else. A value that does not hold ends the transaction, and the store;
// see Store.guard. A key that a flipped byte hides is missed by nothing: what the snapshot does not
// know is learned again, and the stream takes no event twice.
const (
	valueVersion = 1
	valueHead    = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(bucket, key, payload []byte) uint32 {
	sum := crc32.Update(crc32.Checksum(bucket, castagnoli), castagnoli, key)
	return crc32.Update(sum, castagnoli, payload)
}

// payloadOf returns the payload of a value, and whether it is what was written.
func payloadOf(bucket, key, value []byte) (payload []byte, sound bool) {
	if len(value) < valueHead || value[0] != valueVersion {
		return nil, false
	}
	payload = value[valueHead:]
	return payload, binary.BigEndian.Uint32(value[1:]) == checksum(bucket, key, payload)
}

// damage is what a transaction panics with when it meets what cannot be true.
type damage struct{ why string }

func damagef(format string, args ...any) damage { return damage{fmt.Sprintf(format, args...)} }

func unreadable(bucket []byte) damage {
	return damagef("an entry of %s is not what was written", bucket)
}

func mustHold(bucket, key, value []byte) []byte {
	payload, sound := payloadOf(bucket, key, value)
	if !sound {
		panic(unreadable(bucket))
	}
	return payload
}

func (tx *Tx) bucket(name []byte) *bolt.Bucket {
	b := tx.tx.Bucket(name)
	if b == nil {
		panic(damagef("%s is missing", name))
	}
	return b
}

// get returns the payload of a key, nil if there is none. It is valid as long as the transaction
// is.
func (tx *Tx) get(bucket, key []byte) []byte {
	value := tx.bucket(bucket).Get(key)
	if value == nil {
		return nil
	}
	return mustHold(bucket, key, value)
}

func (tx *Tx) put(bucket, key, payload []byte) error {
	if bytes.Equal(bucket, bucketInsertions) || bytes.Equal(bucket, bucketContacts) {
		tx.store.versions.of(key).Add(1)
	}
	value := make([]byte, 1, valueHead+len(payload))
	value[0] = valueVersion
	value = binary.BigEndian.AppendUint32(value, checksum(bucket, key, payload))
	return tx.bucket(bucket).Put(key, append(value, payload...))
}

func (tx *Tx) delete(bucket, key []byte) error { return tx.bucket(bucket).Delete(key) }

// ascend visits the entries whose key begins with a prefix, from a key on, in order. The keys come
// without the prefix.
func (tx *Tx) ascend(bucket, prefix, from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, payload []byte) bool) {
		c := tx.bucket(bucket).Cursor()
		k, v := c.Seek(from)
		for first := true; k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if order := bytes.Compare(k, from); order < 0 || order == 0 && !first {
				panic(damagef("a page of %s points elsewhere", bucket))
			}
			if !yield(k[len(prefix):], mustHold(bucket, k, v)) {
				return
			}
			from, first = k, false
		}
	}
}

// descend visits the entries before a key, backwards.
func (tx *Tx) descend(bucket, before []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, payload []byte) bool) {
		c := tx.bucket(bucket).Cursor()
		first := c.Prev
		if k, _ := c.Seek(before); k == nil {
			first = c.Last
		}
		for k, v := first(); k != nil; k, v = c.Prev() {
			if bytes.Compare(k, before) >= 0 {
				panic(damagef("a page of %s points elsewhere", bucket))
			}
			if !yield(k, mustHold(bucket, k, v)) {
				return
			}
			before = k
		}
	}
}

// getJSON reads what putJSON has written.
func getJSON[T any](tx *Tx, bucket, key []byte) (value T, exists bool) {
	v := tx.get(bucket, key)
	return decodeJSON[T](bucket, v), v != nil
}

func decodeJSON[T any](bucket, payload []byte) (value T) {
	if payload != nil && json.Unmarshal(payload, &value) != nil {
		panic(unreadable(bucket))
	}
	return value
}

func (tx *Tx) putJSON(bucket, key []byte, value any) error {
	// no text of an API may stop all commits
	v, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return tx.put(bucket, key, v)
}
