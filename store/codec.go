package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"
	"time"

	bolt "go.etcd.io/bbolt"
)

// bbolt keeps no checksums: a byte that a disk has flipped would be read as something else, or hide an entry, and what is not
// found counts as new. So every value of every bucket is sealed: a version, a CRC32C, and the payload. The checksum covers the
// bucket, the key, the payload, and the key of the entry before it. That makes a chain of each bucket, from its first entry to
// the end mark that is always its last one: whoever finds two neighbours that belong together knows that there is nothing between
// them. Everything goes through get, put, delete, ascend and descend, which prove each answer so, also that there is none.
//
// What does not hold is no error that a caller could overlook: it ends the transaction, and the store; see Store.guard.

const (
	valueVersion = 1
	sealSize     = 1 + crc32.Size
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	endMark    = []byte{0xff} // the last key of every bucket; text has no such byte
)

// damage is what a transaction panics with when it meets what cannot be true.
type damage struct{ why string }

func damagef(format string, args ...any) damage { return damage{fmt.Sprintf(format, args...)} }

func checksum(bucket, before, key, payload []byte) uint32 {
	sum := crc32.Checksum(bucket, castagnoli) ^ uint32(len(before))<<16 ^ uint32(len(key))
	sum = crc32.Update(sum, castagnoli, before)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, payload)
}

func seal(bucket, before, key, payload []byte) []byte {
	v := make([]byte, 0, sealSize+len(payload))
	v = binary.BigEndian.AppendUint32(append(v, valueVersion), checksum(bucket, before, key, payload))
	return append(v, payload...)
}

func holds(bucket, before, key, value []byte) bool {
	return len(value) >= sealSize && value[0] == valueVersion &&
		binary.BigEndian.Uint32(value[1:]) == checksum(bucket, before, key, value[sealSize:])
}

// unseal returns the payload of a value. It is valid as long as the transaction is.
func (tx *Tx) unseal(bucket, before, key, value []byte) []byte {
	if !holds(bucket, before, key, value) {
		panic(damagef("an entry of %s does not hold what was written, or one beside it is missing", bucket))
	}
	return value[sealSize:]
}

// seek finds the first entry that is not before a key, the end mark if there is none, and the key of the entry before it.
// That the key belongs between the two says that no branch page has led elsewhere.
func (tx *Tx) seek(bucket, key []byte) (before, k, payload []byte) {
	c := tx.bucket(bucket).Cursor()
	k, v := c.Seek(key)
	before, _ = previous(c, k)
	if bytes.Compare(k, key) < 0 || before != nil && bytes.Compare(before, key) >= 0 {
		panic(damagef("a page of %s leads elsewhere", bucket))
	}
	return before, k, tx.unseal(bucket, before, k, v)
}

// previous moves a cursor from the entry of key k to the one before it. bbolt says also nil where the transaction has emptied
// the page that it comes to.
func previous(c *bolt.Cursor, k []byte) (key, value []byte) {
	if key, value = c.Prev(); key != nil {
		return key, value
	}
	first, _ := c.Bucket().Cursor().First()
	for range maxEmptied {
		if bytes.Equal(first, k) {
			return nil, nil
		}
		if key, value = c.Prev(); key != nil {
			return key, value
		}
	}
	panic(damagef("the pages of a bucket do not follow each other"))
}

// maxEmptied is more pages than a transaction empties.
const maxEmptied = 1 << 16

// get returns the payload of a key, nil if there is none. It is valid as long as the transaction is.
func (tx *Tx) get(bucket, key []byte) []byte {
	_, k, payload := tx.seek(bucket, key)
	if !bytes.Equal(k, key) {
		return nil
	}
	return payload
}

// put writes a value. A new one stands before another one, which is sealed anew.
func (tx *Tx) put(bucket, key, payload []byte) error { return tx.putAll(bucket, item{key, payload}) }

// item is a key and its payload.
type item struct{ key, payload []byte }

