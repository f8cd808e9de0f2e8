package natsd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// What the server has written is checked before it reads it. Where a record is damaged the server cuts the rest of its
// block off, sometimes without a word, and one flipped bit in a sequence can keep it busy for ever.
//
// A block (msgs/N.blk) is a row of records, integers little-endian:
//
//	length(4) sequence(8) time(8) subject length(2) subject [header length(4) headers] message hash(8)
//
// The highest bit of the length says that there are headers, two of the sequence that a message is erased, or that the
// record only remembers a removal. The hash covers all but the lengths.
const (
	recordHeader = 22
	recordHash   = 8
	mostRecord   = 32 << 20
	withHeaders  = 1 << 31
	erased       = 1 << 63
	removal      = 1 << 62
)

var errDamaged = errors.New("damaged")

func damagedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// hashOf is the server's hash over parts, with a key made of a name.
func hashOf(name string, parts ...[]byte) []byte {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return nil // the key has the right length
	}
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// holdings are what the blocks of a stream hold.
type holdings struct {
	first, last uint64              // sequences of messages
	messages    uint64              // that are there
	missing     uint64              // between first and last, with no word of their removal
	gaps        []gap               // where
	gone        int                 // blocks that are not there, since the last message
	removed     map[uint64]struct{} // told by records of removal
	newest      uint64              // highest sequence that any record names
	front       int                 // blocks that are not there before the first
	bytes       int                 // of all blocks
}

// gap is where messages are missing: the sequences on both sides, and how many blocks are not there.
type gap struct {
	after, before uint64
	blocks        int
}

// untold is how many messages are missing in a gap with no word of their removal. With its last message a whole block goes,
// and of that one no word is left.
func (g gap) untold(removed map[uint64]struct{}) uint64 {
	untold, told := g.before-g.after-1, false
	for seq := range removed {
		if g.after < seq && seq < g.before {
			untold, told = untold-1, true
		}
	}
	if told {
		untold -= min(untold, uint64(g.blocks))
	}
	return untold
}

// readBlocks checks all blocks of a stream. The end of the last one may be torn: that was never acknowledged.
func readBlocks(ctx context.Context, folder, stream string) (holdings, error) {
	h := holdings{removed: map[uint64]struct{}{}}
	numbers, err := blockNumbers(folder)
	if err != nil {
		return h, err
	}
	for i, n := range numbers {
		if ctx.Err() != nil {
			return h, ctx.Err()
		}
		if i > 0 {
			h.gone += n - numbers[i-1] - 1
		} else {
			h.front = n - 1
		}
		name := strconv.Itoa(n) + ".blk"
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return h, err
		}
		h.bytes += len(b)
		if bytes.HasPrefix(b, []byte("cmp")) {
			return h, nil // compressed, which no stream of ours is
		}
		if err := h.readBlock(b, stream+"-"+strconv.Itoa(n), i == len(numbers)-1); err != nil {
			return h, fmt.Errorf("block %s: %w", name, err)
		}
	}
	for _, g := range h.gaps {
		h.missing += g.untold(h.removed)
	}
	return h, nil
}

func blockNumbers(folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var numbers []int
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), ".blk")
		if n, convErr := strconv.Atoi(text); ok && convErr == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// readBlock checks one block, whose hashes have a key of their own.
func (h *holdings) readBlock(b []byte, key string, isLast bool) error {
	for at := 0; at < len(b); {
		size, err := h.readRecord(b[at:], key)
		if err != nil {
			if isLast && !anythingAfter(b[at:], key) {
				return nil // torn
			}
			return fmt.Errorf("at byte %d: %w", at, err)
		}
		at += size
	}
	return nil
}

// record is one checked record.
type record struct {
	size     int
	sequence uint64
	erased   bool
	removal  bool
}

func parseRecord(b []byte, key string) (r record, err error) {
	if len(b) < recordHeader+recordHash {
		return r, damagedf("record is cut")
	}
	length, subject := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[20:]))
	headers := length&withHeaders != 0
	r.size = int(length &^ withHeaders)
	if r.size > mostRecord || r.size > len(b) || r.size < recordHeader+subject+recordHash {
		return r, damagedf("length of a record")
	}
	body := b[recordHeader+subject : r.size-recordHash]
	if headers {
		if body, err = afterHeaders(body); err != nil {
			return r, err
		}
	}
	if !bytes.Equal(hashOf(key, b[4:20], b[recordHeader:recordHeader+subject], body), b[r.size-recordHash:r.size]) {
		return r, damagedf("checksum of a record")
	}
	sequence := binary.LittleEndian.Uint64(b[4:])
	r.erased, r.removal = sequence&erased != 0, sequence&removal != 0
	r.sequence = sequence &^ (erased | removal)
	return r, nil
}

// afterHeaders checks the length of the headers, which the hash does not cover, and takes it off the body.
func afterHeaders(body []byte) ([]byte, error) {
	if len(body) < 4 {
		return nil, damagedf("headers of a record")
	}
	n := binary.LittleEndian.Uint32(body)
	body = body[4:]
	if uint64(n) > uint64(len(body)) || !bytes.HasSuffix(body[:n], []byte("\r\n\r\n")) {
		return nil, damagedf("headers of a record")
	}
	return body, nil
}

// readRecord takes the first record of b into account.
func (h *holdings) readRecord(b []byte, key string) (size int, err error) {
	r, err := parseRecord(b, key)
	if err != nil {
		return 0, err
	}
	h.newest = max(h.newest, r.sequence)
	switch {
	case r.removal, r.erased, r.sequence == 0:
		h.removed[r.sequence] = struct{}{}
		return r.size, nil
	case h.messages == 0:
		h.first = r.sequence
	case r.sequence <= h.last:
		return 0, damagedf("sequence %d after %d", r.sequence, h.last)
	case r.sequence > h.last+1:
		h.gaps = append(h.gaps, gap{h.last, r.sequence, h.gone})
	}
	h.last, h.messages, h.gone = r.sequence, h.messages+1, 0
	return r.size, nil
}

// anythingAfter says whether a whole record follows somewhere after the damaged one at the front: then its block was not
// torn by a crash. The search is bounded.
func anythingAfter(b []byte, key string) bool {
	const furthest = 1 << 20
	for at := 1; at < min(len(b), furthest); at++ {
		if r, err := parseRecord(b[at:], key); err == nil && r.sequence != 0 {
			return true
		}
	}
	return false
}
