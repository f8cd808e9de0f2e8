package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt maps its file and believes what it finds there: a number that is wrong makes it read beyond the end, which ends the
// process. So the file is read here first, as bytes, and every number that bbolt would follow is held against the file.

const (
	pageHead    = 16
	element     = 16
	bucketHead  = 16
	metaSize    = 64
	pageBranch  = 0x01
	pageLeaf    = 0x02
	pageFree    = 0x10
	bucketFlag  = 0x01
	noFreelist  = ^uint64(0)
	mostLevels  = 64
	boltMagic   = 0xED0CDAED
	boltVersion = 2
)

var native = binary.NativeEndian

// head is one of the two meta pages of a bbolt file: the newer one that is whole counts.
type head struct {
	pageSize             int64
	root, freelist, pgid uint64 // pgid: pages in use
	txid                 uint64
}

// readHeads finds the head that counts, and says whether both can be read: where one was torn, the commit before it counts.
func readHeads(r io.ReaderAt) (h head, both bool, err error) {
	whole := 0
	for n := range 2 {
		for shift := range 8 { // page sizes from 512 bytes to 64 KiB; of the first one they are all at 0
			size := int64(512) << shift
			one, ok := readHead(r, int64(n)*size)
			if !ok || one.pageSize != size {
				continue
			}
			if whole++; whole == 1 || one.txid > h.txid {
				h = one
			}
			break
		}
	}
	if whole == 0 {
		return h, false, errors.New("it does not begin as a store does")
	}
	return h, whole == 2, nil
}

func readHead(r io.ReaderAt, at int64) (h head, ok bool) {
	b := make([]byte, pageHead+metaSize)
	if _, err := r.ReadAt(b, at); err != nil {
		return h, false
	}
	b = b[pageHead:]
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion || native.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return h, false
	}
	return head{
		pageSize: int64(native.Uint32(b[8:])), root: native.Uint64(b[16:]), freelist: native.Uint64(b[32:]),
		pgid: native.Uint64(b[40:]), txid: native.Uint64(b[48:]),
	}, true
}

// refuseCut says whether a file is as long as its head says, before bbolt maps it. An empty file is a new one.
func refuseCut(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if !info.Mode().IsRegular() {
		return damaged(path, "it is not a file")
	}
	h, _, err := readHeads(f)
	if err != nil {
		return damaged(path, err.Error())
	}
	return h.refuse(path, info.Size())
}

func (h head) refuse(path string, size int64) error {
	if need := int64(h.pgid) * h.pageSize; h.pgid > 1<<40 || need > size {
		return damaged(path, fmt.Sprintf("it is cut off: %d of %d bytes are there", size, need))
	}
	if h.root < 2 || h.root >= h.pgid || h.freelist != noFreelist && (h.freelist < 2 || h.freelist >= h.pgid) {
		return damaged(path, "its head leads nowhere")
	}
	return nil
}

// pageWalk reads every page that can be reached, each once.
type pageWalk struct {
	r    io.ReaderAt
	head head
	seen []bool
}

// walkPages holds all numbers that lead from page to page against the file. The error does not say what the pages hold.
func walkPages(r io.ReaderAt, h head) error {
	w := &pageWalk{r: r, head: h, seen: make([]bool, h.pgid)}
	if err := w.free(); err != nil {
		return err
	}
	return w.tree(h.root, 0)
}

var (
	errTwice    = errors.New("a page belongs to two places")
	errOutside  = errors.New("a page leads out of the file")
	errKind     = errors.New("a page is not what it should be")
	errOverflow = errors.New("an entry is longer than its page")
)

// page reads a page with all that belongs to it.
func (w *pageWalk) page(id uint64) ([]byte, error) {
	if id < 2 || id >= w.head.pgid {
		return nil, errOutside
	}
	first := make([]byte, pageHead)
	if _, err := w.r.ReadAt(first, int64(id)*w.head.pageSize); err != nil {
		return nil, err
	}
	more := uint64(native.Uint32(first[12:]))
	if native.Uint64(first) != id || id+more >= w.head.pgid {
		return nil, errOutside
	}
	for n := id; n <= id+more; n++ {
		if w.seen[n] {
			return nil, errTwice
		}
		w.seen[n] = true
	}
	b := make([]byte, int64(more+1)*w.head.pageSize)
	_, err := w.r.ReadAt(b, int64(id)*w.head.pageSize)
	return b, err
}

// free reads the list of free pages.
func (w *pageWalk) free() error {
	if w.head.freelist == noFreelist {
		return nil
	}
	b, err := w.page(w.head.freelist)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:])&pageFree == 0 {
		return errKind
	}
	count, list := uint64(native.Uint16(b[10:])), b[pageHead:]
	if count == 0xFFFF {
		count, list = native.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return errOverflow
	}
	for n := range count {
		if id := native.Uint64(list[n*8:]); id < 2 || id >= w.head.pgid {
			return errOutside
		}
	}
	return nil
}

// tree reads a page and all below it.
func (w *pageWalk) tree(id uint64, level int) error {
	b, err := w.page(id)
	if err != nil {
		return err
	}
	if level > mostLevels {
		return errTwice
	}
	switch native.Uint16(b[8:]) {
	case pageBranch:
		return w.branch(b, level)
	case pageLeaf:
		return w.leaf(b, level)
	}
	return errKind
}

func (w *pageWalk) branch(b []byte, level int) error {
	count := int(native.Uint16(b[10:]))
	if count == 0 || pageHead+count*element > len(b) {
		return errOverflow
	}
	for n := range count {
		e := b[pageHead+n*element:]
		if _, err := within(e, uint64(native.Uint32(e)), uint64(native.Uint32(e[4:]))); err != nil {
			return err
		}
		if err := w.tree(native.Uint64(e[8:]), level+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *pageWalk) leaf(b []byte, level int) error {
	count := int(native.Uint16(b[10:]))
	if pageHead+count*element > len(b) {
		return errOverflow
	}
	for n := range count {
		e := b[pageHead+n*element:]
		at, key, size := uint64(native.Uint32(e[4:])), uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
		entry, err := within(e, at, key+size)
		if err != nil {
			return err
		}
		if native.Uint32(e)&bucketFlag != 0 {
			if err := w.bucket(entry[key:], level); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket reads a bucket, which stands in pages of its own or, if it is small, in its entry.
func (w *pageWalk) bucket(b []byte, level int) error {
	if len(b) < bucketHead || level > mostLevels {
		return errOverflow
	}
	if root := native.Uint64(b); root != 0 {
		return w.tree(root, level+1)
	}
	inline := b[bucketHead:]
	if len(inline) < pageHead {
		return errOverflow
	}
	if native.Uint16(inline[8:]) != pageLeaf {
		return errKind
	}
	return w.leaf(inline, level+1)
}

// within is a part of a page, if it is one.
func within(b []byte, at, size uint64) ([]byte, error) {
	if at+size > uint64(len(b)) {
		return nil, errOverflow
	}
	return b[at : at+size], nil
}
