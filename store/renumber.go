package store

import (
	"encoding/binary"
	"fmt"

	"doorbell/events"
)

// Limits of one transaction.
const (
	moveEvents = 256
	moveBytes  = 1 << 20
)

// move is a renumbering under way.
type move struct {
	After uint64 `json:"after"`        // up: only events behind it are moved; down: the last that has its place
	By    uint64 `json:"by,omitempty"` // up: how far
	Next  uint64 `json:"next"`         // up: the highest that was not moved yet; down: the highest that was
}

// MakeRoom moves the events that wait behind the cursor until sequences up to upTo are free, if any of them are not.
// CloseUp has to follow.
func (s *Store) MakeRoom(agency string, upTo uint64) error { return s.renumber(agency, room(upTo)) }

// CloseUp lets the events that wait follow the cursor without a gap, and drops those that the stream has told.
func (s *Store) CloseUp(agency string) error { return s.renumber(agency, closed()) }

// renumbering is a state of the waiting events, and how to begin to bring it about.
type renumbering struct {
	reached func(tx *Tx, agency string, m imports) (bool, error)
	begin   func(tx *Tx, agency string, m *imports) error
}

func room(upTo uint64) renumbering {
	inTheWay := func(tx *Tx, agency string) (uint64, error) {
		acknowledged, err := tx.acknowledged(agency)
		if w := tx.firstAfter(agency, acknowledged); w <= upTo {
			return w, err
		}
		return 0, err
	}
	return renumbering{
		reached: func(tx *Tx, agency string, m imports) (bool, error) {
			w, err := inTheWay(tx, agency)
			return m.Up == nil && m.Down == nil && w == 0, err
		},
		begin: func(tx *Tx, agency string, m *imports) error {
			w, err := inTheWay(tx, agency)
			if err != nil || w == 0 {
				return err
			}
			m.Up, m.Gaps = &move{After: w - 1, By: upTo + 1 - w, Next: tx.LastSequence(agency)}, true
			return tx.moveUp(agency, m)
		},
	}
}

func closed() renumbering {
	return renumbering{
		reached: func(_ *Tx, _ string, m imports) (bool, error) { return m.Up == nil && m.Down == nil && !m.Gaps, nil },
		begin: func(tx *Tx, agency string, m *imports) error {
			acknowledged, err := tx.acknowledged(agency)
			if err != nil {
				return err
			}
			m.Down = &move{After: acknowledged, Next: acknowledged}
			return tx.moveDown(agency, m)
		},
	}
}

// renumber works in small transactions until the state is reached. What an earlier call left unfinished comes first.
func (s *Store) renumber(agency string, r renumbering) error {
	for {
		if done, err := s.renumberStep(agency, r); err != nil || done {
			return err
		}
	}
}

func (s *Store) renumberStep(agency string, r renumbering) (done bool, err error) {
	err = s.View(func(tx *Tx) error {
		m, _, err := tx.imports(agency)
		if err == nil {
			done, err = r.reached(tx, agency, m)
		}
		return err
	})
	if err != nil || done {
		return done, err
	}
	return false, s.update(func(tx *Tx) error { return tx.renumber(agency, r) })
}

func (tx *Tx) renumber(agency string, r renumbering) error {
	m, _, err := tx.imports(agency)
	if err != nil {
		return err
	}
	switch {
	case m.Up != nil:
		err = tx.moveUp(agency, &m)
	case m.Down != nil:
		err = tx.moveDown(agency, &m)
	default:
		err = r.begin(tx, agency, &m)
	}
	if err != nil {
		return err
	}
	return tx.putImports(agency, m)
}

// moveUp gives the highest events that were not moved yet their new places, from above, so that none is in the way.
func (tx *Tx) moveUp(agency string, m *imports) error {
	chunk, err := tx.below(agency, m.Up.Next, m.Up.After)
	if err != nil {
		return err
	}
	for _, e := range chunk {
		m.Up.Next = e.Sequence - 1
		if err := tx.replace(e, e.Sequence+m.Up.By); err != nil {
			return err
		}
	}
	if len(chunk) == 0 || m.Up.Next <= m.Up.After {
		m.Up = nil
	}
	return nil
}

// moveDown lets the lowest events that were not moved yet follow those that were.
func (tx *Tx) moveDown(agency string, m *imports) error {
	chunk, err := tx.read(agency, m.Down.Next, moveEvents, moveBytes)
	if err != nil {
		return err
	}
	for _, e := range chunk {
		m.Down.Next = e.Sequence
		was := e.Sequence
		e.Sequence = m.Down.After + 1
		now, told, err := tx.told(e)
		if err != nil {
			return err
		}
		if told {
			if err := tx.delete(bucketLog, logKey(agency, was)); err != nil {
				return err
			}
			continue
		}
		now.Sequence = was
		m.Down.After++
		if now.Sequence == m.Down.After && now.ID == e.ID {
			continue
		}
		if err := tx.replace(now, m.Down.After); err != nil {
			return err
		}
	}
	if tx.firstAfter(agency, m.Down.Next) == 0 {
		m.Down, m.Gaps = nil, false
	}
	return nil
}

// replace puts an event of the log to another place.
func (tx *Tx) replace(e events.Event, sequence uint64) error {
	if err := tx.delete(bucketLog, logKey(e.AgencyID, e.Sequence)); err != nil {
		return err
	}
	e.Sequence = sequence
	value, err := e.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("event %d of %s: %w", sequence, e.AgencyID, err)
	}
	return tx.put(bucketLog, logKey(e.AgencyID, sequence), value)
}

// below reads events downwards, from a sequence to the one above the last: as many as one transaction may move.
func (tx *Tx) below(agency string, from, after uint64) (found []events.Event, err error) {
	size := 0
	for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, from+1)) {
		sequence := binary.BigEndian.Uint64(k)
		if size += len(v); sequence <= after || len(found) >= moveEvents || len(found) > 0 && size > moveBytes {
			return found, nil
		}
		var e events.Event
		if err := e.UnmarshalJSON(v); err != nil {
			return nil, fmt.Errorf("%w: event %d of %s", ErrDamaged, sequence, agency)
		}
		e.AgencyID = agency
		found = append(found, e)
	}
	return found, nil
}

// firstAfter is the lowest sequence of an agency's log above another, 0 if there is none.
func (tx *Tx) firstAfter(agency string, after uint64) uint64 {
	for k := range tx.ascend(bucketLog, prefix(agency), logKey(agency, after+1)) {
		return binary.BigEndian.Uint64(k)
	}
	return 0
}

// acknowledged is the sequence of an agency's cursor.
func (tx *Tx) acknowledged(agency string) (uint64, error) {
	c, err := tx.cursor(agency)
	return c.Sequence, err
}

func (tx *Tx) setCursor(agency string, c events.Cursor) error {
	return tx.putJSON(bucketCursors, []byte(agency), c)
}
