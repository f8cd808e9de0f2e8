package store

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is the form of the file. Older and newer ones are refused; none was released before
// it.
const schemaVersion = 7

const fileName = "doorbell.db"

// mapAhead is how far beyond its end the file is mapped, which costs addresses and no memory. When
// the file outgrows that, a commit has to map it again, and waits until no transaction reads.
const mapAhead = (16 << 30) * int(^uint(0)>>63) // none where addresses are short

// growBy is how much larger the file becomes when it is full.
const growBy = 4 << 20

var (
	bucketMeta       = []byte("meta")
	bucketAgencies   = []byte("agencies")
	bucketInsertions = []byte("insertions")
	bucketRecords    = []byte("records")
	bucketContacts   = []byte("contacts")
	bucketLog        = []byte("log")
	bucketCursors    = []byte("cursors")
	bucketHalts      = []byte("halts")
	bucketAlarms     = []byte("alarms")

	buckets = [][]byte{
		bucketMeta, bucketAgencies, bucketInsertions, bucketRecords, bucketContacts, bucketLog,
		bucketCursors, bucketHalts, bucketAlarms,
	}
	keyMeta      = []byte("store")
	keyRehearsal = []byte("rehearsal")
)

// beyondMax is how much larger than what the store may hold its file may become: for what is under
// way when polling stops, and for what still commits then, as cursors, halts and trims.
const beyondMax = 64 << 20

// Options of Open.
type Options struct {
	Dir         string           // data directory; made with mode 0700 if missing
	BaseURL     string           // the API that this store remembers; another one is refused
	LockTimeout time.Duration    // how long to wait for the lock; default 2 s
	Now         func() time.Time // default time.Now
	Max         int64            // the most bytes in use, see Housekeeping; 0: no bound

	Moved bool // BaseURL is the new address of the API that the store remembers
}

// meta is the store's identity, written once.
type meta struct {
	Schema  int       `json:"schema"`
	StoreID string    `json:"storeId"`
	BaseURL string    `json:"baseUrl"`
	Created time.Time `json:"created"`
}

// Store is an open store. Its methods are safe for concurrent use.
type Store struct {
	db         *bolt.DB
	path       string
	meta       meta
	now        func() time.Time
	onAppend   atomic.Pointer[func()]
	onUrgent   atomic.Pointer[func()]
	commits    atomic.Int64
	lastCommit atomic.Int64 // number of the last one that must be there
	versions   versions

	failure atomic.Pointer[error] // damage that was met, or a commit that failed
	failed  chan struct{}         // is closed then

	notCompacted error       // why the start could not compact it
	full         atomic.Bool // it holds all that it may; see Housekeeping
}

// Open locks and opens the store in o.Dir, or makes a new one where there is none. It holds an
// exclusive lock until Close; a second Open of the same directory returns a LockedError after
// LockTimeout. Nothing is written before the store is known to be ours. A file of which half is
// free, or that may still hold erased people in free pages, is compacted.
func Open(o Options) (*Store, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	s, err := openFile(filepath.Join(o.Dir, fileName), o, false)
	if err != nil {
		return nil, err
	}
	for _, left := range scratchFiles { // by processes that were killed
		_ = os.Remove(s.path + left)
	}
	return s.compacted(o)
}

