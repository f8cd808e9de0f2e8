package store

import (
	"bytes"
	"iter"
	"time"
)

// Insertion is what is remembered of one insertion beside its record. Times are in our clock.
type Insertion struct {
	Reference string
	Digest    [32]byte // of the last record
	Rules     uint32   // the rules that made Digest
	Episode   int      // publications of the reference, from 1
	Revision  int      // changes within the episode
	FirstSeen time.Time

	Missing   int       // complete walks in a row that did not list it
	LastSeen  time.Time // last sighting before it went missing; zero while it is listed
	GoneSince time.Time // since when it counts as disappeared; zero while published

	Outside   bool      // the configured filter leaves it out; GoneSince says since when
	Baseline  bool      // it was there before we began to watch
	Start     time.Time // contact requests created before it are old
	Polled    bool      // the first catch-up is done
	Listed    bool      // a catch-up showed a list, even an empty one: the start is final
	Unordered bool      // its list is in no order and may hide some, which was reported
	LastPoll  time.Time // last poll that wrote something
	Epoch     int       // counts catch-ups; a contact request learned in an earlier one is an overlap
	OpenSince time.Time // since when a window has been open; zero: closed
}

const insertionVersion = 1

const (
	insertionBaseline = 1 << iota
	insertionPolled
	insertionOutside
	insertionListed
	insertionUnordered
)

func (i Insertion) encode() []byte {
	w := &writer{b: make([]byte, 0, 128)}
	w.byte(insertionVersion)
	var flags byte
	if i.Baseline {
		flags |= insertionBaseline
	}
	if i.Polled {
		flags |= insertionPolled
	}
	if i.Outside {
		flags |= insertionOutside
	}
	if i.Listed {
		flags |= insertionListed
	}
	if i.Unordered {
		flags |= insertionUnordered
	}
	w.byte(flags)
	w.fixed(i.Digest[:])
	w.uint(uint64(i.Rules))
	for _, n := range []int{i.Episode, i.Revision, i.Missing, i.Epoch} {
		w.uint(uint64(n))
	}
	for _, t := range []time.Time{i.FirstSeen, i.LastSeen, i.GoneSince, i.Start, i.LastPoll, i.OpenSince} {
		w.time(t)
	}
	return w.b
}

func decodeInsertion(reference string, v []byte) Insertion {
	r := &reader{b: v}
	version, flags := r.byte(), r.byte()
	i := Insertion{
		Reference: reference, Baseline: flags&insertionBaseline != 0,
		Polled:  flags&insertionPolled != 0,
		Outside: flags&insertionOutside != 0, Listed: flags&insertionListed != 0, Unordered: flags&insertionUnordered != 0,
	}
	copy(i.Digest[:], r.take(len(i.Digest)))
	i.Rules = uint32(r.uint())
	for _, n := range []*int{&i.Episode, &i.Revision, &i.Missing, &i.Epoch} {
		*n = r.int()
	}
	for _, t := range []*time.Time{&i.FirstSeen, &i.LastSeen, &i.GoneSince, &i.Start, &i.LastPoll, &i.OpenSince} {
		*t = r.time()
	}
	if r.bad || version != insertionVersion {
		panic(damagef("an entry of %s cannot be read", bucketInsertions))
	}
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
	return tx.put(bucketInsertions, key(agency, i.Reference), i.encode())
}

// Record returns the last record of an insertion as the API sent it, white space removed; nil if there is none.
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
