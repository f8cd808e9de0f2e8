package store

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// The stream may hold events that this store does not: the store is a restored backup, is on a machine that was set back, or is new.
// Import takes them over as published, under the sequences that they carry. Unsent events have no sequence, so they are in nobody's
// way.
//
// What the poller finds after that may have been published before. Two things are kept to tell it:
//
//   - The id of every imported event, also when the log forgets the event. An unsent event of that id is dropped.
//   - The last imported state of every insertion and contact request, and whether this store has published another one since. A
//     restored snapshot may lead to a change whose id is taken, though the stream holds later ones. What arrives late, because it
//     was sent late, is no last state where this store has published something since it was recorded.
//
// Both are looked up when an unsent event is about to be sent (Unsent), in the order of the log: by then the stream was read.
//
// The last imported state of an insertion also goes into the snapshot. So the next reading is compared with what the stream holds:
// an API that went to another state and back meanwhile makes a change, and one that lists again what the stream holds as gone makes
// a publication. For a contact request that is not possible: the snapshot has no record of it to compare with.

var (
	bucketImports   = []byte("imports")       // agency: when what was imported was recorded
	bucketImported  = []byte("imported")      // agency 0x00 id: sequence
	bucketLastState = []byte("imported_word") // agency 0x00 entity: lastState
)

// MaxImport is the highest sequence that is imported: there is room to count on.
const MaxImport = 1 << 62

// lateArrival is how long before the newest imported event a contact request may have been created that was not published.
const lateArrival = 48 * time.Hour

// imports is what is remembered of an agency's import.
type imports struct {
	Oldest time.Time `json:"oldest,omitzero"` // recording of the imported events
	Newest time.Time `json:"newest,omitzero"`
}

func (tx *Tx) imports(agency string) (m imports, exists bool) {
	return getJSON[imports](tx, bucketImports, []byte(agency))
}

// Import takes over events of an agency that the stream holds and the log does not, in the order of the stream, and moves
// the cursor to c, all in one commit. One whose sequence is not above those of the log, and of all before it in the list, is
// remembered by its id alone. One whose id was imported before moves to its new sequence, so that the log has each id that came
// in once, and always the event that the cursor names: the stream lost it, and another doorbell has sent it again.
func (s *Store) Import(agency string, list []events.Event, c events.Cursor) error {
	err := s.update(func(tx *Tx) error {
		m, _ := tx.imports(agency)
		top := tx.LastSequence(agency)
		if err := tx.noteOwnStates(agency, list, m); err != nil {
			return err
		}
		for _, e := range list {
			if e.Sequence == 0 || e.Sequence > MaxImport {
				return fmt.Errorf("import of %s: a sequence is out of all bounds", agency)
			}
			forgotten := tx.forgotten(e)
			if before := tx.importedAs(agency, e.ID); before != 0 {
				if e.Sequence <= top {
					continue
				}
				if _, there := tx.imported(agency, e.ID); there {
					if err := tx.delete(bucketLog, logKey(agency, before)); err != nil {
						return err
					}
				}
			}
			if err := tx.importEvent(e, e.Sequence > top, forgotten); err != nil {
				return err
			}
			top = max(top, e.Sequence)
			if m.Oldest.IsZero() || e.RecordedTime.Before(m.Oldest) {
				m.Oldest = e.RecordedTime
			}
			if e.RecordedTime.After(m.Newest) {
				m.Newest = e.RecordedTime
			}
		}
		if len(list) > 0 {
			if err := tx.putJSON(bucketImports, []byte(agency), m); err != nil {
				return err
			}
		}
		if c.Sequence < tx.cursor(agency).Sequence {
			return nil
		}
		return tx.setCursor(agency, c)
	})
	if err == nil && len(list) > 0 {
		s.imports.Add(1)
	}
	return err
}

// Imports counts what Import has taken over since the store was opened. What was read of a snapshot before may be another now.
func (s *Store) Imports() int64 { return s.imports.Load() }

func (tx *Tx) importEvent(e events.Event, place, forgotten bool) error {
	sequence := binary.BigEndian.AppendUint64(nil, e.Sequence)
	if err := tx.put(bucketImported, key(e.AgencyID, e.ID), sequence); err != nil {
		return err
	}
	entity := e.Entity()
	w, exists := tx.lastState(e.AgencyID, entity)
	last := !exists || w.store == e.StoreID || !e.RecordedTime.Before(w.recorded)
	if last {
		if err := tx.putLastState(entity, e, e.ID); err != nil {
			return err
		}
	}
	if !place {
		return nil
	}
	if last { // and behind all that the log has
		if err := tx.importState(e); err != nil {
			return err
		}
	}
	if forgotten {
		e = e.Erase()
	}
	e.Position = 0
	return tx.putEvent(e.Sequence, e)
}

