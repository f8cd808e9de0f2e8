package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"doorbell/events"
)

// The log of an agency is one range of keys (agency 0x00 n). An event that the stream has taken stands at its sequence; one that
// is unsent at 1<<63 plus its position, which counts what this store has appended and is never used twice. So one reading gives
// first what is published, in the order of the stream, and then what waits, in the order of the commits. What nobody has seen
// has no number, and nothing ever makes room for anything.
//
// A value is the position, 0 where the event came in by Import, and the event as JSON, without the sequence: the key has it.

const unsent = 1 << 63

func logKey(agency string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(agency), n)
}

// logged is an entry of the log that was not decoded yet.
type logged struct {
	n        uint64 // of the key
	position uint64
	line     []byte
}

func entry(k, v []byte) logged {
	if len(k) != 8 || len(v) < 8 {
		panic(damagef("an entry of %s is too short", bucketLog))
	}
	return logged{binary.BigEndian.Uint64(k), binary.BigEndian.Uint64(v), v[8:]}
}

func (l logged) sequence() uint64 {
	if l.n >= unsent {
		return 0
	}
	return l.n
}

func (l logged) event(agency string) events.Event {
	e, err := events.Entry(agency, l.line)
	if err != nil {
		panic(damagef("an entry of %s cannot be read", bucketLog))
	}
	e.Sequence, e.Position = l.sequence(), l.position
	return e
}

func (tx *Tx) putEvent(n uint64, e events.Event) error {
	value, err := encodeEvent(e)
	if err != nil {
		return err
	}
	return tx.put(bucketLog, logKey(e.AgencyID, n), value)
}

func encodeEvent(e events.Event) ([]byte, error) {
	value, err := e.WithSequence(0).AppendJSON(binary.BigEndian.AppendUint64(nil, e.Position))
	if err != nil {
		return nil, fmt.Errorf("event %s of %s: %w", e.Type, e.AgencyID, err)
	}
	return value, nil
}

// Append adds an event, made by events.New, to its agency's log and returns it with its position, time of record and id. The
// stream has yet to take it.
func (tx *Tx) Append(e events.Event) (events.Event, error) {
	e = e.Stamp(tx.lastPosition(e.AgencyID)+1, tx.store.now(), tx.store.meta.StoreID)
	tx.wake(e.AgencyID)
	return e, tx.putEvent(unsent|e.Position, e)
}

// Append adds one event to the log in a transaction of its own, also when the store holds all that it may.
func (s *Store) Append(e events.Event) error {
	return s.update(func(tx *Tx) error {
		_, err := tx.Append(e)
		return err
	})
}

// lastPosition is the highest that was ever used: that of the newest unsent event or, where there is none, that of the cursor.
func (tx *Tx) lastPosition(agency string) uint64 {
	for k := range tx.descend(bucketLog, prefix(agency), logKey(agency, ^uint64(0))) {
		if n := binary.BigEndian.Uint64(k); n >= unsent {
			return n - unsent
		}
		break
	}
	return tx.cursor(agency).Position
}

// LastSequence is the newest sequence of an agency's log: what the stream has taken. 0: it has taken nothing.
func (tx *Tx) LastSequence(agency string) uint64 {
	for k := range tx.descend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		return binary.BigEndian.Uint64(k)
	}
	return 0
}

// Last is the newest sequence of an agency's log, 0 if the stream has taken nothing of it.
func (s *Store) Last(agency string) (sequence uint64, err error) {
	return read(s, func(tx *Tx) uint64 { return tx.LastSequence(agency) })
}

// Read returns published events of an agency in order, from the one after the given sequence: at most maxEvents, and no
// further ones once they hold maxBytes; but at least one if there is any.
func (s *Store) Read(agency string, after uint64, maxEvents, maxBytes int) ([]events.Event, error) {
	return read(s, func(tx *Tx) (found []events.Event) {
		size := 0
		for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, after+1)) {
			l := entry(k, v)
			if size += len(v); l.n >= unsent || len(found) > 0 && (len(found) >= maxEvents || size > maxBytes) {
				break
			}
			found = append(found, l.event(agency))
		}
		return found
	})
}

// Publish notes that the stream has taken the first unsent events of an agency under the sequences that they have by now, and
// moves the cursor to c, in one durable commit, also when the store holds all that it may: it is what makes room.
func (s *Store) Publish(agency string, list []events.Event, c events.Cursor) error {
	return s.update(func(tx *Tx) error { return tx.publish(agency, list, c) })
}

func (tx *Tx) publish(agency string, list []events.Event, c events.Cursor) error {
	_, imported := tx.imports(agency)
	var waiting [][]byte
	var published []item
	sequence := tx.LastSequence(agency)
	for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		n := len(published)
		if n == len(list) || list[n].Sequence <= sequence || binary.BigEndian.Uint64(k) != unsent|list[n].Position {
			break
		}
		sequence, c.Position = list[n].Sequence, list[n].Position
		if imported {
			var err error
			e := entry(k, v).event(agency) // not list[n]: it was read before, the person may be erased since
			e.ID = list[n].ID
			if v, err = tx.noteState(e); err != nil {
				return err
			}
		}
		waiting = append(waiting, logKey(agency, unsent|c.Position))
		published = append(published, item{logKey(agency, sequence), v})
	}
	if n := len(published); n < len(list) {
		return fmt.Errorf("publish of %s: the event at position %d is not the next one, or its sequence is taken", agency, list[n].Position)
	}
	if err := tx.putAll(bucketLog, published...); err != nil {
		return err
	}
	if err := tx.delete(bucketLog, waiting...); err != nil {
		return err
	}
	return tx.setCursor(agency, c)
}

