package listings

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sync"
	"unicode/utf8"
)

// content sketches a body whose records are where they are expected. It is zero where that is not sure.
func (s *sketch) content(body []byte) Sum {
	found := s.read(body)
	defer found.release()
	return found.content
}

// scan is what a scanner has found in a body: nothing where it gave up.
type scan struct {
	content Sum
	marks   []uint32 // of what is watched of the records, one record after the other
	usual   bool     // the body is JSON, each number and word of which is written as in canonical form, and each text if judged
	at      string   // pointer to the list
	parts            // of the list, where it is usual
	scanner *scanner // whose the parts are; nil: there are none
}

// judgeTexts makes the most of usual. Who knows the answer already need not ask for it.
func (f *scan) judgeTexts(body []byte) { f.usual = f.usual && hasUsualTexts(body) }

// release gives the parts back.
func (f *scan) release() {
	if f.scanner != nil {
		f.scanner.end()
	}
	*f = scan{}
}

// read is content, and whatever else can be seen on the way.
func (s *sketch) read(body []byte) scan {
	k := scanners.Get().(*scanner)
	k.begin(s, trimBOM(body))
	total, end, ok := k.value(s.root, space(k.b, 0))
	if !ok || space(k.b, end) != len(k.b) {
		k.end()
		return scan{}
	}
	found := scan{content: total.with(s.place, 'p'), marks: k.marks, usual: !k.odd, at: s.pointer}
	if k.odd {
		k.end()
	} else {
		found.parts, found.scanner = k.parts, k
	}
	return found
}

// scanner goes through a body once. It takes no more than proper JSON and gives up at whatever is odd: then the answer is
// decoded. What it hashes byte by byte it need not judge: it equals something that was decoded, or not.
type scanner struct {
	*sketch
	b     []byte
	names []memberName // of the objects around and this one, to find one that stands twice
	depth int
	odd   bool // a number or a word was not as in canonical form, or was none, or nobody asked
	marks []uint32
	parts parts
	room  []byte
}

var scanners = sync.Pool{New: func() any { return &scanner{names: make([]memberName, 0, 64)} }}

// memberName is where a name stands, and something by which most are told apart.
type memberName struct {
	like     uint64
	from, to int
}

// Bounds of what is sketched.
const (
	maxSketchDepth = maxRecordDepth
	maxSketchNames = 256 // of one object
)

func (k *scanner) begin(s *sketch, b []byte) {
	k.sketch, k.b, k.depth = s, b, 0
	k.odd = !s.record.members
	k.names = k.names[:0]
	k.parts.reset(s.record.members && len(b) <= largestBuffer)
}

// end lets go of the body, and of what was unusually large. Then the scanner is somebody else's.
func (k *scanner) end() {
	k.sketch, k.b, k.marks = nil, nil, nil
	if cap(k.room) > 1<<16 {
		k.room = nil
	}
	if cap(k.parts.members) > mostParts || cap(k.parts.records) > mostParts {
		k.parts = parts{}
	}
	scanners.Put(k)
}

// value sums up what stands at i and returns where it ends.
func (k *scanner) value(s *spot, i int) (Sum, int, bool) {
	if i == len(k.b) {
		return Sum{}, i, false
	}
	switch k.b[i] {
	case '{':
		return k.object(s, i)
	case '[':
		k.stray(s)
		return k.array(s, i)
	}
	k.stray(s)
	end, ok := k.scalar(i)
	return sumOf(k.b[i:end]), end, ok
}

// scalar is where a text, a number or a word ends that begins at i.
func (k *scanner) scalar(i int) (end int, ok bool) {
	end, ok = scalarEnd(k.b, i)
	if ok && k.b[i] != '"' && !isCanonicalWord(k.b[i:end]) {
		k.odd = true
	}
	return end, ok
}

// stray notes that something else than a record stands where one should.
func (k *scanner) stray(s *spot) {
	if s != nil && s.members {
		k.parts.reset(false)
	}
}

// array is the sum of its elements in their order.
func (k *scanner) array(s *spot, i int) (all Sum, end int, ok bool) {
	if k.depth++; k.depth > maxSketchDepth {
		return all, i, false
	}
	if s != nil && s.at == inList {
		s = k.record
	} else {
		s = nil
	}
	all, end, ok = k.elements(s, space(k.b, i+1))
	k.depth--
	return all.with(Sum{}, '['), end, ok
}

func (k *scanner) elements(s *spot, i int) (all Sum, end int, ok bool) {
	if i < len(k.b) && k.b[i] == ']' {
		return all, i + 1, true
	}
	for {
		one, next, ok := k.value(s, i)
		if i = space(k.b, next); !ok || i == len(k.b) {
			return all, i, false
		}
		all = all.with(one, ',')
		switch k.b[i] {
		case ',':
			i = space(k.b, i+1)
		case ']':
			return all, i + 1, true
		default:
			return all, i, false
		}
	}
}

// object is the sum of its members in any order.
func (k *scanner) object(s *spot, i int) (all Sum, end int, ok bool) {
	if k.depth++; k.depth > maxSketchDepth {
		return all, i, false
	}
	if s != nil && s.at == inList { // one record in place of the list
		s = k.record
	}
	if s != nil && s.marks {
		k.beginMarks()
	}
	if s != nil && s.members {
		k.parts.begin(i)
	}
	first := len(k.names)
	all, end, ok = k.members(s, first, space(k.b, i+1))
	if s != nil && s.members {
		k.parts.end(end)
	}
	k.names = k.names[:first]
	k.depth--
	return all.with(Sum{}, '{'), end, ok
}

