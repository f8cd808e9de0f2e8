package store

import (
	"encoding/binary"
	"time"
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
	for k := range tx.ascend(bucketLog, prefix(agency), prefix(agency)) {
		if n := binary.BigEndian.Uint64(k); n < unsent {
			return n
		}
		break
	}
	return 0
}

// published lists the agencies of whose log something may go.
func (s *Store) published() (agencies []string, err error) {
	err = s.View(func(tx *Tx) error {
		for k := range tx.ascend(bucketCursors, nil, nil) {
			agencies = append(agencies, string(k))
		}
		return nil
	})
	return agencies, err
}

// trimSome removes up to most events of an agency in one transaction. What they are is found out before it, so that nobody
// waits while events are read.
func (s *Store) trimSome(agency string, before time.Time, most int) (trimmed int, err error) {
	var upTo uint64
	err = s.View(func(tx *Tx) (err error) {
		upTo = tx.trimmable(agency, before, most)
		return nil
	})
	if err != nil || upTo == 0 {
		return 0, err
	}
	err = s.update(func(tx *Tx) error {
		trimmed, err = tx.removeEvents(agency, min(upTo, tx.keptFrom(agency)-1)) // the cursor may have moved
		return err
	})
	if err != nil {
		return 0, err
	}
	return trimmed, nil
}

// keptFrom is the first event of an agency that stays whatever its age: that of the cursor, which is never after the newest.
func (tx *Tx) keptFrom(agency string) uint64 {
	return max(1, min(tx.cursor(agency).Sequence, tx.LastSequence(agency)))
}

// trimmable is the sequence up to which events may go, 0 if none may.
func (tx *Tx) trimmable(agency string, before time.Time, most int) (upTo uint64) {
	keep, size := tx.keptFrom(agency), 0
	for k, v := range tx.ascend(bucketLog, prefix(agency), prefix(agency)) {
		l := entry(k, v)
		if l.n >= keep || most <= 0 || size >= trimBytes || !l.head().RecordedTime.Before(before) {
			break
		}
		upTo, size, most = l.n, size+len(v), most-1
	}
	return upTo
}

// removeEvents removes the events of an agency up to a sequence, as many as there is time for.
func (tx *Tx) removeEvents(agency string, upTo uint64) (n int, err error) {
	var keys [][]byte
	began := time.Now()
	for k := range tx.ascend(bucketLog, prefix(agency), prefix(agency)) {
		if binary.BigEndian.Uint64(k) > upTo || len(keys) >= trimEvents || time.Since(began) > trimTime {
			break
		}
		keys = append(keys, append(prefix(agency), k...))
	}
	return len(keys), tx.delete(bucketLog, keys...)
}

// oldestTrimmable is when the oldest event was recorded that may go, of all agencies; zero if none may.
func (s *Store) oldestTrimmable() (oldest time.Time, err error) {
	agencies, err := s.published()
	if err != nil {
		return oldest, err
	}
	for _, agency := range agencies {
		err := s.View(func(tx *Tx) error {
			for k, v := range tx.ascend(bucketLog, prefix(agency), prefix(agency)) {
				l := entry(k, v)
				if at := l.head().RecordedTime; l.n < tx.keptFrom(agency) && (oldest.IsZero() || at.Before(oldest)) {
					oldest = at
				}
				break
			}
			return nil
		})
		if err != nil {
			return oldest, err
		}
	}
	return oldest, nil
}
