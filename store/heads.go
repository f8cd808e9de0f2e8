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

// HeadsAfter returns the heads of at most so many events of an agency in order, from the one after the given sequence. Payloads
// are not read. Of an event that cannot be read it knows the sequence alone.
func (s *Store) HeadsAfter(agency string, after uint64, most int) (heads []events.Head, err error) {
	err = s.View(func(tx *Tx) error {
		below, c := prefix(agency), tx.bucket(bucketLog).Cursor()
		for k, v := c.Seek(logKey(agency, after+1)); bytes.HasPrefix(k, below) && len(heads) < most; k, v = c.Next() {
			heads = append(heads, tx.head(k[len(below):], v))
		}
		return nil
	})
	return heads, err
}

// HeadsBefore is HeadsAfter downwards, from the one before the given sequence.
func (s *Store) HeadsBefore(agency string, before uint64, most int) (heads []events.Head, err error) {
	err = s.View(func(tx *Tx) error {
		below, c := prefix(agency), tx.bucket(bucketLog).Cursor()
		for k, v := lastBefore(c, logKey(agency, before)); bytes.HasPrefix(k, below) && len(heads) < most; k, v = c.Prev() {
			heads = append(heads, tx.head(k[len(below):], v))
		}
		return nil
	})
	return heads, err
}

// NewestHeads are the heads of the newest event of each agency that the store knows; the zero value where the log is empty.
func (s *Store) NewestHeads() (heads map[string]events.Head, err error) {
	heads = map[string]events.Head{}
	err = s.View(func(tx *Tx) error {
		c := tx.bucket(bucketLog).Cursor()
		return tx.bucket(bucketAgencies).ForEach(func(name, _ []byte) error {
			agency := string(name)
			below := prefix(agency)
			heads[agency] = events.Head{}
			if k, v := lastBefore(c, logKey(agency, ^uint64(0))); bytes.HasPrefix(k, below) {
				heads[agency] = tx.head(k[len(below):], v)
			}
			return nil
		})
	})
	return heads, err
}

// Position is how far the log of an agency is published.
type Position struct {
	Last   uint64 // sequence of the newest event
	Cursor events.Cursor
	// Waiting is when the oldest event was recorded that the stream has not taken yet; zero if there is none.
	Waiting time.Time
}

// Positions are those of agencies, in their order and of one moment.
func (s *Store) Positions(agencies []string) (list []Position, err error) {
	err = s.View(func(tx *Tx) error {
		c, cursors := tx.bucket(bucketLog).Cursor(), tx.bucket(bucketCursors)
		for _, agency := range agencies {
			var p Position
			if v := cursors.Get([]byte(agency)); v != nil && json.Unmarshal(v, &p.Cursor) != nil {
				return fmt.Errorf("%w: cursor of %s", ErrDamaged, agency)
			}
			below := prefix(agency)
			if k, _ := lastBefore(c, logKey(agency, ^uint64(0))); bytes.HasPrefix(k, below) {
				p.Last = binary.BigEndian.Uint64(k[len(below):])
			}
			if p.Last > p.Cursor.Sequence {
				if k, v := c.Seek(logKey(agency, p.Cursor.Sequence+1)); bytes.HasPrefix(k, below) {
					p.Waiting = tx.head(k[len(below):], v).RecordedTime
				}
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// lastBefore moves a cursor to the last entry before a key, of whomever it is.
func lastBefore(c *bolt.Cursor, key []byte) (k, v []byte) {
	if k, _ := c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// head reads an entry of the log.
func (tx *Tx) head(sequence, v []byte) events.Head {
	tx.looked(min(len(v), onePage))
	h, err := events.DecodeHead(v)
	if err != nil {
		return events.Head{Sequence: binary.BigEndian.Uint64(sequence)}
	}
	h.Sequence = binary.BigEndian.Uint64(sequence)
	return h
}