// members are summed up from i on. first is where the names of the object begin.
func (k *scanner) members(s *spot, first, i int) (all Sum, end int, ok bool) {
	if i < len(k.b) && k.b[i] == '}' {
		return all, i + 1, true
	}
	for i < len(k.b) {
		one, next, ok := k.member(s, first, i)
		if i = space(k.b, next); !ok || i == len(k.b) {
			break
		}
		if s != nil && s.members {
			k.parts.member(k.b, k.names[len(k.names)-1], next)
		}
		all = all.plus(one)
		switch k.b[i] {
		case ',':
			i = space(k.b, i+1)
		case '}':
			return all, i + 1, true
		default:
			return all, i, false
		}
	}
	return all, i, false
}

// member is a name and its value.
func (k *scanner) member(s *spot, first, i int) (Sum, int, bool) {
	name, end, ok := k.name(first, i)
	if !ok {
		return Sum{}, i, false
	}
	at := space(k.b, end)
	if at == len(k.b) || k.b[at] != ':' {
		return Sum{}, at, false
	}
	if at = space(k.b, at+1); at == len(k.b) {
		return Sum{}, at, false
	}
	if s.concerns(name) {
		return k.concerned(s, name, i, at)
	}
	if c := k.b[at]; c == '{' || c == '[' {
		one, end, ok := k.value(nil, at)
		return sumOf(name).with(one, 'm'), end, ok
	}
	end, ok = k.scalar(at)
	return k.whole(i, len(name), at, end), end, ok
}

// whole is the sum of a member all of which counts, whatever white space is around its colon: it begins at i, its value at
// at.
func (k *scanner) whole(i, name, at, end int) Sum {
	if at == i+len(`"":`)+name {
		return sumOf(k.b[i:end])
	}
	k.room = append(append(k.room[:0], k.b[i:i+len(`""`)+name]...), ':')
	k.room = append(k.room, k.b[at:end]...)
	return sumOf(k.room)
}

// concerned is a member that may not count, or not all of it: it begins at i, its value at at.
func (k *scanner) concerned(s *spot, name []byte, i, at int) (one Sum, end int, ok bool) {
	if c := k.b[at]; c == '{' || c == '[' {
		one, end, ok = k.value(s.below(name), at)
		one = sumOf(name).with(one, 'm')
	} else if end, ok = k.scalar(at); ok {
		if s.leadsTo(name) {
			return one, at, false // no list where it should be
		}
		if kind := s.kindUnread(name, k.b[at:end]); kind != 0 {
			one = sumOf(name).with(Sum{}, kind)
		} else {
			one = k.whole(i, len(name), at, end)
		}
	}
	if ok && s.marks {
		k.mark(name, k.b[at:end])
	}
	return one, end, ok
}

// name reads the name of a member. It gives up where two names might be one.
func (k *scanner) name(first, i int) (name []byte, end int, ok bool) {
	if k.b[i] != '"' {
		return nil, i, false
	}
	n := bytes.IndexByte(k.b[i+1:], '"')
	if n < 0 {
		return nil, i, false
	}
	name, end = k.b[i+1:i+1+n], i+2+n
	like, plain := alike(name)
	if !plain && (!utf8.Valid(name) || bytes.IndexByte(name, '\\') >= 0) || len(k.names)-first == maxSketchNames {
		return nil, i, false
	}
	for _, other := range k.names[first:] {
		if other.like == like && string(k.b[other.from:other.to]) == string(name) {
			return nil, i, false
		}
	}
	k.names = append(k.names, memberName{like, i + 1, end - 1})
	return name, end, true
}

// alike is the same for the same name. plain says that it holds neither a backslash nor anything beyond ASCII.
func alike(name []byte) (like uint64, plain bool) {
	const ones = 0x0101_0101_0101_0101
	const tops, backslashes = ones << 7, ones * '\\'
	odd, n := uint64(0), len(name)
	like = uint64(n)
	for {
		var word uint64
		if len(name) >= 8 {
			word = binary.LittleEndian.Uint64(name)
		} else {
			for i := len(name) - 1; i >= 0; i-- {
				word = word<<8 | uint64(name[i])
			}
		}
		slash := word ^ backslashes
		odd |= word | (slash-ones)&^slash
		like = bits.RotateLeft64(like, 23)*tagSpread ^ word
		if len(name) <= 8 {
			return like, odd&tops == 0
		}
		name = name[8:]
	}
}

// space is where something else than white space stands, from i on.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// scalarEnd is where a text, a number or a word ends that begins at i.
func scalarEnd(b []byte, i int) (end int, ok bool) {
	if b[i] == '"' {
		return textEnd(b, i)
	}
	for end = i; end < len(b) && !endsWord[b[end]]; {
		end++
	}
	return end, end > i
}

var endsWord = [256]bool{
	',': true, ']': true, '}': true, ' ': true, '\n': true, '\r': true, '\t': true, '"': true, '{': true, '[': true, ':': true,
}

// textEnd is where a text ends: behind the first quote that no backslash stands before.
func textEnd(b []byte, i int) (end int, ok bool) {
	for end = i + 1; ; end++ {
		n := bytes.IndexByte(b[end:], '"')
		if n < 0 {
			return i, false
		}
		end += n
		slashes := end
		for b[slashes-1] == '\\' { // the quote at the beginning is none
			slashes--
		}
		if (end-slashes)%2 == 0 {
			return end + 1, true
		}
	}
}
