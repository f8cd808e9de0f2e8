package natsd

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// The server erases a message in two steps: it appends to the stream that the message is deleted, and then writes the block of the
// message anew, with random bytes in its place. Where it ends or fails in between, the message is deleted, and its bytes stay: the
// server finds nothing that it could erase any more (removeMsgFromBlock of nats-server 2.15.2). So whoever has begun to erase a message
// has the second step done before the next start, while the files are nobody's.
//
// This is the one place that knows the form of these files. It changes nothing but whole records, with the right checksum, of which a
// later record with the same time says that they are deleted.

const (
	recordHead     = 22 // length 4, sequence 8, time 8, length of the subject 2
	recordChecksum = 8
	withHeaders    = 1 << 31 // of a length
	erasedBit      = 1 << 63 // of a sequence
	deletesBit     = 1 << 62 // of a sequence: it deletes that one
)

// record is one of a block: the bytes of all of it.
type record []byte

func (r record) sequence() uint64 { return binary.LittleEndian.Uint64(r[4:]) }
func (r record) time() uint64     { return binary.LittleEndian.Uint64(r[12:]) }

// deleted names a message that is deleted.
type deleted struct{ sequence, time uint64 }

// finishErasing overwrites, in all streams, what the server has deleted and not erased.
func (s *Server) finishErasing() error {
	if s.options.Erasing == nil || !s.options.Erasing() {
		return nil
	}
	folders, err := filepath.Glob(filepath.Join(s.folder(account, "streams"), "*", "msgs"))
	n := 0
	for _, folder := range folders {
		erased, errErase := eraseDeleted(folder)
		n, err = n+erased, errors.Join(err, errErase)
	}
	if n > 0 {
		s.options.Logger.Warn("messages were deleted but not erased when the server ended: they are erased now", "count", n)
	}
	if err != nil {
		return fmt.Errorf("erase what was deleted: %w", err)
	}
	return nil
}

// eraseDeleted overwrites what is deleted in the blocks of a stream, and says how many messages these were.
func eraseDeleted(folder string) (n int, err error) {
	blocks, err := filepath.Glob(filepath.Join(folder, "*.blk"))
	gone := map[deleted]bool{}
	for _, wanted := range []func(record) bool{
		func(r record) bool {
			if r.sequence()&deletesBit != 0 {
				gone[deleted{r.sequence() &^ deletesBit, r.time()}] = true
			}
			return false
		},
		func(r record) bool { return gone[deleted{r.sequence(), r.time()}] },
	} {
		for _, path := range blocks {
			erased, errErase := eraseRecords(path, wanted)
			n, err = n+erased, errors.Join(err, errErase)
		}
	}
	return n, err
}

// eraseRecords overwrites the records of a block that are wanted.
func eraseRecords(path string, wanted func(record) bool) (n int, err error) {
	block, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	stream := filepath.Base(filepath.Dir(filepath.Dir(path)))
	index, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".blk"), 10, 32)
	if err != nil {
		return 0, nil // it is none of the server's
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	for r := range records(block, key[:]) {
		if wanted(r) {
			r.erase(key[:])
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, replaceFile(path, block)
}

// records are those of a block, up to the first that is not whole.
func records(block, key []byte) iter.Seq[record] {
	return func(yield func(record) bool) {
		for len(block) >= recordHead+recordChecksum {
			length := uint64(binary.LittleEndian.Uint32(block))
			size := length &^ withHeaders
			subject := recordHead + uint64(binary.LittleEndian.Uint16(block[20:]))
			rest := subject
			if length != size {
				rest += 4 // the length of the headers
			}
			if size > uint64(len(block)) || rest+recordChecksum > size {
				return
			}
			r := record(block[:size])
			if !bytes.Equal(r[size-recordChecksum:], checksum(key, r[4:20], r[recordHead:subject], r[rest:size-recordChecksum])) || !yield(r) {
				return
			}
			block = block[size:]
		}
	}
}

func checksum(key []byte, parts ...[]byte) []byte {
	h, _ := highwayhash.NewDigest64(key) // fails with another length of the key alone
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// erase makes it what the server makes of a message that it erases.
func (r record) erase(key []byte) {
	data := r[recordHead : len(r)-recordChecksum]
	binary.LittleEndian.PutUint32(r, uint32(len(r)))
	binary.LittleEndian.PutUint64(r[4:], r.sequence()|erasedBit)
	clear(r[12:recordHead])
	_, _ = rand.Read(data) // never fails
	copy(r[len(r)-recordChecksum:], checksum(key, r[4:20], data))
}

// replaceFile writes a file anew, all of it or nothing, and brings it to the disk.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
