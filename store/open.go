package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// schemaVersion is the form of the file; another one is refused. None before it was released.
const schemaVersion = 7

const fileName = "doorbell.db"

var (
	bucketMeta       = []byte("meta")
	bucketAgencies   = []byte("agencies")
	bucketInsertions = []byte("insertions")
	bucketRecords    = []byte("records")
	bucketContacts   = []byte("contacts")
	bucketFieldNames = []byte("field_names")
	bucketLog        = []byte("log")
	bucketCursors    = []byte("cursors")
	bucketHalts      = []byte("halts")
	bucketFailures   = []byte("troubles")

	buckets = [][]byte{
		bucketMeta, bucketAgencies, bucketInsertions, bucketRecords, bucketContacts, bucketFieldNames, bucketLog,
		bucketCursors, bucketHalts, bucketFailures,
	}
	keyMeta = []byte("store")
)

// Options of Open.
type Options struct {
	Dir         string           // data directory; made with mode 0700 if missing
	BaseURL     string           // the API that this store remembers; another one is refused
	LockTimeout time.Duration    // how long to wait for the lock; default 2 s
	Now         func() time.Time // default time.Now

	// Check is asked about a file that is there before anything is written to it: pages that it takes for free are overwritten. What it
	// returns, Open returns. nil: nobody is asked.
	Check func(path string) error

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
	db       *bolt.DB
	file     *os.File // of db; see Scrub
	path     string
	meta     meta
	now      func() time.Time
	onAppend atomic.Pointer[func()]
	commits  atomic.Int64
	reading  atomic.Int64 // Views that are open

	broken  atomic.Pointer[error] // by damage that was met
	damaged chan struct{}         // is closed then

	lastCommit atomic.Int64 // number of the last one that must be there

	torn bool // see Torn

	full atomic.Bool // it holds all that it may; see Housekeeping
}