// importState puts what an event says of an insertion into the snapshot: that it is gone, that it is back, or its record. A change
// of one that is gone is older than its end.
func (tx *Tx) importState(e events.Event) error {
	var p struct {
		Episode, Revision int
		Record            json.RawMessage
	}
	if !strings.HasPrefix(string(e.Type), "insertion.") || json.Unmarshal(e.Data, &p) != nil {
		return nil
	}
	i, known := tx.Insertion(e.AgencyID, e.Reference)
	if !known || i.Outside || p.Episode < i.Episode {
		return nil
	}
	if e.Type == events.TypeInsertionDisappeared {
		if i.GoneSince.IsZero() || p.Episode > i.Episode {
			i.Episode, i.GoneSince = p.Episode, e.RecordedTime
			return tx.PutInsertion(e.AgencyID, i)
		}
		return nil
	}
	next := p.Episode > i.Episode
	digest, noHash := hex.DecodeString(tx.store.digest(e.Type, p.Record))
	if noHash != nil || len(digest) != len(i.Digest) || !next && (!i.GoneSince.IsZero() || i.Digest == [32]byte(digest)) {
		return nil
	}
	if next {
		i.Episode, i.Revision = p.Episode, 0
		i.Missing, i.Moved, i.LastSeen, i.GoneSince = 0, false, time.Time{}, time.Time{}
	}
	i.Digest, i.Revision = [32]byte(digest), max(i.Revision, p.Revision)
	return errors.Join(tx.PutInsertion(e.AgencyID, i), tx.PutRecord(e.AgencyID, e.Reference, p.Record))
}

// Unsent returns the first events of an agency that the stream has not taken, in order: at most maxEvents, and no further ones
// once they hold maxBytes; but at least one if there is any. Those that were published before are dropped from the log. One whose
// id is taken, but by something that happened before, has another id than it was appended with.
func (s *Store) Unsent(agency string, maxEvents, maxBytes int) (found []events.Event, err error) {
	for {
		var dropped [][]byte
		err := s.change(s.update, func(tx *Tx) (bool, error) {
			found, dropped = tx.unsent(agency, maxEvents, maxBytes)
			return len(dropped) > 0 && !s.db.IsReadOnly(), nil
		}, func(tx *Tx) error {
			last := dropped[len(dropped)-1]
			c := tx.cursor(agency)
			c.Position = max(c.Position, binary.BigEndian.Uint64(last[len(last)-8:])-unsent)
			return errors.Join(tx.delete(bucketLog, dropped...), tx.setCursor(agency, c))
		})
		if err != nil || len(found) > 0 || len(dropped) == 0 || s.db.IsReadOnly() {
			return found, err
		}
	}
}

// unsent returns the first events that were not published before, up to the next one that was, and the keys of those that are to
// be dropped in front of them.
func (tx *Tx) unsent(agency string, maxEvents, maxBytes int) (found []events.Event, dropped [][]byte) {
	_, imported := tx.imports(agency)
	states := map[string]string{} // in which the events that were found leave their entities
	size := 0
	for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		if size += len(v); len(found)+len(dropped) > 0 && (len(found)+len(dropped) >= maxEvents || size > maxBytes) {
			break
		}
		e := entry(k, v).event(agency)
		if imported {
			now, known := tx.publishedBefore(e, states)
			if known && len(found) > 0 {
				break
			}
			if known {
				dropped = append(dropped, logKey(agency, unsent|e.Position))
				continue
			}
			e = now
			states[e.Entity()] = e.State(tx.store.digest)
		}
		found = append(found, e)
	}
	return found, dropped
}

