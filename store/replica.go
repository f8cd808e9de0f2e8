package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"doorbell/events"
)

// Where several doorbells share the agencies, the snapshot of an agency goes into the stream beside its events, row by row, so
// that another store can load it and go on. A row is an entry of one of the buckets below.
//
// Every commit notes which rows it has changed (putAll, delete). Batch reads those that the stream has yet to take together with the
// unsent events, all of one moment: so a row that a batch holds never says more than the events in it and before it. Where not
// everything has room, the events go first, then the rows in the order of the buckets below. That order makes every part of it a
// snapshot that a poll mends: a contact request that is known without its insertion is known again; an insertion that is polled
// without its contact requests would announce them all.

// replicated are the buckets of a snapshot, each before those whose entries rest on it.
var replicated = [][]byte{bucketFieldNames, bucketContacts, bucketRecords, bucketInsertions, bucketHalts, bucketFailures, bucketAgencies}

// bucketRows holds, at agency 0x00 n key, the number of the last commit that changed a row which the stream has yet to take: n-1 is the
// place of its bucket among the replicated ones. At agency 0x00 0x00 stands the Claim. Only a store that was opened with Replicated has it.
var bucketRows = []byte("rows")

func claimKey(agency string) []byte { return append(prefix(agency), 0) }

func rowKey(agency string, n int, rest []byte) []byte {
	return append(append(prefix(agency), byte(n+1)), rest...)
}

// makeRows adds what Replicated needs to a file that does not have it. A file that has it is kept up also while it is used alone, or the
// stream would never see what was changed then.
func (s *Store) makeRows() error {
	if err := s.View(func(tx *Tx) error {
		s.noting = tx.tx.Bucket(bucketRows) != nil
		return nil
	}); err != nil || s.noting || s.replicated == "" {
		return err
	}
	s.noting = true
	return s.update(func(tx *Tx) error {
		if err := makeBucket(tx.tx, bucketRows); err != nil {
			return err
		}
		for agency := range tx.ascend(bucketAgencies, nil, nil) { // of a store that was alone until now, the stream has nothing
			tx.noteAll(string(agency))
		}
		return nil
	})
}

// noteAll notes all rows of an agency.
func (tx *Tx) noteAll(agency string) {
	for n, name := range replicated {
		if tx.get(name, []byte(agency)) != nil {
			tx.noteRow(n, []byte(agency))
		}
		for k := range tx.ascend(name, prefix(agency), prefix(agency)) {
			tx.noteRow(n, append(prefix(agency), k...))
		}
	}
}

// Reseed lets the stream take all rows of an agency again: it has lost them.
func (s *Store) Reseed(agency string) error {
	return s.update(func(tx *Tx) error {
		tx.noteAll(agency)
		return nil
	})
}

func makeBucket(tx *bolt.Tx, name []byte) error {
	b, err := tx.CreateBucket(name)
	if err != nil {
		return err
	}
	return b.Put(endMark, seal(name, nil, endMark, nil))
}

// changed notes that an entry of a bucket was written or deleted.
func (tx *Tx) changed(bucket, key []byte) {
	if !tx.store.noting || tx.loading {
		return
	}
	if n := replicatedAt(string(bucket)); n >= 0 {
		tx.noteRow(n, key)
	}
}

// replicatedAt is the place of a bucket among the replicated ones, -1 if it is none of them.
func replicatedAt(bucket string) int {
	return slices.IndexFunc(replicated, func(name []byte) bool { return string(name) == bucket })
}

func (tx *Tx) noteRow(n int, key []byte) {
	agency, rest, _ := bytes.Cut(key, []byte{0})
	if tx.rows == nil {
		tx.rows = map[string]struct{}{}
	}
	tx.rows[string(rowKey(string(agency), n, rest))] = struct{}{}
	tx.wake(string(agency))
}

// putRows writes what was noted, at the end of a transaction.
func (tx *Tx) putRows() (err error) {
	number := binary.BigEndian.AppendUint64(nil, uint64(tx.tx.ID()))
	for k := range tx.rows {
		err = errors.Join(err, tx.put(bucketRows, []byte(k), number))
	}
	return err
}

// Batch returns, within the bounds, the first events of an agency that the stream has not taken, and then rows. It drops what
// Unsent drops.
func (s *Store) Batch(agency string, most, maxBytes int) (b events.Batch, err error) {
	for {
		if _, err := s.Unsent(agency, most, maxBytes); err != nil {
			return b, err
		}
		again := false
		err := s.View(func(tx *Tx) error {
			b = events.Batch{Commit: uint64(tx.commit())}
			var dropped [][]byte
			if b.Events, dropped = tx.unsent(agency, most, maxBytes); len(dropped) > 0 {
				again = true
				return nil
			}
			tx.fill(agency, &b, most, maxBytes)
			return nil
		})
		if err != nil || !again {
			return b, err
		}
	}
}

