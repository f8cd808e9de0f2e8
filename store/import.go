package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// What the stream holds and this store does not, because it is a restored backup or a new one, comes in by Import. Three
// things make that exact while others go on to write:
//
//   - The log continues with what was imported. Events of our own that nobody has seen yet, those behind the cursor, make
//     room (MakeRoom) and close up again behind it (CloseUp), less those that the stream holds already. Both go in small
//     transactions; how far they are is written down, and whoever opens the store next goes on.
//   - Of every imported event its id is kept, also when the log forgets the event. Append of the same id adds nothing.
//   - Of every insertion and contact request the last imported word is kept, until we say another one. It tells what is
//     found again from what happens again: a restored snapshot may find a change whose id is taken, though the stream has
//     heard of later ones since.

var (
	bucketImports  = []byte("imports")       // agency: how far the import is
	bucketImported = []byte("imported")      // agency 0x00 id: sequence
	bucketLastWord = []byte("imported_word") // agency 0x00 entity: lastWord
)

// MaxImport is the highest sequence that is imported: there is room to count on.
const MaxImport = 1 << 62

// lateArrival is how far before the last word of the stream a contact request may have been created that it has not heard of.
const lateArrival = 48 * time.Hour

// imports is what is remembered of an agency's import.
type imports struct {
	Oldest time.Time `json:"oldest,omitzero"` // recording of the imported events
	Newest time.Time `json:"newest,omitzero"`
	Up     *move     `json:"up,omitempty"`   // waiting events make room
	Down   *move     `json:"down,omitempty"` // waiting events close up
	Gaps   bool      `json:"gaps,omitempty"` // they have to
}

func (tx *Tx) imports(agency string) (m imports, exists bool, err error) {
	m, exists = getJSON[imports](tx, bucketImports, []byte(agency))
	return m, exists, nil
}

func (tx *Tx) putImports(agency string, m imports) error {
	return tx.putJSON(bucketImports, []byte(agency), m)
}

// Import takes over events of an agency that the stream holds and the log does not, in the order of the stream, and moves
// the cursor to c: they count as acknowledged. What waits behind the cursor makes room first. An event whose id was
// imported before is left out; one whose sequence is not above those of the published part of the log, and of all before it
// in the list, is remembered by its id alone. The rest is one commit. When all is imported, CloseUp has to follow.
func (s *Store) Import(agency string, list []events.Event, c events.Cursor) error {
	if len(list) == 0 {
		return s.SetCursor(agency, c)
	}
	last := highest(list)
	if last > MaxImport {
		return fmt.Errorf("import of %s: a sequence is out of all bounds", agency)
	}
	for {
		if err := s.MakeRoom(agency, last); err != nil {
			return err
		}
		err := s.update(func(tx *Tx) error { return tx.importEvents(agency, list, c) })
		if !errors.Is(err, errInTheWay) {
			return err
		}
	}
}

func highest(list []events.Event) (sequence uint64) {
	for _, e := range list {
		sequence = max(sequence, e.Sequence)
	}
	return sequence
}

// errInTheWay: somebody appended since room was made.
var errInTheWay = errors.New("events that wait are in the way")

func (tx *Tx) importEvents(agency string, list []events.Event, c events.Cursor) error {
	acknowledged, err := tx.acknowledged(agency)
	if err != nil {
		return err
	}
	if w := tx.firstAfter(agency, acknowledged); w != 0 && w <= highest(list) {
		return errInTheWay
	}
	m, _, err := tx.imports(agency)
	if err != nil {
		return err
	}
	top := acknowledged
	for _, e := range list {
		if tx.importedAs(agency, e.ID) != 0 {
			continue
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
	m.Gaps = m.Gaps || tx.firstAfter(agency, max(acknowledged, c.Sequence)) != 0
	if err := tx.putImports(agency, m); err != nil || c.Sequence < acknowledged {
		return err
	}
	return tx.setCursor(agency, c)
}

func (tx *Tx) importEvent(e events.Event, place bool) error {
	value, err := e.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("event %d of %s: %w", e.Sequence, e.AgencyID, err)
	}
	sequence := binary.BigEndian.AppendUint64(nil, e.Sequence)
	if err := tx.put(bucketImported, key(e.AgencyID, e.ID), sequence); err != nil {
		return err
	}
	if entity := e.Entity(); entity != "" {
		if err := tx.putLastWord(entity, e); err != nil {
			return err
		}
	}
	if !place {
		return nil
	}
	return tx.put(bucketLog, logKey(e.AgencyID, e.Sequence), value)
}

// importedAs is the sequence under which an id was imported, 0 if it was not.
func (tx *Tx) importedAs(agency, id string) uint64 {
	if v := tx.get(bucketImported, key(agency, id)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// lastWord is the last that the stream has told of an entity.
type lastWord struct {
	id, state string
	recorded  time.Time
}

func (tx *Tx) putLastWord(entity string, e events.Event) error {
	w := key(e.ID, e.State(), strconv.FormatInt(e.RecordedTime.UnixMilli(), 10))
	return tx.put(bucketLastWord, key(e.AgencyID, entity), w)
}

func (tx *Tx) lastWord(agency, entity string) (w lastWord, exists bool) {
	parts := strings.Split(string(tx.get(bucketLastWord, key(agency, entity))), "\x00")
	if len(parts) != 3 {
		return w, false
	}
	ms, err := strconv.ParseInt(parts[2], 10, 64)
	return lastWord{parts[0], parts[1], time.UnixMilli(ms)}, err == nil
}

// told decides about a stamped event of our own whether the stream has told it: then it returns the imported one. Where
// the id is taken, but by something that happened before, the event gets another one.
func (tx *Tx) told(e events.Event) (_ events.Event, told bool, err error) {
	sequence := tx.importedAs(e.AgencyID, e.ID)
	if e.Type == events.TypeContactRequestCreated || sequence != 0 && e.Type == events.TypeContactRequestRedacted {
		return tx.imported(e, sequence), sequence != 0, nil
	}
	entity := e.Entity()
	if entity == "" {
		return e, false, nil
	}
	if w, exists := tx.lastWord(e.AgencyID, entity); exists {
		known := w.id == e.ID || w.state != "" && w.state == e.State()
		outdated := sequence != 0 && !e.Time.After(w.recorded) // another store has seen it too, and more since
		if known || outdated {
			return tx.imported(e, tx.importedAs(e.AgencyID, w.id)), true, nil
		}
		if err := tx.delete(bucketLastWord, key(e.AgencyID, entity)); err != nil {
			return e, false, err
		}
	}
	if sequence != 0 {
		e = e.Again()
	}
	return e, false, nil
}

// imported returns the imported event, or, where the log has forgotten it, e as it was known.
func (tx *Tx) imported(e events.Event, sequence uint64) events.Event {
	if sequence == 0 {
		return e
	}
	var kept events.Event
	if v := tx.get(bucketLog, logKey(e.AgencyID, sequence)); v != nil && kept.UnmarshalJSON(v) == nil {
		return kept
	}
	e.Sequence = sequence
	return e
}

// WatchedBefore is the moment since which contact requests are news to an agency whose watch is begun by this store, but
// was begun by another one before: zero if it was not. It lies a little before the last that the stream heard of it.
func (tx *Tx) WatchedBefore(agency string) (time.Time, error) {
	m, _, err := tx.imports(agency)
	if since := m.Newest.Add(-lateArrival); !m.Newest.IsZero() && since.After(m.Oldest) {
		return since, err
	}
	return m.Oldest, err
}
