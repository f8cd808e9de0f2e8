package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"doorbell/events"
)

// The event log is one list for all agencies. A key is the position of an event, which only ever
// rises: it is the number of the event for everyone outside, and it is not used twice, also when
// the log is empty. A value is the agency, 0x00, and the event as JSON without its position.
//
// The cursor says how far the relay is: what lies behind it is unsent. It goes back when the stream
// has lost events. Which position of an agency was acknowledged last is noted beside it.

var keyCursor = []byte("cursor")

// endOfLog is behind every position.
const endOfLog = 1 << 62

func logKey(position uint64) []byte { return binary.BigEndian.AppendUint64(nil, position) }

// logged is an entry of the log that was not decoded yet.
type logged struct {
	position uint64
	agency   string
	line     []byte
}

func entry(k, v []byte) logged {
	agency, line, found := bytes.Cut(v, []byte{0})
	if len(k) != 8 || !found {
		panic(damagef("an entry of %s is too short", bucketLog))
	}
	return logged{binary.BigEndian.Uint64(k), string(agency), line}
}

func (l logged) event() events.Event {
	var e events.Event
	if err := e.UnmarshalJSON(l.line); err != nil || e.AgencyID != l.agency {
		panic(damagef("an entry of %s cannot be read", bucketLog))
	}
	e.Sequence = l.position
	return e
}

func (tx *Tx) putEvent(e events.Event) error {
	key := logKey(e.Sequence)
	e.Sequence = 0
	value, err := e.AppendJSON(prefix(e.AgencyID))
	if err != nil {
		return fmt.Errorf("event %s of %s: %w", e.Type, e.AgencyID, err)
	}
	return tx.put(bucketLog, key, value)
}

// Append adds an event, made by events.New, to the log and returns it with its position, time of
// record and id.
func (tx *Tx) Append(e events.Event) (events.Event, error) {
	position := tx.lastPosition() + 1
	if err := tx.bucket(bucketLog).SetSequence(position); err != nil {
		return e, err
	}
	e = e.Stamp(position, tx.store.now(), tx.store.meta.StoreID)
	tx.appended = true
	return e, tx.putEvent(e)
}

// lastPosition is the highest position that was ever used or reserved. The sequence of the bucket
// has no checksum, so the last key counts too: a position is not used twice.
func (tx *Tx) lastPosition() uint64 {
	b := tx.bucket(bucketLog)
	last := b.Sequence()
	if k, _ := b.Cursor().Last(); len(k) == 8 {
		last = max(last, binary.BigEndian.Uint64(k))
	}
	return last
}

// LastPosition is the position of the newest event of the log, also if it was trimmed; 0: there was
// none.
func (s *Store) LastPosition() (uint64, error) { return read(s, (*Tx).lastPosition) }

// Reserve lets the positions go on behind one that this store has used in an earlier life: it was
// set back since.
func (s *Store) Reserve(position uint64) error {
	return s.Update(func(tx *Tx) error {
		if tx.lastPosition() >= position {
			return ErrUnchanged
		}
		return tx.bucket(bucketLog).SetSequence(position)
	})
}

// Events returns the events after a position in order: at most limit, and no further ones once they
// hold maxBytes; but at least one if there is any.
func (s *Store) Events(after uint64, limit, maxBytes int) ([]events.Event, error) {
	found, _, err := s.EventsAfter("", after, limit, maxBytes)
	return found, err
}

// maxLookedAt bounds the entries that one transaction looks at.
const maxLookedAt = 20_000

// EventsAfter returns the events of an agency, or of all if it is empty, after a position: at most
// limit, and no further ones once they hold maxBytes. next is the position up to which the log was
// looked at; it is after itself where nothing follows.
func (s *Store) EventsAfter(agency string, after uint64,
	limit, maxBytes int,
) (found []events.Event, next uint64, err error) {
	err = s.View(func(tx *Tx) error {
		found, next, _ = collect(tx.ascend(bucketLog, nil, logKey(after+1)), agency, limit, maxBytes)
		return nil
	})
	return found, max(next, after), err
}