// OpenReadOnly opens the store in o.Dir as it is: nothing is made or compacted, and what Open would
// refuse is refused alike. Where there is no store the error is fs.ErrNotExist. The lock is shared
// with other readers; a store that is open to be written is a LockedError after LockTimeout. Update
// of a store that was opened so fails.
func OpenReadOnly(o Options) (*Store, error) {
	path := filepath.Join(o.Dir, fileName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return openFile(path, o, true)
}

// openFile opens a file with its lock, and finds out which store it is.
func openFile(path string, o Options, readOnly bool) (*Store, error) {
	db, f, err := openBolt(path, &bolt.Options{
		Timeout: cmp.Or(o.LockTimeout, 2*time.Second), FreelistType: bolt.FreelistMapType,
		InitialMmapSize: mapAhead, ReadOnly: readOnly, PreLoadFreelist: readOnly,
	})
	if err != nil {
		return nil, err
	}
	s := newStore(db, path, o.Now)
	if !readOnly {
		err = s.own(f, o.Max)
	}
	if err == nil {
		err = s.identify(o)
	}
	if err == nil {
		return s, nil
	}
	err = errors.Join(err, db.Close())
	if errors.Is(err, errReplaced) {
		return openFile(path, o, readOnly)
	}
	return nil, err
}

func newStore(db *bolt.DB, path string, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{
		db: db, path: path, now: now, failed: make(chan struct{}),
		versions: versions{seed: maphash.MakeSeed()},
	}
}

// errReplaced: while we waited for the lock, a compaction has put another file in the place of the
// one that we have opened. What is written to ours would be lost, and its lock excludes no other
// process.
var errReplaced = errors.New("the store was replaced")

// own makes sure that an open file, which is to be written, is still the one at its path, is closed
// to others, and has its bounds.
func (s *Store) own(f *os.File, most int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if there, err := os.Stat(s.path); err != nil || !os.SameFile(info, there) {
		return errReplaced
	}
	s.db.AllocSize = growBy
	if most > 0 {
		// one that has become too large has to shrink first
		s.db.MaxSize = int(max(most, info.Size()) + beyondMax)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	// as a copy or a careless hand left it: the file holds people
	if err := os.Chmod(s.path, 0o600); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// openBolt also returns the file that bbolt has open, and closes.
func openBolt(path string, o *bolt.Options) (db *bolt.DB, f *os.File, err error) {
	o.OpenFile = func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
		f, err = os.OpenFile(name, flag, perm)
		return f, err
	}
	err = guarded(path, func() error {
		db, err = bolt.Open(path, 0o600, o)
		return err
	})
	if err == nil {
		return db, f, nil
	}
	if f != nil {
		// where bbolt has panicked, the file stays mapped, and so the lock would
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		f.Close()
	}
	switch {
	case errors.Is(err, ErrDamaged):
		return nil, nil, err
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, &LockedError{Path: path}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch),
		strings.Contains(err.Error(), "file size too small"):
		return nil, nil, damaged(path, err.Error())
	case errors.Is(err, syscall.ENOSPC):
		return nil, nil, fmt.Errorf("%w: %s", ErrNoSpace, path)
	}
	return nil, nil, fmt.Errorf("store: %w", err)
}

// identify reads which store it is, refuses a foreign one, and makes the identity of a new one. A
// store that is only read is left as it is.
func (s *Store) identify(o Options) error {
	found, err := s.readMeta()
	mayWrite := o.BaseURL != "" && !s.db.IsReadOnly()
	switch {
	case err != nil:
		return err
	case !found && !mayWrite:
		return emptyStore(s.path)
	case !found:
		return s.create(o.BaseURL)
	}
	if err := s.refuseForeign(o); err != nil || !mayWrite || o.BaseURL == s.meta.BaseURL {
		return err
	}
	s.meta.BaseURL = o.BaseURL
	return s.putMeta(s.meta)
}

// refuseForeign reports why a store is not the one that is wanted; nil if it is.
func (s *Store) refuseForeign(o Options) error {
	switch {
	case s.meta.Schema > schemaVersion:
		return fmt.Errorf(
			"%w: %s has schema %d, this program reads up to %d; use the newer doorbell", ErrNewer,
			s.path, s.meta.Schema, schemaVersion)
	case s.meta.Schema < schemaVersion:
		return fmt.Errorf(
			"%w: %s has schema %d, from before the first release, which this program does not read; "+
				"to start over, move it away: mv %[2]s %[2]s.old", ErrForeign, s.path, s.meta.Schema)
	case o.BaseURL != "" && o.BaseURL != s.meta.BaseURL && !o.Moved:
		return fmt.Errorf("%w: %s remembers the API at %s, not %s; set the base URL back, or choose another data directory; if this is the "+
			"new address of the same API, start once with run --moved; to start over, move the file away: mv %[2]s %[2]s.old",
			ErrForeign, s.path, s.meta.BaseURL, o.BaseURL)
	}
	return nil
}

// readMeta finds no identity in a file without buckets: a new one.
func (s *Store) readMeta() (found bool, err error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	err = s.View(func(tx *Tx) error {
		s.lastCommit.Store(int64(tx.tx.ID()))
		if info.Size() < tx.tx.Size() {
			return damaged(s.path,
				fmt.Sprintf("it is truncated: %d of %d bytes are there", info.Size(), tx.tx.Size()))
		}
		if tx.tx.Bucket(bucketMeta) == nil {
			if k, _ := tx.tx.Cursor().First(); k != nil {
				return damaged(s.path, "it is not a doorbell store")
			}
			return nil
		}
		found = true
		if v := tx.bucket(bucketMeta).Get(keyMeta); bytes.HasPrefix(v, []byte("{")) &&
			json.Unmarshal(v, &s.meta) == nil && s.meta.Schema != schemaVersion {
			return nil // another schema may give values another form, but for this one
		}
		exists := false
		if s.meta, exists = getJSON[meta](tx, bucketMeta, keyMeta); !exists {
			return damaged(s.path, "it has no store id")
		}
		return nil
	})
	return found, err
}

// create makes the buckets of a new store, and its identity.
func (s *Store) create(baseURL string) error {
	s.meta = meta{Schema: schemaVersion, StoreID: newID(), BaseURL: baseURL, Created: s.now().UTC()}
	err := s.Update(func(tx *Tx) error {
		for _, name := range buckets {
			if _, err := tx.tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.putJSON(bucketMeta, keyMeta, s.meta)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

func newID() string { return strings.ToLower(rand.Text()) }

// putMeta writes the identity, and nothing else.
func (s *Store) putMeta(m meta) error {
	return s.Update(func(tx *Tx) error { return tx.putJSON(bucketMeta, keyMeta, m) })
}

// ID is the identity of the store, made when it was.
func (s *Store) ID() string { return s.meta.StoreID }

// BaseURL is the API that the store remembers.
func (s *Store) BaseURL() string { return s.meta.BaseURL }

// Path is the store's file.
func (s *Store) Path() string { return s.path }

// Commits counts the transactions that were written since the store was opened.
func (s *Store) Commits() int64 { return s.commits.Load() }

// Close releases the lock. It waits for open transactions; but not for long in a store that has
// failed, of which some may never end.
func (s *Store) Close() error {
	if s.Failure() == nil {
		return s.db.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- s.db.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(time.Second):
		return nil // the lock ends with the process
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