// Cursor says how far an agency's log is published.
func (s *Store) Cursor(agency string) (events.Cursor, error) {
	return read(s, func(tx *Tx) events.Cursor { return tx.cursor(agency) })
}

func (tx *Tx) cursor(agency string) events.Cursor {
	c, _ := getJSON[events.Cursor](tx, bucketCursors, []byte(agency))
	return c
}

// SetCursor moves an agency's cursor, durably, also when the store holds all that it may.
func (s *Store) SetCursor(agency string, c events.Cursor) error {
	return s.update(func(tx *Tx) error { return tx.setCursor(agency, c) })
}

// setCursor never lowers the position: it is what is not used twice.
func (tx *Tx) setCursor(agency string, c events.Cursor) error {
	c.Position = max(c.Position, tx.cursor(agency).Position)
	return tx.putJSON(bucketCursors, []byte(agency), c)
}

// Place is how far somebody has read an agency's log who follows it: all that is published up to a sequence, and of what was
// appended here all up to a position. An event that he has read while it was unsent is not met again when it is published.
type Place struct{ Sequence, Position uint64 }

// EventsAfter returns the next events of an agency after a place, until there are so many of them or they hold maxBytes, and the
// place behind them; it is the same place where nothing follows.
func (s *Store) EventsAfter(agency string, at Place, most, maxBytes int) (found []events.Event, next Place, err error) {
	next, err = read(s, func(tx *Tx) Place {
		from := logKey(agency, at.Sequence+1)
		for range 2 {
			for k, v := range tx.ascend(bucketLog, prefix(agency), from) {
				l := entry(k, v)
				if l.n >= unsent && l.position <= at.Position {
					break // and on to those that were not read
				}
				if most <= 0 || maxBytes <= 0 {
					return at
				}
				if most, maxBytes = most-1, maxBytes-len(v); l.position == 0 || l.position > at.Position {
					found = append(found, l.event(agency))
				}
				at.Position = max(at.Position, l.position)
				if l.n < unsent {
					at.Sequence = l.n
				}
			}
			from = logKey(agency, unsent|at.Position+1)
		}
		return at
	})
	return found, next, err
}

// EventsBefore returns events of an agency backwards, from the newest one where before is the zero value, until there are so many
// of them or they hold maxBytes, and where to go on. What is published between two calls is met twice; its position tells.
func (s *Store) EventsBefore(agency string, before uint64, most, maxBytes int) (found []events.Event, next uint64, err error) {
	if before == 0 {
		before = ^uint64(0)
	}
	err = s.View(func(tx *Tx) error {
		for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, before)) {
			if most <= 0 || maxBytes <= 0 {
				break
			}
			l := entry(k, v)
			found, next, most, maxBytes = append(found, l.event(agency)), l.n, most-1, maxBytes-len(v)
		}
		return nil
	})
	return found, next, err
}

// Lookup returns an event that was read before, if the log still has it. It may be published by now.
func (s *Store) Lookup(was events.Event) (e events.Event, found bool, err error) {
	err = s.View(func(tx *Tx) error {
		agency, n := was.AgencyID, was.Sequence
		if n == 0 {
			n = unsent | was.Position
		}
		key := logKey(agency, n)
		if v := tx.get(bucketLog, key); v != nil {
			e, found = entry(key[len(key)-8:], v).event(agency), true
		}
		if found || was.Sequence != 0 {
			return nil
		}
		for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, unsent)) {
			l := entry(k, v)
			if l.position == was.Position {
				e, found = l.event(agency), true
			}
			if l.position != 0 && l.position <= was.Position {
				break
			}
		}
		return nil
	})
	return e, found, err
}

// Places are how far each log that the store knows reaches.
func (s *Store) Places() (map[string]Place, error) {
	return read(s, func(tx *Tx) map[string]Place {
		places := map[string]Place{}
		for name := range tx.ascend(bucketAgencies, nil, nil) {
			agency := string(name)
			places[agency] = Place{tx.LastSequence(agency), tx.lastPosition(agency)}
		}
		return places
	})
}

// Progress is how far the log of an agency is published.
type Progress struct {
	Cursor events.Cursor
	Unsent int       // events that the stream has not taken
	Oldest time.Time // when the first of them was recorded; zero if there is none
}

// Progress is that of agencies, in their order and of one moment.
func (s *Store) Progress(agencies ...string) ([]Progress, error) {
	return read(s, func(tx *Tx) (list []Progress) {
		for _, agency := range agencies {
			p := Progress{Cursor: tx.cursor(agency)}
			for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, unsent)) {
				l := entry(k, v)
				p.Unsent, p.Oldest = int(tx.lastPosition(agency)-l.position)+1, l.event(agency).RecordedTime
				break
			}
			list = append(list, p)
		}
		return list
	})
}

// CountUnsent says how many events of an agency the stream has not taken.
func (s *Store) CountUnsent(agency string) (int, error) {
	list, err := s.Progress(agency)
	if err != nil {
		return 0, err
	}
	return list[0].Unsent, nil
}