// EventsBefore returns events backwards, from the newest one where before is 0, of an agency or of
// all if it is empty: at most limit, and no further ones once they hold maxBytes. It continues
// before next; 0: nothing is left.
func (s *Store) EventsBefore(agency string, before uint64,
	limit, maxBytes int,
) (found []events.Event, next uint64, err error) {
	if before == 0 {
		before = endOfLog
	}
	err = s.View(func(tx *Tx) error {
		more := false
		if found, next, more = collect(tx.descend(bucketLog, logKey(before)), agency, limit,
			maxBytes); !more {
			next = 0
		}
		return nil
	})
	return found, next, err
}

// collect decodes entries of an agency, or of all if it is empty, within limits. last is the
// position of the last entry that it looked at, and more that it did not look at all.
func collect(entries iter.Seq2[[]byte, []byte], agency string,
	limit, maxBytes int,
) (found []events.Event, last uint64, more bool) {
	looked, size := 0, 0
	for k, v := range entries {
		l := entry(k, v)
		if ours := agency == "" || l.agency == agency; ours {
			if size += len(v); len(found) > 0 && (len(found) >= limit || size > maxBytes) {
				return found, last, true
			}
			found = append(found, l.event())
		}
		if last, looked = l.position, looked+1; looked >= maxLookedAt {
			return found, last, true
		}
	}
	return found, last, false
}

// Lookup returns the event at a position, if the log still has it.
func (s *Store) Lookup(position uint64) (e events.Event, found bool, err error) {
	err = s.View(func(tx *Tx) error {
		key := logKey(position)
		if v := tx.get(bucketLog, key); v != nil {
			e, found = entry(key, v).event(), true
		}
		return nil
	})
	return e, found, err
}

// Cursor is how far the log is published.
func (s *Store) Cursor() (events.Cursor, error) { return read(s, (*Tx).cursor) }

func (tx *Tx) cursor() events.Cursor {
	c, _ := getJSON[events.Cursor](tx, bucketMeta, keyCursor)
	return c
}

// Acknowledge moves the cursor, and notes the newest acknowledged positions of agencies, in one
// durable commit, also when the store holds all that it may: it is what makes room. The highest
// position that was ever acknowledged stays.
func (s *Store) Acknowledge(c events.Cursor, newest map[string]uint64) error {
	return s.Update(func(tx *Tx) error {
		c.Highest = max(c.Highest, c.Position, tx.cursor().Highest)
		for agency, position := range newest {
			if position <= tx.LastSequence(agency) {
				continue
			}
			if err := tx.put(bucketCursors, []byte(agency), logKey(position)); err != nil {
				return err
			}
		}
		return tx.putJSON(bucketMeta, keyCursor, c)
	})
}

// LastSequence is the newest position of an agency that the stream has acknowledged. 0: there is
// none.
func (tx *Tx) LastSequence(agency string) uint64 {
	if v := tx.get(bucketCursors, []byte(agency)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Last is the newest position of an agency that the stream has acknowledged, 0 if there is none.
func (s *Store) Last(agency string) (position uint64, err error) {
	return read(s, func(tx *Tx) uint64 { return tx.LastSequence(agency) })
}

// Progress is how far the events of an agency are published.
type Progress struct {
	Acknowledged uint64 `json:"acknowledged"` // its newest acknowledged position
	Pending      uint64 `json:"pending"`      // events that the stream has not acknowledged

	// when the first of them was recorded; zero if there is none
	OldestWaiting time.Time `json:"oldestWaiting,omitzero"`
}

// Progress is that of all agencies with an event log, at one moment.
func (s *Store) Progress() (map[string]Progress, error) {
	return read(s, func(tx *Tx) map[string]Progress {
		all := map[string]Progress{}
		for k, v := range tx.ascend(bucketCursors, nil, nil) {
			all[string(k)] = Progress{Acknowledged: binary.BigEndian.Uint64(v)}
		}
		for k, v := range tx.ascend(bucketLog, nil, logKey(tx.cursor().Position+1)) {
			l := entry(k, v)
			p := all[l.agency]
			if p.Pending++; p.OldestWaiting.IsZero() {
				p.OldestWaiting = l.event().RecordedTime
			}
			all[l.agency] = p
		}
		return all
	})
}
