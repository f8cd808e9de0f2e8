package listings

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A mark tells whether a member of a record that is ignored has changed all the same: what users ignore first is a counter
// of views, or of contact requests. Marks are made under keys of the process and are of no use to another one.

// mostMarks bounds what is kept of an insertion.
const mostMarks = 16

// Marks of members that are not as others are. No other mark is one of them.
const (
	MarkUnknown uint32 = iota // nobody has looked
	MarkAbsent                // there is none
	firstMark
)

// Watched are the top-level members of a record that pointers lead to or through, the first sixteen: those whose marks are
// made.
func Watched(pointers []string) (names []string) {
	for _, t := range tokens(pointers) {
		if !slices.Contains(names, t[0]) && len(names) < mostMarks {
			names = append(names, t[0])
		}
	}
	return names
}

// shareMarks gives the insertions of a page that was not decoded their own marks.
func (p *InsertionsPage) shareMarks() {
	if len(p.Insertions) == 0 || len(p.marks)%len(p.Insertions) != 0 {
		return
	}
	each := len(p.marks) / len(p.Insertions)
	for n := range p.Insertions {
		p.Insertions[n].Marks = p.marks[n*each : (n+1)*each : (n+1)*each]
	}
}

// mostRoomForMarks bounds the marks of an answer: it may be as full of empty records as it is long.
const mostRoomForMarks = 1 << 20

// beginMarks makes room for the marks of a record. Of an answer that has too many there are fewer than one for each, so none.
func (k *scanner) beginMarks() {
	if len(k.marks) >= mostRoomForMarks {
		return
	}
	for range k.watched {
		k.marks = append(k.marks, MarkAbsent)
	}
}

// mark takes the mark of a member of the last record, if it is watched.
func (k *scanner) mark(name, value []byte) {
	for n, watched := range k.watched {
		if string(name) == watched {
			k.marks[len(k.marks)-len(k.watched)+n] = valueMark(value)
		}
	}
}

// marksOf are those of a record.
func (s *sketch) marksOf(record jsontext.Value) []uint32 {
	k := scanner{sketch: s, b: record}
	if _, _, ok := k.value(s.record, 0); ok {
		return k.marks
	}
	k.marks = nil // odd in a way that is no trouble elsewhere
	k.beginMarks()
	for name, value := range members(record) {
		k.mark([]byte(name), value)
	}
	return k.marks
}

// valueMark is the same for values that are the same in canonical form, and most likely another one for others.
func valueMark(value []byte) uint32 {
	if bytes.IndexByte(value, '\\') >= 0 { // texts may be written in several ways
		canonical, err := jsontext.AppendFormat(nil, value,
			jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true))
		if err == nil {
			value = canonical
		}
	}
	var k scanner
	k.b = value
	sum, _, ok := k.value(nil, 0)
	if !ok {
		sum = sumOf(value)
	}
	return max(uint32(sum[0]), firstMark)
}
