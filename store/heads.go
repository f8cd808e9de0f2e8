package store

import (
	"encoding/binary"
	"time"

	"doorbell/events"
)

// HeadsAfter returns the heads of at most so many events of an agency in order, from the one after the given sequence. Payloads
// are not read. Of an event that cannot be read it knows the sequence alone.
func (s *Store) HeadsAfter(agency string, after uint64, most int) (heads []events.Head, err error) {
	err = s.View(func(tx *Tx) error {
		for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, after+1)) {
			if len(heads) >= most {
				break
			}
			heads = append(heads, headOf(k, v))
		}
		return nil
	})
	return heads, err
}

// HeadsBefore is HeadsAfter downwards, from the one before the given sequence.
func (s *Store) HeadsBefore(agency string, before uint64, most int) (heads []events.Head, err error) {
	err = s.View(func(tx *Tx) error {
		for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, before)) {
			if len(heads) >= most {
				break
			}
			heads = append(heads, headOf(k, v))
		}
		return nil
	})
	return heads, err
}

// NewestHeads are the heads of the newest event of each agency that the store knows; the zero value where the log is empty.
func (s *Store) NewestHeads() (heads map[string]events.Head, err error) {
	heads = map[string]events.Head{}
	err = s.View(func(tx *Tx) error {
		for name := range tx.ascend(bucketAgencies, nil, nil) {
			agency := string(name)
			heads[agency] = events.Head{}
			for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, ^uint64(0))) {
				heads[agency] = headOf(k, v)
				break
			}
		}
		return nil
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
		for _, agency := range agencies {
			p := Position{Last: tx.LastSequence(agency)}
			p.Cursor, _ = getJSON[events.Cursor](tx, bucketCursors, []byte(agency))
			if p.Last > p.Cursor.Sequence {
				for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, p.Cursor.Sequence+1)) {
					p.Waiting = headOf(k, v).RecordedTime
					break
				}
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// headOf reads an entry of the log.
func headOf(sequence, v []byte) events.Head {
	h, err := events.DecodeHead(v)
	if err != nil {
		return events.Head{Sequence: binary.BigEndian.Uint64(sequence)}
	}
	h.Sequence = binary.BigEndian.Uint64(sequence)
	return h
}