// putAll writes values that stand one behind the other, and seals anew only what stands behind the last of them. A single one may
// take the place of what is there.
func (tx *Tx) putAll(bucket []byte, items ...item) error {
	if len(items) == 0 {
		return nil
	}
	first, last := items[0].key, items[len(items)-1].key
	if len(first) == 0 || bytes.Compare(first, endMark) >= 0 {
		return fmt.Errorf("store: a key of %s is empty or no text", bucket)
	}
	before, k, next := tx.seek(bucket, first)
	b := tx.bucket(bucket)
	if len(items) > 1 || !bytes.Equal(k, first) {
		if bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("store: something stands between new entries of %s", bucket)
		}
		if err := b.Put(k, seal(bucket, last, k, next)); err != nil {
			return err
		}
	}
	for _, i := range items {
		if bytes.Compare(i.key, before) <= 0 {
			return fmt.Errorf("store: new entries of %s are in the wrong order", bucket)
		}
		if err := b.Put(i.key, seal(bucket, before, i.key, i.payload)); err != nil {
			return err
		}
		before = i.key
	}
	return nil
}

// delete removes entries that stand one behind the other; a first one that is not there changes nothing.
func (tx *Tx) delete(bucket []byte, keys ...[]byte) error {
	if len(keys) == 0 {
		return nil
	}
	before, k, payload := tx.seek(bucket, keys[0])
	if !bytes.Equal(k, keys[0]) {
		return nil
	}
	c := tx.bucket(bucket).Cursor()
	c.Seek(k)
	for _, gone := range keys {
		if !bytes.Equal(k, gone) {
			return fmt.Errorf("store: entries of %s do not follow each other", bucket)
		}
		next, v := c.Next()
		payload = tx.unseal(bucket, k, next, v)
		k = next
	}
	b := tx.bucket(bucket)
	for _, gone := range keys {
		if err := b.Delete(gone); err != nil {
			return err
		}
	}
	return b.Put(k, seal(bucket, before, k, payload))
}

// ascend visits the entries whose key begins with a prefix, from a key on, in order. The keys come without the prefix.
func (tx *Tx) ascend(bucket, prefix, from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, payload []byte) bool) {
		before, _, _ := tx.seek(bucket, from)
		c := tx.bucket(bucket).Cursor()
		k, v := c.Seek(from)
		for {
			payload := tx.unseal(bucket, before, k, v)
			if !bytes.HasPrefix(k, prefix) || bytes.Equal(k, endMark) || !yield(k[len(prefix):], payload) {
				return
			}
			before = k
			k, v = c.Next()
		}
	}
}

// descend visits the entries whose key begins with a prefix, from the one before a key on, backwards.
func (tx *Tx) descend(bucket, prefix, from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, payload []byte) bool) {
		_, _, _ = tx.seek(bucket, from)
		c := tx.bucket(bucket).Cursor()
		k, v := c.Seek(from)
		for {
			before, value := previous(c, k)
			payload := tx.unseal(bucket, before, k, v)
			if bytes.Compare(k, from) < 0 && (!bytes.HasPrefix(k, prefix) || !yield(k[len(prefix):], payload)) || before == nil {
				return
			}
			k, v = before, value
		}
	}
}

// getJSON reads what putJSON has written.
func getJSON[T any](tx *Tx, bucket, key []byte) (value T, exists bool) {
	v := tx.get(bucket, key)
	return decodeJSON[T](bucket, v), v != nil
}

func decodeJSON[T any](bucket, payload []byte) (value T) {
	if payload != nil && json.Unmarshal(payload, &value) != nil {
		panic(damagef("an entry of %s cannot be read", bucket))
	}
	return value
}

func (tx *Tx) putJSON(bucket, key []byte, value any) error {
	v, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.put(bucket, key, v)
}

// writer and reader are the form of the many small values: varints and fixed hashes. A reader remembers the first failure; the caller
// asks for it once, at the end.
type writer struct{ b []byte }

func (w *writer) byte(v byte)    { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) fixed(v []byte) { w.b = append(w.b, v...) }
func (w *writer) time(v time.Time) {
	if v.IsZero() {
		w.b = binary.AppendVarint(w.b, 0)
		return
	}
	w.b = binary.AppendVarint(w.b, v.UnixMilli())
}

type reader struct {
	b   []byte
	bad bool
}

// take returns the next bytes, zeros where there are not so many.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 0), 64))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte { return r.take(1)[0] }
func (r *reader) int() int   { return int(r.uint()) }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

// skip goes behind a varint of so many bytes; 0 and less say that there is none.
func (r *reader) skip(n int) {
	if n == 0 {
		n = -1
	}
	r.take(n)
}

func (r *reader) time() time.Time {
	v, n := binary.Varint(r.b)
	r.skip(n)
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMilli(v).UTC()
}