// Open locks and opens the store in o.Dir, or makes a new one where there is none. It holds an exclusive lock until
// Close; a second Open of the same directory returns a LockedError after LockTimeout. Nothing is written before the store
// is known to be ours.
func Open(o Options) (s *Store, err error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	path := filepath.Join(o.Dir, fileName)
	if err := checkFile(o, path); err != nil {
		return nil, err
	}
	db, file, torn, err := openFile(path, o.LockTimeout)
	if errors.Is(err, errReplaced) {
		return Open(o)
	}
	if err != nil {
		return nil, err
	}
	s = newStore(db, path, o.Now)
	s.file, s.torn = file, torn
	removeScratch(o.Dir)
	if err := s.identify(o); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func newStore(db *bolt.DB, path string, now func() time.Time) *Store {
	return &Store{db: db, path: path, now: now, damaged: make(chan struct{})}
}

func checkFile(o Options, path string) error {
	if info, err := os.Stat(path); o.Check == nil || err != nil || info.Size() == 0 {
		return nil
	}
	return o.Check(path)
}

// refuseHidden refuses to take a file for a new one, and to fill it, where what it held may only be out of reach: the head that
// leads there is torn, and the other one is that of an empty file, as after Compact.
func refuseHidden(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	if _, whole := readHeads(f); whole < 2 {
		return damaged(path, "one of its two heads cannot be read, and the other one leads to nothing")
	}
	return nil
}

// identify reads which store it is, refuses a foreign one, and makes the identity of a new one. A store that is only read is left
// as it is.
func (s *Store) identify(o Options) error {
	found, err := s.readMeta()
	if err == nil && found == nil {
		if err := refuseHidden(s.path); err != nil {
			return err
		}
		if o.BaseURL == "" || s.db.IsReadOnly() {
			return emptyStore(s.path)
		}
		found, err = s.create(o)
	}
	if err != nil {
		return err
	}
	s.meta = *found
	if err := s.refuseForeign(o); err != nil || s.db.IsReadOnly() || o.BaseURL == "" || o.BaseURL == s.meta.BaseURL {
		return err
	}
	moved := s.meta
	moved.BaseURL = o.BaseURL
	if err := s.putMeta(moved); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.meta = moved
	return nil
}

// refuseForeign reports why a store is not the one that is wanted; nil if it is.
func (s *Store) refuseForeign(o Options) error {
	switch {
	case s.meta.Schema > schemaVersion:
		return fmt.Errorf("%w: %s has schema %d, this program reads up to %d; use the newer doorbell", ErrNewer, s.path, s.meta.Schema, schemaVersion)
	case s.meta.Schema < schemaVersion:
		return fmt.Errorf("%w: %s has schema %d, from before the first release, which this program does not read; "+
			"to start over, move it away: mv %[2]s %[2]s.old", ErrForeign, s.path, s.meta.Schema)
	case o.BaseURL != "" && o.BaseURL != s.meta.BaseURL && !o.Moved:
		return fmt.Errorf("%w: %s remembers the API at %s, not %s; set the base URL back, or choose another data directory; if this is the "+
			"new address of the same API, start once with run --moved; to start over, move the file away: mv %[2]s %[2]s.old",
			ErrForeign, s.path, s.meta.BaseURL, o.BaseURL)
	}
	return nil
}

// readMeta returns nil for a file without buckets: a new one.
func (s *Store) readMeta() (m *meta, err error) {
	err = s.View(func(tx *Tx) error {
		s.lastCommit.Store(int64(tx.commit()))
		b := tx.tx.Bucket(bucketMeta)
		if b == nil {
			if k, _ := tx.tx.Cursor().First(); k != nil {
				return damaged(s.path, "it is no store of doorbell")
			}
			return nil
		}
		m = new(meta)
		if v := b.Get(keyMeta); bytes.HasPrefix(v, []byte("{")) && json.Unmarshal(v, m) == nil {
			return nil // until schema 5
		}
		var exists bool
		if *m, exists = getJSON[meta](tx, bucketMeta, keyMeta); !exists {
			return damaged(s.path, "it does not say which store it is")
		}
		return nil
	})
	return m, err
}

// create makes the buckets of a new store, and its identity.
func (s *Store) create(o Options) (*meta, error) {
	m := &meta{Schema: schemaVersion, StoreID: strings.ToLower(rand.Text()), BaseURL: o.BaseURL, Created: s.now().UTC()}
	err := s.update(func(tx *Tx) error {
		for _, name := range buckets {
			if err := makeBucket(tx.tx, name); err != nil {
				return err
			}
		}
		return tx.putJSON(bucketMeta, keyMeta, m)
	})
	if errors.Is(err, ErrNoSpace) {
		return nil, fmt.Errorf("%w: %s", ErrNoSpace, s.path)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return m, nil
}

func makeBucket(tx *bolt.Tx, name []byte) error {
	b, err := tx.CreateBucket(name)
	if err != nil {
		return err
	}
	return b.Put(endMark, seal(name, nil, endMark, nil))
}

// putMeta writes the identity, and nothing else.
func (s *Store) putMeta(m meta) error {
	return s.update(func(tx *Tx) error { return tx.putJSON(bucketMeta, keyMeta, m) })
}

// ID is the identity of the store, made when it was.
func (s *Store) ID() string { return s.meta.StoreID }

// BaseURL is the API that the store remembers.
func (s *Store) BaseURL() string { return s.meta.BaseURL }

// Torn reports whether one of the two heads of the file could not be read when it was opened. So a power failure may leave the
// commit under way. If it was that of the last commit, what was seen is seen again, and the stream takes no event of it twice.
func (s *Store) Torn() bool { return s.torn }

// Path is the store's file.
func (s *Store) Path() string { return s.path }

// Close releases the lock. It waits for open transactions; but not for long in a store that was found damaged, of which some may
// never end.
func (s *Store) Close() error {
	if s.Damage() == nil {
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

// Commits counts the transactions that were written since the store was opened.
func (s *Store) Commits() int64 { return s.commits.Load() }

// OpenReadOnly opens the store in o.Dir as it is: nothing is made, mended or migrated, and what Open would refuse is
// refused alike. Where there is no store the error is fs.ErrNotExist. The lock is shared with other readers; a store that is
// open to be written is a LockedError after LockTimeout. Update of a store that was opened so fails.
func OpenReadOnly(o Options) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = 2 * time.Second
	}
	path := filepath.Join(o.Dir, fileName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db, err := openAsItIs(path, o.LockTimeout, true)
	if err != nil {
		return nil, err
	}
	s := newStore(db, path, time.Now)
	if err := s.identify(o); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
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
