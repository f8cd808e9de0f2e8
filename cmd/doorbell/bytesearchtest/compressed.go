package bytesearchtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
)

const (
	deepest = 2       // compressed data within compressed data, and no deeper
	trial   = 1 << 16 // bytes that are uncompressed from the window alone
)

// largest is how much comes out of compressed data at most. More is an error: what was not searched
// must not count as clean.
var largest int64 = 16 << 30

// uncompressed reads what is compressed in a form.
func uncompressed(f form, from io.Reader) (io.Reader, error) {
	if f == zlibbed {
		return zlib.NewReader(from)
	}
	r, err := gzip.NewReader(from)
	if err == nil {
		r.Multistream(false) // the next one is found by its own head
	}
	return r, err
}

// member searches what may be compressed data. b begins with its first bytes, which stand at the
// offset in the layer.
func (s *search) member(l layer, f form, b []byte, offset int64) error {
	r, err := uncompressed(f, bytes.NewReader(b))
	if err != nil {
		return nil // it only looked so
	}
	inner := layer{depth: l.depth + 1, name: l.name + f.String() + "+", at: l.at}
	if inner.at < 0 {
		inner.at = offset
	}
	// A layer is opened anew, not read on: the window is used meanwhile.
	inner.open = func(from int64) (io.Reader, error) {
		r, err := l.open(offset)
		if err == nil {
			r, err = uncompressed(f, bufio.NewReader(r))
		}
		if err == nil {
			_, err = io.CopyN(io.Discard, r, from)
		}
		return r, err
	}
	head, err := io.ReadAll(io.LimitReader(r, trial))
	if len(head) < trial && err != io.ErrUnexpectedEOF { // it ended, or is damaged, within the window
		return s.scan(inner, head, 0, 0, len(head))
	}
	if r, err = inner.open(0); err != nil {
		return nil
	}
	all := &io.LimitedReader{R: undamaged{r}, N: largest}
	if err := s.stream(inner, all); err != nil || all.N > 0 {
		return err
	}
	return fmt.Errorf("%s: compressed data at %d is longer than %d bytes; what follows in it was not searched", s.file, inner.at, largest)
}

// undamaged is compressed data up to where it is damaged. What cannot be read at all is told by the
// reader of the file.
type undamaged struct{ io.Reader }

func (u undamaged) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}