// publishedBefore decides whether the stream holds what an unsent event says. Where its id is taken, but by something that happened
// before, the event gets another one. An event may also say what this store has published already, if it was found in a snapshot
// that an import had changed. In states are those that count instead of the last ones.
func (tx *Tx) publishedBefore(e events.Event, states map[string]string) (_ events.Event, before bool) {
	taken := tx.importedAs(e.AgencyID, e.ID) != 0
	if e.Type == events.TypeContactRequestCreated || e.Type == events.TypeContactRequestRedacted && taken {
		return e, taken
	}
	entity := e.Entity()
	if entity == "" {
		return e, taken
	}
	w, _ := tx.lastState(e.AgencyID, entity)
	if state, found := states[entity]; found {
		w = lastState{state: state}
	}
	if last, there := tx.imported(e.AgencyID, w.id); there { // as it is compared now
		w.state = cmp.Or(last.State(tx.store.digest), w.state) // an erased one has none
	}
	known := w.id == e.ID || w.state != "" && w.state == e.State(tx.store.digest)
	outdated := w.id != "" && taken && !e.Time.After(w.recorded) && !tx.setBack(e, w) // another store has seen it too, and more since
	if known || outdated {
		return e, true
	}
	for tx.importedAs(e.AgencyID, e.ID) != 0 {
		e = e.Again()
	}
	return e, false
}

// setBack says whether an event whose id is taken was found after this store was set back: what has the id is of the same store,
// and another entry of its log. The clock of a machine may be set back with it, so times do not tell which of them was first.
func (tx *Tx) setBack(e events.Event, w lastState) bool {
	before, there := tx.imported(e.AgencyID, e.ID)
	return there && w.store == e.StoreID && !before.RecordedTime.Equal(e.RecordedTime)
}

// noteState notes that the last state of what an event is about is published by this store, and returns the entry of the event,
// whose id may be another one than it was appended with.
func (tx *Tx) noteState(e events.Event) ([]byte, error) {
	if err := tx.putLastState(e.Entity(), e, ""); err != nil {
		return nil, err
	}
	return encodeEvent(e)
}

// mostNoted bounds how many events of the log noteOwnStates reads: others wait for its transaction, and the clock of another doorbell
// may be years slow.
const mostNoted = 2000

// noteOwnStates notes the states that this store has published since the first event of a list was recorded, as far as no earlier
// import has.
func (tx *Tx) noteOwnStates(agency string, list []events.Event, m imports) error {
	var since time.Time
	for i, e := range list {
		if i == 0 || e.RecordedTime.Before(since) {
			since = e.RecordedTime
		}
	}
	if len(list) == 0 || !m.Oldest.IsZero() && !since.Before(m.Oldest) {
		return nil
	}
	left := mostNoted
	for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		l := entry(k, v)
		if l.position == 0 {
			continue // it came in by Import
		}
		e := l.event(agency)
		if left--; left < 0 || e.RecordedTime.Before(since) {
			break
		}
		entity := e.Entity()
		if _, exists := tx.lastState(agency, entity); exists {
			continue
		}
		if err := tx.putLastState(entity, e, ""); err != nil {
			return err
		}
	}
	return nil
}

// importedAs is the sequence under which an id was imported, 0 if it was not.
func (tx *Tx) importedAs(agency, id string) uint64 {
	if v := tx.get(bucketImported, key(agency, id)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// imported is what was imported under an id, if the log still has it.
func (tx *Tx) imported(agency, id string) (e events.Event, there bool) {
	k := logKey(agency, tx.importedAs(agency, id))
	v := tx.get(bucketLog, k)
	if v == nil {
		return e, false
	}
	e = entry(k[len(k)-8:], v).event(agency)
	return e, e.ID == id
}

// lastState is the last published state of an entity. It has no id where this store has published it. The state is kept as it was
// then: the log may not have the event any more, or never had it.
type lastState struct {
	id, store, state string
	recorded         time.Time
}

func (tx *Tx) putLastState(entity string, e events.Event, id string) error {
	if entity == "" {
		return nil
	}
	w := key(id, e.StoreID, e.State(tx.store.digest), strconv.FormatInt(e.RecordedTime.UnixMilli(), 10))
	return tx.put(bucketLastState, key(e.AgencyID, entity), w)
}

func (tx *Tx) lastState(agency, entity string) (w lastState, exists bool) {
	parts := strings.Split(string(tx.get(bucketLastState, key(agency, entity))), "\x00")
	if len(parts) != 4 {
		return w, false
	}
	ms, err := strconv.ParseInt(parts[3], 10, 64)
	return lastState{parts[0], parts[1], parts[2], time.UnixMilli(ms)}, err == nil
}

// WatchedBefore is the moment since which contact requests are news to an agency whose watch is begun by this store, but
// was begun by another one before: zero if it was not. It lies a little before the newest event in the stream.
func (tx *Tx) WatchedBefore(agency string) time.Time {
	m, _ := tx.imports(agency)
	if since := m.Newest.Add(-lateArrival); !m.Newest.IsZero() && since.After(m.Oldest) {
		return since
	}
	return m.Oldest
}
