package store

import (
	"encoding/binary"
	"time"
)

// writer and reader are the form of the many small values: varints and fixed hashes. The first byte
// of every value is its version. A reader remembers the first failure; the caller asks for it once, at the end.
type writer struct{ b []byte }

func (w *writer) byte(v byte)    { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
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

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int { return int(r.uint()) }

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 0), 64))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) time() time.Time {
	v := r.varint()
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMilli(v).UTC()
}
