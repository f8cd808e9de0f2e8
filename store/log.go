package store

import (
	"encoding/binary"
	"fmt"

	"doorbell/events"
)

// Append adds an event, made by events.New, to its agency's log and returns it with its sequence, time of record and id. Of what the stream has
// told already, see Import, it returns that event and adds nothing.
func (tx *Tx) Append(e events.Event) (events.Event, error) {
	last := tx.LastSequence(e.AgencyID)
	_, imported, err := tx.imports(e.AgencyID)
	if err != nil {
		return e, err
	}
	if imported {
		acknowledged, err := tx.acknowledged(e.AgencyID)
		if err != nil {
			return e, err
		}
		last = max(last, acknowledged)
	}
	e = e.Stamp(last+1, tx.store.now(), tx.store.meta.StoreID)
	if imported {
		var told bool
		if e, told, err = tx.told(e); err != nil || told {
			return e, err
		}
	}
	value, err := e.AppendJSON(nil)
	if err != nil {
		return e, fmt.Errorf("event %s of %s: %w", e.Type, e.AgencyID, err)
	}
	if tx.appended == nil {
		tx.appended = map[string]struct{}{}
	}
	tx.appended[e.AgencyID] = struct{}{}
	return e, tx.put(bucketLog, logKey(e.AgencyID, e.Sequence), value)
}

// LastSequence is the newest sequence of an agency's log, 0 if it is empty.
func (tx *Tx) LastSequence(agency string) uint64 {
	for k := range tx.descend(bucketLog, prefix(agency), logKey(agency, ^uint64(0))) {
		return binary.BigEndian.Uint64(k)
	}
	return 0
}

func logKey(agency string, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(agency), sequence)
}

// Append adds one event to the log in a transaction of its own, also when the store holds all that it may.
func (s *Store) Append(e events.Event) error {
	return s.update(func(tx *Tx) error {
		_, err := tx.Append(e)
		return err
	})
}

// Read returns events of an agency in order, from the one after the given sequence: at most maxEvents, and no further
// ones once they hold maxBytes; but at least one if there is any.
func (s *Store) Read(agency string, after uint64, maxEvents, maxBytes int) (found []events.Event, err error) {
	err = s.View(func(tx *Tx) error {
		found, err = tx.read(agency, after, maxEvents, maxBytes)
		return err
	})
	return found, err
}

func (tx *Tx) read(agency string, after uint64, maxEvents, maxBytes int) (found []events.Event, err error) {
	size := 0
	for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, after+1)) {
		if size += len(v); len(found) > 0 && (len(found) >= maxEvents || size > maxBytes) {
			return found, nil
		}
		var e events.Event
		if err := e.UnmarshalJSON(v); err != nil {
			return nil, fmt.Errorf("%w: event %d of %s", ErrDamaged, binary.BigEndian.Uint64(k), agency)
		}
		found = append(found, e)
	}
	return found, nil
}

// Last is the newest sequence of an agency's log, 0 if it is empty.
func (s *Store) Last(agency string) (sequence uint64, err error) {
	err = s.View(func(tx *Tx) error {
		sequence = tx.LastSequence(agency)
		return nil
	})
	return sequence, err
}

// Cursor says how far an agency's log is published.
func (s *Store) Cursor(agency string) (events.Cursor, error) {
	var c events.Cursor
	err := s.View(func(tx *Tx) (err error) {
		c, err = tx.cursor(agency)
		return err
	})
	return c, err
}

// SetCursor moves an agency's cursor, durably, also when the store holds all that it may: it is what makes room.
func (s *Store) SetCursor(agency string, c events.Cursor) error {
	return s.update(func(tx *Tx) error { return tx.setCursor(agency, c) })
}
