package store

import (
	"bytes"
	"hash/maphash"
	"iter"
	"sync/atomic"
	"time"
)

// Insertion is what is remembered of one insertion beside its record. Times are in our clock. The
// names of members are short because there are many of these.
type Insertion struct {
	Reference string    `json:"-"`
	Digest    [32]byte  `json:"d,omitzero"` // of the last record
	Rules     uint32    `json:"r,omitzero"` // the rules that made Digest
	Episode   int       `json:"e,omitzero"` // publications of the reference, from 1
	Revision  int       `json:"v,omitzero"` // changes within the episode
	FirstSeen time.Time `json:"f,omitzero"`

	Missing int `json:"m,omitzero"` // complete walks in a row that did not list it
	// last sighting before it went missing; zero while it is listed
	LastSeen time.Time `json:"l,omitzero"`
	// since when it counts as disappeared; zero while published
	GoneSince time.Time `json:"g,omitzero"`

	// the configured filter leaves it out; GoneSince says since when
	Outside  bool      `json:"o,omitzero"`
	Baseline bool      `json:"b,omitzero"` // it was there before we began to watch
	Start    time.Time `json:"s,omitzero"` // contact requests created before it are old
	Polled   bool      `json:"p,omitzero"` // the first catch-up is done
	// a catch-up showed a list, even an empty one: the start is final
	Listed bool `json:"i,omitzero"`
	// its list is in no order and may hide some, which was reported
	Unordered bool      `json:"u,omitzero"`
	LastPoll  time.Time `json:"t,omitzero"` // last poll that wrote something
	// counts catch-ups; a contact request learned in an earlier one is an overlap
	Epoch     int       `json:"c,omitzero"`
	OpenSince time.Time `json:"os,omitzero"` // since when a window has been open; zero: closed
}

func decodeInsertion(reference string, payload []byte) Insertion {
	i := decodeJSON[Insertion](bucketInsertions, payload)
	i.Reference = reference
	return i
}

// Insertion returns what is remembered of a reference, and whether anything is.
func (tx *Tx) Insertion(agency, reference string) (i Insertion, exists bool) {
	v := tx.get(bucketInsertions, key(agency, reference))
	if v == nil {
		return i, false
	}
	return decodeInsertion(reference, v), true
}

// PutInsertion remembers an insertion. Its record is remembered by PutRecord.
func (tx *Tx) PutInsertion(agency string, i Insertion) error {
	inMillis(&i.FirstSeen, &i.LastSeen, &i.GoneSince, &i.Start, &i.LastPoll, &i.OpenSince)
	return tx.putJSON(bucketInsertions, key(agency, i.Reference), i)
}

// inMillis gives times the form that events have: what is compared with an event is equal to it.
func inMillis(times ...*time.Time) {
	for _, t := range times {
		*t = t.UTC().Truncate(time.Millisecond)
	}
}

// versions count what is written of insertions and their contact requests, by a hash of the key. It
// is counted inside the transaction: one that reads and then asks for the version knows that
// nothing has been written since as long as the version is the same.
type versions struct {
	seed   maphash.Seed
	counts [4096]atomic.Uint64
}

func (v *versions) of(key []byte) *atomic.Uint64 {
	return &v.counts[maphash.Bytes(v.seed, key)%uint64(len(v.counts))]
}

// Version is another number after anything of an insertion or its contact requests has been
// written. It may also change when another insertion is written, and means nothing to another
// process.
func (s *Store) Version(agency, reference string) uint64 {
	return s.versions.of(key(agency, reference)).Load()
}

// Record returns the last record of an insertion as the API sent it, white space removed; nil if
// there is none.
func (tx *Tx) Record(agency, reference string) []byte {
	return bytes.Clone(tx.get(bucketRecords, key(agency, reference)))
}

// PutRecord remembers the last record of an insertion.
func (tx *Tx) PutRecord(agency, reference string, record []byte) error {
	return tx.put(bucketRecords, key(agency, reference), record)
}

// Insertions are all insertions of an agency by reference. None may be written meanwhile.
func (tx *Tx) Insertions(agency string) iter.Seq[Insertion] {
	return func(yield func(Insertion) bool) {
		for k, v := range tx.ascend(bucketInsertions, prefix(agency), prefix(agency)) {
			if !yield(decodeInsertion(string(k), v)) {
				return
			}
		}
	}
}
