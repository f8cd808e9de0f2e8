package store

import (
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

// What the stream holds and this store does not, because it is a restored backup, a machine that was set back, or a new one,
// comes in by Import, as published and under the numbers that it carries. Unsent events have no number, so they are in nobody's
// way. What is remembered beside the events tells what is found again from what happens again:
//
//   - Of every imported event its id, also when the log forgets the event. An unsent event of that id is dropped.
//   - Of every insertion and contact request the last imported word, and when we said another one after it. A restored snapshot
//     may find a change whose id is taken, though the stream has heard of later ones since. What is imported late, as it was sent
//     late, is no last word where we have said something since it was recorded.
//
// Both are asked when an unsent event is about to be sent (Unsent), in the order of the log: by then the stream was read.
//
// Of an insertion, the last imported word also becomes what the snapshot has: the next reading is compared with what the stream was
// told, so that an API which went to a state and back meanwhile makes a change, and one that lists again what the stream took for
// gone makes a publication. Of a contact request it does not: the snapshot has no
// record that an older one could be compared with.

var (
	bucketImports   = []byte("imports")       // agency: when what was imported was recorded
	bucketImported  = []byte("imported")      // agency 0x00 id: sequence
	bucketLastState = []byte("imported_word") // agency 0x00 entity: lastWord
)

// MaxImport is the highest sequence that is imported: there is room to count on.
const MaxImport = 1 << 62

// lateArrival is how far before the last word of the stream a contact request may have been created that it has not heard of.
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
		if err := tx.markSaid(agency, list, m); err != nil {
			return err
		}
		for _, e := range list {
			if e.Sequence == 0 || e.Sequence > MaxImport {
				return fmt.Errorf("import of %s: a sequence is out of all bounds", agency)
			}
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
			if err := tx.importEvent(e, e.Sequence > top); err != nil {
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

func (tx *Tx) importEvent(e events.Event, place bool) error {
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
	e.Position = 0
	return tx.putEvent(e.Sequence, e)
}

// importState makes what the stream was told of an insertion what is remembered of it: that it is gone, that it is back, or what it is.
// A change of one that is gone is older than its end.
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
// once they hold maxBytes; but at least one if there is any. Those that the stream has told are dropped from the log. One whose
// id is taken, but by something that happened before, has another id than it was appended with.
func (s *Store) Unsent(agency string, maxEvents, maxBytes int) ([]events.Event, error) {
	for {
		var found []events.Event
		var told [][]byte
		err := s.View(func(tx *Tx) error {
			found, told = tx.unsent(agency, maxEvents, maxBytes)
			return nil
		})
		if err != nil || len(told) == 0 || s.db.IsReadOnly() {
			return found, err
		}
		err = s.update(func(tx *Tx) error {
			last := told[len(told)-1]
			position := binary.BigEndian.Uint64(last[len(last)-8:]) - unsent
			if err := tx.delete(bucketLog, told...); err != nil {
				return err
			}
			c := tx.cursor(agency)
			c.Position = max(c.Position, position)
			return tx.setCursor(agency, c)
		})
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
}

// unsent returns events from the first one on that was not told, up to the next that was, and the keys of those before it.
func (tx *Tx) unsent(agency string, maxEvents, maxBytes int) (found []events.Event, told [][]byte) {
	_, imported := tx.imports(agency)
	words := map[string]string{} // the states in which the events that were found leave their entities
	size := 0
	for k, v := range tx.ascend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		if size += len(v); len(found)+len(told) > 0 && (len(found)+len(told) >= maxEvents || size > maxBytes) {
			break
		}
		e := entry(k, v).event()
		if imported {
			now, known := tx.told(e, words)
			if known && len(found) > 0 {
				break
			}
			if known {
				told = append(told, logKey(agency, unsent|e.Position))
				continue
			}
			e = now
			words[e.Entity()] = e.State(tx.store.digest)
		}
		found = append(found, e)
	}
	return found, told
}

// told decides about an unsent event whether the stream has told it. Where the id is taken, but by something that happened
// before, the event gets another one. Who found it after we had said the same has read a snapshot that an import had changed. In said
// are states that count instead of the last words.
func (tx *Tx) told(e events.Event, said map[string]string) (_ events.Event, told bool) {
	taken := tx.importedAs(e.AgencyID, e.ID) != 0
	if e.Type == events.TypeContactRequestCreated || e.Type == events.TypeContactRequestRedacted && taken {
		return e, taken
	}
	entity := e.Entity()
	if entity == "" {
		return e, taken
	}
	w, _ := tx.lastState(e.AgencyID, entity)
	if state, found := said[entity]; found {
		w = lastState{state: state}
	}
	if last, there := tx.imported(e.AgencyID, w.id); there { // as it is compared now
		w.state = last.State(tx.store.digest)
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

// said is the entry of an event whose id may be another one than it was appended with. It notes that we have said the last word
// about what the event is about.
func (tx *Tx) said(e events.Event) ([]byte, error) {
	if err := tx.putLastState(e.Entity(), e, ""); err != nil {
		return nil, err
	}
	return encodeEvent(e)
}

// mostMarked bounds how many events of the log markSaid reads: others wait for its transaction, and the clock of another doorbell
// may be years slow.
const mostMarked = 2000

// markSaid notes what we have said since the first event of a list was recorded, as far as no import has let it be noted.
func (tx *Tx) markSaid(agency string, list []events.Event, m imports) error {
	var since time.Time
	for i, e := range list {
		if i == 0 || e.RecordedTime.Before(since) {
			since = e.RecordedTime
		}
	}
	if len(list) == 0 || !m.Oldest.IsZero() && !since.Before(m.Oldest) {
		return nil
	}
	left := mostMarked
	for k, v := range tx.descend(bucketLog, prefix(agency), logKey(agency, unsent)) {
		l := entry(k, v)
		if l.position == 0 {
			continue // it came in by Import
		}
		e := l.event()
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
	e = entry(k[len(k)-8:], v).event()
	return e, e.ID == id
}

// lastState is the last that the stream has told of an entity. It has no id where we have said it. The state is that of when it came
// in, or was said: the log may not have the event any more, or never had it.
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
// was begun by another one before: zero if it was not. It lies a little before the last that the stream heard of it.
func (tx *Tx) WatchedBefore(agency string) time.Time {
	m, _ := tx.imports(agency)
	if since := m.Newest.Add(-lateArrival); !m.Newest.IsZero() && since.After(m.Oldest) {
		return since
	}
	return m.Oldest
}
