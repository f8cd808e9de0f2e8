package store

import (
	"bytes"
	"context"
	"encoding/binary"

	"doorbell/events"
)

// verifier holds every entry of a store against its seal, and the logs and cursors against each other.
type verifier struct {
	ctx  context.Context
	tx   *Tx
	r    *Report
	logs map[string]span
	most int64 // entries that the file has room for
}

// span is what a log holds.
type span struct{ first, last uint64 }

// values reads bucket after bucket. The error is that of the context.
func (v *verifier) values() error {
	for _, name := range buckets {
		visit := v.log
		switch count := v.counted(name); {
		case count != nil:
			visit = func(_, _ []byte) { *count++ }
		case bytes.Equal(name, bucketContacts):
			visit = v.contacts
		case bytes.Equal(name, bucketCursors):
			visit = v.cursor
		case !bytes.Equal(name, bucketLog):
			visit = func(_, _ []byte) {}
		}
		if err := v.each(name, visit); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) counted(name []byte) *int {
	switch {
	case bytes.Equal(name, bucketAgencies):
		return &v.r.Agencies
	case bytes.Equal(name, bucketInsertions):
		return &v.r.Insertions
	}
	return nil
}

// each visits the entries of a bucket whose seal holds, and says which do not.
func (v *verifier) each(name []byte, visit func(k, payload []byte)) error {
	c := v.tx.bucket(name).Cursor()
	var before []byte
	for k, value := c.First(); k != nil; k, value = c.Next() {
		if v.most--; v.most < 0 {
			panic(damagef("its pages lead in a circle"))
		}
		if v.most%1000 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		switch {
		case !holds(name, before, k, value):
			v.r.find("an entry of %s of agency %q does not hold what was written, or the one before it is missing", name, agencyOf(k))
		case !bytes.Equal(k, endMark):
			visit(k, value[sealSize:])
		}
		before = k
	}
	if !bytes.Equal(before, endMark) {
		v.r.find("the end of %s is missing", name)
	}
	return nil
}

// agencyOf is the agency that a key begins with, as far as a finding has room for it.
func agencyOf(k []byte) string {
	agency, _, _ := bytes.Cut(k, []byte{0})
	return string(agency[:min(len(agency), 64)])
}

func (v *verifier) contacts(_, payload []byte) {
	r := &reader{b: payload}
	v.r.ContactRequests += r.int()
}

func (v *verifier) log(k, _ []byte) {
	v.r.Events++
	agency, sequence := string(k[:len(k)-9]), binary.BigEndian.Uint64(k[len(k)-8:])
	s, known := v.logs[agency]
	if !known {
		s.first = sequence
	}
	s.last = sequence
	v.logs[agency] = s
}

func (v *verifier) cursor(k, payload []byte) {
	agency := string(k)
	c := decodeJSON[events.Cursor](bucketCursors, payload)
	if s := v.logs[agency]; c.Sequence != 0 && (c.Sequence < s.first || c.Sequence > s.last) {
		v.r.find("the cursor of agency %q is at %d, and its log goes from %d to %d", k, c.Sequence, s.first, s.last)
		return
	}
	var e events.Event
	if at := v.tx.get(bucketLog, logKey(agency, c.Sequence)); at != nil && e.UnmarshalJSON(at) == nil && e.ID != c.ID {
		v.r.find("the cursor of agency %q names another event than its log has at %d", k, c.Sequence)
	}
}
