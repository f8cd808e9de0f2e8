package store

import (
	"errors"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A handover lets another process continue the work of this one. The store writes a copy of what
// only it knows, and the process that takes over adopts the copy: as a restored backup, with an
// identity of its own, because the process that wrote the copy may have published events since.

// OnUrgent registers a callback that runs after every commit whose loss a process that takes over
// could not make up for: the end of a baseline (leads of an insertion that vanishes before a
// takeover are found only where it is known), a halt or its end, an approval, a wait that the API
// asked for, an erasure, a report that was sent. It runs on the committing goroutine, and must not
// block. A later call replaces it.
func (s *Store) OnUrgent(wake func()) { s.onUrgent.Store(&wake) }

// isUrgent reports whether the change of an agency is one that OnUrgent is for.
func isUrgent(before, after Agency) bool {
	approved := func(h *Held) bool { return h != nil && h.Approved }
	return before.Baselined != after.Baselined || !before.KeyUntil.Equal(after.KeyUntil) ||
		before.KeyOf != after.KeyOf ||
		approved(before.Held) != approved(after.Held) ||
		approved(before.Redaction) != approved(after.Redaction)
}

// CopyUnpublished writes a new store file at path with the snapshot and the events beyond the
// cursor, as they are at one moment. A file that is already there is replaced. Commits do not wait
// for it. On failure no file is left behind.
func (s *Store) CopyUnpublished(path string) error {
	return s.copyInto(path, func(tx *Tx) uint64 { return tx.cursor().Position })
}

// copyInto writes a new store file with the snapshot and the events behind a position, and brings
// it to the disk. It ends with two commits, so that each of the two heads of the file leads to all
// of it.
func (s *Store) copyInto(path string, behind func(*Tx) uint64) (err error) {
	_ = os.Remove(path) // of a process that was killed
	into, err := bolt.Open(path, 0o600,
		&bolt.Options{
			FreelistType: bolt.FreelistMapType, NoSync: true, NoGrowSync: true,
			InitialMmapSize: mapAhead,
		})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	into.AllocSize = compactBytes // and not much beyond what it holds
	defer func() {
		if err = errors.Join(err, into.Sync(), into.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	err = s.View(func(tx *Tx) error {
		for _, name := range buckets {
			var from []byte
			if string(name) == string(bucketLog) {
				from = logKey(behind(tx) + 1)
			}
			if err := copyBucket(into, name, tx.bucket(name), from); err != nil {
				return fmt.Errorf("store: copy: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	copied := newStore(into, path, s.now)
	// nothing is free in it
	err = copied.Update(func(tx *Tx) error { return tx.delete(bucketMeta, keyCompact) })
	return errors.Join(err, copied.putMeta(s.meta))
}

// copyBucket copies the entries from a key on, in transactions of some size.
func copyBucket(into *bolt.DB, name []byte, b *bolt.Bucket, from []byte) error {
	cursor := b.Cursor()
	for k, v := cursor.Seek(from); ; {
		err := into.Update(func(tx *bolt.Tx) error {
			to, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			to.FillPercent = 1 // keys come in order
			for size := 0; k != nil && size < compactBytes; k, v = cursor.Next() {
				if err := to.Put(k, v); err != nil {
					return err
				}
				size += len(k) + len(v)
			}
			return to.SetSequence(b.Sequence())
		})
		if err != nil || k == nil {
			return err
		}
	}
}

// Adopt makes the copy of another process's store at path one of this process. It gets an identity
// of its own. All agencies wait for the stream, which may hold what the other process published
// after the copy, and knows whose data was erased. Each halt is tried once, as the other process
// may have seen its end. The error wraps ErrDamaged if the file is not what CopyUnpublished has
// written.
func Adopt(path string) error {
	s, err := openFile(path, Options{}, false)
	if err != nil {
		return err
	}
	m := s.meta
	m.StoreID, m.Created = newID(), time.Now().UTC()
	err = s.Update(func(tx *Tx) error {
		for _, id := range tx.agencies() {
			a, _ := tx.Agency(id)
			a.AwaitsStream = true
			if err := tx.PutAgency(id, a); err != nil {
				return err
			}
			for _, h := range tx.Halts(id) {
				h.Tried = time.Time{}
				if err := tx.PutHalt(id, h); err != nil {
					return err
				}
			}
		}
		return tx.putJSON(bucketMeta, keyMeta, m)
	})
	return errors.Join(err, s.db.Close())
}
