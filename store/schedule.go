package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// bucketSchedule holds what the schedule has learned, an agency's in chunks. It is made when it is first written: nothing
// in it decides what is news, so that a program that does not know it may leave it as it is.
var bucketSchedule = []byte("schedule")

// scheduleVersion is that of the envelope: the version, a checksum, and the chunk.
const scheduleVersion = 1

const scheduleHead = 1 + crc32.Size

// PutSchedule remembers chunk n, from 0, of an agency's schedule.
func (tx *Tx) PutSchedule(agency string, n int, chunk []byte) error {
	b, err := tx.tx.CreateBucketIfNotExists(bucketSchedule)
	if err != nil {
		return err
	}
	v := make([]byte, 0, scheduleHead+len(chunk))
	v = binary.BigEndian.AppendUint32(append(v, scheduleVersion), crc32.ChecksumIEEE(chunk))
	return b.Put(scheduleKey(agency, n), append(v, chunk...))
}

// Schedule visits the chunks of an agency's schedule in order. What is not readable as one is left out: the schedule
// then learns it anew. The slices are valid only during the call.
func (tx *Tx) Schedule(agency string, visit func(n int, chunk []byte)) {
	b := tx.bucket(bucketSchedule)
	if b == nil {
		return
	}
	below := prefix(agency)
	c := b.Cursor()
	for k, v := c.Seek(below); bytes.HasPrefix(k, below); k, v = c.Next() {
		tx.looked(len(v))
		n, ok := chunkNumber(k[len(below):])
		if !ok || len(v) < scheduleHead || v[0] != scheduleVersion {
			continue
		}
		if chunk := v[scheduleHead:]; crc32.ChecksumIEEE(chunk) == binary.BigEndian.Uint32(v[1:]) {
			visit(n, chunk)
		}
	}
}

// TrimSchedule forgets the chunks of an agency's schedule from n on, and what is none.
func (tx *Tx) TrimSchedule(agency string, n int) error {
	b := tx.bucket(bucketSchedule)
	if b == nil {
		return nil
	}
	var beyond [][]byte
	below := prefix(agency)
	c := b.Cursor()
	for k, _ := c.Seek(below); bytes.HasPrefix(k, below); k, _ = c.Next() {
		if is, ok := chunkNumber(k[len(below):]); !ok || is >= n {
			beyond = append(beyond, append([]byte(nil), k...))
		}
	}
	return deleteAll(b, beyond)
}

func deleteAll(b *bolt.Bucket, keys [][]byte) error {
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func scheduleKey(agency string, n int) []byte {
	return binary.BigEndian.AppendUint32(prefix(agency), uint32(n))
}

func chunkNumber(k []byte) (n int, ok bool) {
	if len(k) != 4 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(k)), true
}
