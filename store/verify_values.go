package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"

	"doorbell/events"
)

// verifier reads every value of a store.
type verifier struct {
	ctx  context.Context
	tx   *Tx
	r    *Report
	logs map[string]span
	read int
}

// span is what a log holds.
type span struct {
	first, last uint64
	ids         map[uint64]string // of the cursor's event
}

// values reads bucket after bucket. The error is that of the context.
func (v *verifier) values() error {
	for _, b := range []struct {
		name  []byte
		visit func(k, value []byte)
	}{
		{bucketAgencies, v.agency},
		{bucketFieldNames, v.fieldNames},
		{bucketForms, v.forms},
		{bucketInsertions, v.insertion},
		{bucketRecords, v.record},
		{bucketContactRequests, v.oldContactRequest},
		{bucketContacts, v.contacts()},
		{bucketLog, v.event},
		{bucketCursors, v.cursor},
		{bucketHalts, v.json("a halt", new(Halt))},
		{bucketTroubles, v.json("a trouble", new(Trouble))},
		{bucketSchedule, v.schedule},
		{bucketImports, v.json("the import", new(imports))},
		{bucketImported, v.importedID},
		{bucketLastWord, v.lastWord},
	} {
		if err := v.each(b.name, b.visit); err != nil {
			return err
		}
	}
	return nil
}

// each visits a bucket; one that is not there is made at the next start.
func (v *verifier) each(name []byte, visit func(k, value []byte)) error {
	return v.tx.scan(name, nil, func(k, value []byte) error {
		if v.read++; v.read%1000 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		visit(k, value)
		return nil
	})
}

// parts splits a key into n parts of which the last may hold anything.
func parts(k []byte, n int) ([]string, bool) {
	split := bytes.SplitN(k, []byte{0}, n)
	all := make([]string, len(split))
	for i, p := range split {
		all[i] = string(p)
	}
	return all, len(all) == n && all[0] != ""
}

// agencyOf is the agency that a key begins with.
func agencyOf(k []byte) string {
	agency, _, _ := bytes.Cut(k, []byte{0})
	return string(agency)
}

func (v *verifier) agency(k, value []byte) {
	v.r.Agencies++
	if json.Unmarshal(value, new(Agency)) != nil {
		v.r.find("what is remembered of agency %q cannot be read", k)
	}
}

func (v *verifier) json(what string, into any) func(k, value []byte) {
	return func(k, value []byte) {
		if json.Unmarshal(value, into) != nil {
			v.r.find("%s of agency %q cannot be read", what, agencyOf(k))
		}
	}
}

func (v *verifier) fieldNames(k, _ []byte) {
	if _, err := v.tx.fieldNames(string(k)); err != nil {
		v.r.find("the names of the fields of agency %q cannot be read", k)
	}
}

func (v *verifier) forms(k, _ []byte) {
	if _, err := v.tx.forms(string(k)); err != nil {
		v.r.find("the forms of contact requests of agency %q cannot be read, or name fields that are not there", k)
	}
}

func (v *verifier) insertion(k, value []byte) {
	v.r.Insertions++
	at, ok := parts(k, 2)
	if _, err := decodeInsertion("", value); err != nil || !ok {
		v.r.find("insertion %q of agency %q cannot be read", at[len(at)-1], at[0])
	}
}

func (v *verifier) record(k, value []byte) {
	if at, ok := parts(k, 2); !ok || !json.Valid(value) {
		v.r.find("the record of insertion %q of agency %q is no JSON", at[len(at)-1], at[0])
	}
}

func (v *verifier) oldContactRequest(k, value []byte) {
	v.r.ContactRequests++
	at, ok := parts(k, 3)
	if ok {
		names, err := v.tx.fieldNames(at[0])
		if err == nil {
			_, err = decodeOld(at[2], value, names)
		}
		ok = err == nil
	}
	if !ok {
		v.r.find("a contact request of agency %q cannot be read", at[0])
	}
}

