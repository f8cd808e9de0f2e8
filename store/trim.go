package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"doorbell/events"
)

// trimEvents, trimBytes and trimTime bound one transaction of Trim: others wait for it.
const (
	trimEvents = 1000
	trimBytes  = 8 << 20
	trimTime   = 50 * time.Millisecond
)

// Trim removes events that were recorded before a moment, the oldest of each agency first, at most so many of them. What is
// not acknowledged stays, and so do the event of the cursor and the newest one: a log goes on where it was. What was seen of
// insertions and contact requests stays as well, so nothing is announced again.
//
// It works in small transactions, between which others commit. After an error, or the end of the process, the next call goes
// on where this one was.
func (s *Store) Trim(before time.Time, most int) (trimmed int, err error) {
	agencies, err := s.published()
	if err != nil {
		return 0, err
	}
	for _, agency := range agencies {
		for trimmed < most {
			n, err := s.trimSome(agency, before, min(most-trimmed, trimEvents))
			trimmed += n
			if err != nil {
				return trimmed, err
			}
			if n == 0 {
				break
			}
		}
	}
	return trimmed, nil
}

// First is the oldest sequence that an agency's log still has, 0 if it is empty.
func (s *Store) First(agency string) (sequence uint64, err error) {
	err = s.View(func(tx *Tx) error {
		sequence = tx.firstSequence(agency)
		return nil
	})
	return sequence, err
}

func (tx *Tx) firstSequence(agency string) uint64 {
	below := prefix(agency)
	k, _ := tx.bucket(bucketLog).Cursor().Seek(below)
	if !bytes.HasPrefix(k, below) {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(below):])
}

// published lists the agencies of whose log something may go.
func (s *Store) published() (agencies []string, err error) {
	err = s.View(func(tx *Tx) error {
		return tx.bucket(bucketCursors).ForEach(func(k, _ []byte) error {
			agencies = append(agencies, string(k))
			return nil
		})
	})
	return agencies, err
}

// trimSome removes up to most events of an agency in one transaction. What they are is found out before it, so that nobody
// waits while events are read.
func (s *Store) trimSome(agency string, before time.Time, most int) (trimmed int, err error) {
	var upTo uint64
	err = s.View(func(tx *Tx) (err error) {
		upTo, err = tx.trimmable(agency, before, most)
		return err
	})
	if err != nil || upTo == 0 {
		return 0, err
	}
	err = s.update(func(tx *Tx) error {
		keep, err := tx.keptFrom(agency) // the cursor may have moved
		if err != nil {
			return err
		}
		trimmed, err = tx.removeEvents(agency, min(upTo, keep-1))
		return err
	})
	if err != nil {
		return 0, err
	}
	return trimmed, nil
}

// keptFrom is the first event of an agency that stays whatever its age: that of the cursor, which is never after the newest.
func (tx *Tx) keptFrom(agency string) (uint64, error) {
	c, err := tx.cursor(agency)
	if err != nil {
		return 0, err
	}
	return max(1, min(c.Sequence, tx.LastSequence(agency))), nil
}

// trimmable is the sequence up to which events may go, 0 if none may.
func (tx *Tx) trimmable(agency string, before time.Time, most int) (upTo uint64, err error) {
	keep, err := tx.keptFrom(agency)
	if err != nil {
		return 0, err
	}
	below, size := prefix(agency), 0
	c := tx.bucket(bucketLog).Cursor()
	for k, v := c.Seek(below); bytes.HasPrefix(k, below) && most > 0 && size < trimBytes; k, v = c.Next() {
		sequence := binary.BigEndian.Uint64(k[len(below):])
		if sequence >= keep {
			return upTo, nil
		}
		recorded, err := recordedTime(v)
		if err != nil {
			return 0, fmt.Errorf("%w: event %d of %s", ErrDamaged, sequence, agency)
		}
		if !recorded.Before(before) {
			return upTo, nil
		}
		upTo, size, most = sequence, size+len(v), most-1
	}
	return upTo, nil
}

// recordedTime reads the one attribute of an event that trimming asks for.
func recordedTime(v []byte) (time.Time, error) {
	var e struct {
		RecordedTime time.Time `json:"recordedtime"`
	}
	err := json.Unmarshal(v, &e)
	return e.RecordedTime, err
}

// removeEvents removes the events of an agency up to a sequence, as many as there is time for.
func (tx *Tx) removeEvents(agency string, upTo uint64) (n int, err error) {
	below, began := prefix(agency), time.Now()
	b := tx.bucket(bucketLog)
	for _, k := range keysUpTo(b, below, logKey(agency, upTo)) {
		if err := b.Delete(k); err != nil {
			return n, err
		}
		if n++; time.Since(began) > trimTime {
			break
		}
	}
	return n, nil
}

// keysUpTo lists the keys with a prefix up to a last one, at most as many as one transaction takes.
func keysUpTo(b *bolt.Bucket, below, last []byte) (keys [][]byte) {
	c := b.Cursor()
	for k, _ := c.Seek(below); bytes.HasPrefix(k, below) && bytes.Compare(k, last) <= 0 && len(keys) < trimEvents; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

// oldestTrimmable is when the oldest event was recorded that may go, of all agencies; zero if none may.
func (s *Store) oldestTrimmable() (oldest time.Time, err error) {
	agencies, err := s.published()
	if err != nil {
		return oldest, err
	}
	for _, agency := range agencies {
		err := s.View(func(tx *Tx) error {
			keep, err := tx.keptFrom(agency)
			first := tx.firstSequence(agency)
			if err != nil || first == 0 || first >= keep {
				return err
			}
			at, err := recordedTime(tx.bucket(bucketLog).Get(logKey(agency, first)))
			if err != nil {
				return fmt.Errorf("%w: event %d of %s", ErrDamaged, first, agency)
			}
			if oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
			return nil
		})
		if err != nil {
			return oldest, err
		}
	}
	return oldest, nil
}

// cursor says how far an agency's log is published.
func (tx *Tx) cursor(agency string) (c events.Cursor, err error) {
	v := tx.bucket(bucketCursors).Get([]byte(agency))
	if v == nil {
		return c, nil
	}
	if err := json.Unmarshal(v, &c); err != nil {
		return c, fmt.Errorf("%w: cursor of %s", ErrDamaged, agency)
	}
	return c, nil
}