// fill adds rows to a batch that has events.
func (tx *Tx) fill(agency string, b *events.Batch, most, maxBytes int) {
	if n := len(b.Events); n > 0 {
		for k := range tx.descend(bucketLog, prefix(agency), logKey(agency, ^uint64(0))) {
			if binary.BigEndian.Uint64(k) != unsent|b.Events[n-1].Position {
				return
			}
			break
		}
	}
	size := 0
	for _, e := range b.Events {
		size += len(e.Data)
	}
	for k := range tx.ascend(bucketRows, prefix(agency), rowKey(agency, 0, nil)) {
		name := replicated[k[0]-1]
		entry := []byte(agency)
		if len(k) > 1 {
			entry = append(prefix(agency), k[1:]...)
		}
		row := events.Row{Bucket: string(name), Key: string(k[1:]), Value: bytes.Clone(tx.get(name, entry))}
		size += len(row.Key) + len(row.Value)
		if len(b.Events)+len(b.Rows) > 0 && (len(b.Events)+len(b.Rows) >= most || size > maxBytes) {
			return
		}
		b.Rows = append(b.Rows, row)
	}
	b.All = true
}

// Sent notes that the stream has taken a batch, whose events have their sequences by now: Publish, and the claim under which it was
// taken. A row that was changed since waits for the next batch.
func (s *Store) Sent(agency string, b events.Batch, c events.Cursor, claim events.Claim) error {
	return s.update(func(tx *Tx) error {
		if err := tx.publish(agency, b.Events, c); err != nil {
			return err
		}
		for _, row := range b.Rows {
			k := rowKey(agency, replicatedAt(row.Bucket), []byte(row.Key))
			if v := tx.get(bucketRows, k); len(v) != 8 || binary.BigEndian.Uint64(v) > b.Commit {
				continue
			}
			if err := tx.delete(bucketRows, k); err != nil {
				return err
			}
		}
		return tx.putJSON(bucketRows, claimKey(agency), claim)
	})
}

// Claim is the one that was noted last, and whether there is one.
func (s *Store) Claim(agency string) (c events.Claim, exists bool, err error) {
	err = s.View(func(tx *Tx) error {
		c, exists = getJSON[events.Claim](tx, bucketRows, claimKey(agency))
		return nil
	})
	return c, exists, err
}

func (tx *Tx) claimed(agency string) bool {
	return tx.tx.Bucket(bucketRows) != nil && tx.get(bucketRows, claimKey(agency)) != nil
}

// Load puts in the place of all that the store holds of an agency what the stream holds: its rows, and how far its events had come
// when they were complete. Import is to follow, with the events behind that.
func (s *Store) Load(agency string, rows []events.Row, c events.Cursor, claim events.Claim) error {
	return s.update(func(tx *Tx) error {
		if err := tx.drop(agency); err != nil {
			return err
		}
		tx.loading = true // the stream has them
		for _, r := range rows {
			n := replicatedAt(r.Bucket)
			if n < 0 {
				return fmt.Errorf("load %s: unknown row", agency)
			}
			k := []byte(agency)
			if r.Key != "" {
				k = append(prefix(agency), r.Key...)
			}
			if err := tx.put(replicated[n], k, r.Value); err != nil {
				return err
			}
		}
		if c.Sequence > 0 {
			if err := tx.setCursor(agency, c); err != nil {
				return err
			}
		}
		return tx.putJSON(bucketRows, claimKey(agency), claim)
	})
}

// Drop forgets all that the store holds of an agency, unsent events included: another store goes on with it.
func (s *Store) Drop(agency string) error {
	return s.update(func(tx *Tx) error { return tx.drop(agency) })
}

func (tx *Tx) drop(agency string) error {
	tx.loading = true
	defer func() { tx.loading = false }()
	for _, name := range append(slices.Clone(buckets), bucketRows) {
		if bytes.Equal(name, bucketMeta) {
			continue
		}
		var keys [][]byte
		if tx.get(name, []byte(agency)) != nil {
			if err := tx.delete(name, []byte(agency)); err != nil {
				return err
			}
		}
		for k := range tx.ascend(name, prefix(agency), prefix(agency)) {
			keys = append(keys, append(prefix(agency), k...))
		}
		if err := tx.delete(name, keys...); err != nil {
			return err
		}
	}
	return nil
}