// contacts reads the entries of contact requests, which are numbered without gaps within an insertion.
func (v *verifier) contacts() func(k, value []byte) {
	below, next := "", 0
	return func(k, value []byte) {
		at, ok := parts(k, 3)
		if !ok || len(at[2]) != 2 {
			v.r.find("an entry of contact requests of agency %q has an unreadable key", agencyOf(k))
			return
		}
		if place := at[0] + "\x00" + at[1]; place != below {
			below, next = place, 0
		}
		number := int(binary.BigEndian.Uint16([]byte(at[2])))
		if number != next {
			v.r.find("contact requests of insertion %q of agency %q are missing", at[1], at[0])
		}
		next = number + 1
		names, err := v.tx.fieldNames(at[0])
		if err != nil {
			return // is said already
		}
		known, err := v.tx.forms(at[0])
		if err != nil {
			return
		}
		list, _, err := decodeChunk(nil, value, names, known)
		v.r.ContactRequests += len(list)
		if err != nil {
			v.r.find("contact requests of insertion %q of agency %q cannot be read", at[1], at[0])
		}
	}
}

func (v *verifier) event(k, value []byte) {
	v.r.Events++
	n := len(k) - 9
	if n < 1 || k[n] != 0 {
		v.r.find("an event has an unreadable key")
		return
	}
	agency, sequence := string(k[:n]), binary.BigEndian.Uint64(k[n+1:])
	s, known := v.logs[agency]
	if !known {
		s.first = sequence
		s.ids = map[uint64]string{}
	}
	var e events.Event
	if e.UnmarshalJSON(value) != nil || e.AgencyID != agency || e.Sequence != sequence {
		v.r.find("event %d of agency %q cannot be read", sequence, agency)
	}
	if known && sequence != s.last+1 && !v.importing(agency) && !v.imported(agency, e.ID) {
		v.r.find("the log of agency %q has a gap: %d is followed by %d", agency, s.last, sequence)
	}
	if c, err := v.tx.cursor(agency); err == nil && c.Sequence == sequence {
		s.ids[sequence] = e.ID
	}
	s.last = sequence
	v.logs[agency] = s
}

// imported says whether the stream has told an event: it may have forgotten the one before it.
func (v *verifier) imported(agency, id string) bool {
	b := v.tx.bucket(bucketImported)
	return b != nil && b.Get(key(agency, id)) != nil
}

// importing says whether events of an agency are being moved to let in those of the stream: its log has gaps meanwhile.
func (v *verifier) importing(agency string) bool {
	b := v.tx.bucket(bucketImports)
	if b == nil {
		return false
	}
	var state struct {
		Up, Down json.RawMessage
		Gaps     bool
	}
	return json.Unmarshal(b.Get([]byte(agency)), &state) == nil && (state.Up != nil || state.Down != nil || state.Gaps)
}

func (v *verifier) cursor(k, _ []byte) {
	c, err := v.tx.cursor(string(k))
	if err != nil {
		v.r.find("the cursor of agency %q cannot be read", k)
		return
	}
	s := v.logs[string(k)]
	switch {
	case c.Sequence == 0:
	case c.Sequence < s.first || c.Sequence > s.last:
		v.r.find("the cursor of agency %q is at %d, and its log goes from %d to %d", k, c.Sequence, s.first, s.last)
	case s.ids[c.Sequence] != c.ID:
		v.r.find("the cursor of agency %q names another event than its log has at %d", k, c.Sequence)
	}
}

func (v *verifier) schedule(k, value []byte) {
	n := len(k) - 5
	if n < 1 || k[n] != 0 || len(value) < scheduleHead || value[0] != scheduleVersion ||
		crc32.ChecksumIEEE(value[scheduleHead:]) != binary.BigEndian.Uint32(value[1:]) {
		v.r.find("what the schedule of agency %q has learned cannot be read; it learns it anew", agencyOf(k))
	}
}

// importedID reads an id that the stream has told, with its sequence.
func (v *verifier) importedID(k, value []byte) {
	if at, ok := parts(k, 2); !ok || at[1] == "" || len(value) != 8 || binary.BigEndian.Uint64(value) > MaxImport {
		v.r.find("an id that the stream has told of agency %q cannot be read", agencyOf(k))
	}
}

// lastWord reads the last that the stream has told of an insertion or a contact request.
func (v *verifier) lastWord(k, _ []byte) {
	at, ok := parts(k, 2)
	if ok {
		_, ok = v.tx.lastWord(at[0], at[1])
	}
	if !ok {
		v.r.find("what the stream has told last of something of agency %q cannot be read", agencyOf(k))
	}
}
