package listings

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Hashes tell whether an answer is one that was read before, without decoding it. They are 128 bits under keys that each
// process draws anew and nobody else sees: who writes what we read cannot aim at a collision, nor learn of one. The zero
// value is the answer of nothing.
type Hashes struct {
	Body Sum // of the bytes of the body
	// Content is the same also where only the order of members differs, or what nobody reads: numbers and texts beside the
	// records, ignored fields, and the score. It is zero where that is not sure, as in an answer that is odd in any way.
	Content Sum
}

// Sum is 128 bits of hash.
type Sum [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) Sum {
	return Sum{maphash.Bytes(hashSeeds[0], b), maphash.Bytes(hashSeeds[1], b)}
}

// with is the sum of what both stand for, in this order.
func (s Sum) with(t Sum, tag uint64) Sum {
	var b [40]byte
	for n, part := range [5]uint64{s[0], s[1], t[0], t[1], tag} {
		binary.NativeEndian.PutUint64(b[8*n:], part)
	}
	return sumOf(b[:])
}

// Is says whether an answer with these hashes is the one with those.
func (h Hashes) Is(other Hashes) bool {
	return h.Body == other.Body && h.Body != Sum{} || h.Content == other.Content && h.Content != Sum{}
}

// Renewed are the hashes by which an answer is known that was just recognised as the same.
func (h Hashes) Renewed(same Hashes) Hashes {
	if same.Body != (Sum{}) {
		h.Body = same.Body
	}
	if same.Content != (Sum{}) {
		h.Content = same.Content
	}
	return h
}

// sketch says what of the answers of an operation is read, so that the rest can be left out of their content.
type sketch struct {
	pointer string
	path    []string // its tokens, which lead to the list of records
	ignore  [][]string
	score   bool                // the score of a record is left out
	heeded  map[string]struct{} // plain names of what is read whatever it is ignored for
}

// envelopeNames are the plain names of what is read beside the records.
var envelopeNames = plainNames(
	totalNames, countNames, metaNames, errorNames, failureNames, successNames, codeNames, errorCodes, referenceNames,
	[]string{"status", "agencyId", "value", "relation"},
)

// recordNames are the plain names of what is read of a record beside its digest.
var recordNames = plainNames(
	referenceNames, []string{"agencyId"}, creationNames, wrapperNames, personFields, insertionMembers,
	errorNames, errorCodes,
)

func plainNames(lists ...[]string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, list := range lists {
		for _, name := range list {
			all[plain(name)] = struct{}{}
		}
	}
	return all
}

// content sketches a body whose records are where they are expected.
func (s *sketch) content(body []byte) Sum {
	k := scanner{b: trimBOM(body), sketch: s, names: make([]uint64, 0, 64)}
	total, ok := k.value(spot{at: around, path: s.path, envelope: true})
	if k.space(); !ok || k.i != len(k.b) {
		return Sum{}
	}
	for _, token := range s.path { // another place is another answer
		total = total.with(sumOf([]byte(token)), 'p')
	}
	return total
}

// newSketch is for an operation whose records are at path.
func newSketch(path string, ignore, idFields []string, score bool) *sketch {
	return &sketch{
		pointer: path, path: slices.Collect(jsontext.Pointer(path).Tokens()), ignore: tokens(ignore), score: score, heeded: plainNames(idFields),
	}
}

// scanner goes through a body once. It takes no more than proper JSON and gives up at whatever is odd: then the answer is
// decoded. What it hashes byte by byte it need not judge: it equals something that was decoded, or not.
type scanner struct {
	*sketch
	b     []byte
	i     int
	names []uint64 // of the objects around and this one, to find one that stands twice
	depth int
}

// Bounds of what is sketched.
const (
	maxSketchDepth = maxRecordDepth
	maxSketchNames = 256 // of one object
)

// spot is where a value stands.
type spot struct {
	at       place
	envelope bool     // around the records, so that path leads on to them
	path     []string // to the list of records from here
	ignore   [][]string
}

type place int

const (
	inside place = iota // a value all of which counts
	around              // the envelope
	inList              // the list of records
	record              // one of them, or an object in it that holds what is ignored
)

// below is the spot of a member.
func (s spot) below(name []byte) spot {
	switch {
	case s.at == around && s.envelope && string(name) == s.path[0]:
		return spot{at: around, envelope: true, path: s.path[1:]}
	case s.at == around:
		return spot{at: around, path: nil}
	case s.at == record:
		if deeper, _ := below(s.ignore, string(name)); len(deeper) > 0 {
			return spot{at: record, ignore: deeper}
		}
	}
	return spot{}
}

func (k *scanner) space() {
	for k.i < len(k.b) {
		switch k.b[k.i] {
		case ' ', '\n', '\r', '\t':
			k.i++
		default:
			return
		}
	}
}

// peek is the next byte that is no white space; 0 at the end.
func (k *scanner) peek() byte {
	k.space()
	if k.i == len(k.b) {
		return 0
	}
	return k.b[k.i]
}

func (k *scanner) value(s spot) (Sum, bool) {
	if s.envelope && len(s.path) == 0 {
		s = spot{at: inList}
	}
	c := k.peek()
	if c == '{' || c == '[' {
		return k.nested(s, c)
	}
	from := k.i
	ok := k.scalar()
	return sumOf(k.b[from:k.i]), ok
}

func (k *scanner) nested(s spot, c byte) (all Sum, ok bool) {
	if k.depth++; k.depth > maxSketchDepth {
		return all, false
	}
	if c == '[' {
		all, ok = k.array(s)
	} else {
		if s.at == inList { // one record in place of the list
			s = spot{at: record, ignore: k.ignore}
		}
		first := len(k.names)
		all, ok = k.object(s, first)
		k.names = k.names[:first]
	}
	k.depth--
	return all, ok
}

// scalar steps over a text, a number or a word.
func (k *scanner) scalar() bool {
	if k.i < len(k.b) && k.b[k.i] == '"' {
		return k.text()
	}
	from := k.i
	for k.i < len(k.b) {
		switch k.b[k.i] {
		case ',', ']', '}', ' ', '\n', '\r', '\t', '"', '{', '[', ':':
			return k.i > from
		}
		k.i++
	}
	return k.i > from
}

// text steps over a text, up to the first quote that no backslash stands before.
func (k *scanner) text() bool {
	for k.i++; ; {
		n := bytes.IndexByte(k.b[k.i:], '"')
		if n < 0 {
			return false
		}
		end := k.i + n
		slashes := end
		for slashes > k.i && k.b[slashes-1] == '\\' {
			slashes--
		}
		if k.i = end + 1; (end-slashes)%2 == 0 {
			return true
		}
	}
}

// array is the sum of its elements in their order.
func (k *scanner) array(s spot) (all Sum, ok bool) {
	inner := spot{}
	if s.at == inList {
		inner = spot{at: record, ignore: k.ignore}
	}
	k.i++
	if k.peek() == ']' {
		k.i++
		return all.with(all, '['), true
	}
	for {
		one, ok := k.value(inner)
		if !ok {
			return all, false
		}
		all = all.with(one, '[')
		switch k.peek() {
		case ',':
			k.i++
		case ']':
			k.i++
			return all, true
		default:
			return all, false
		}
	}
}

// object is the sum of its members in any order. first is where their names begin.
func (k *scanner) object(s spot, first int) (all Sum, ok bool) {
	k.i++
	if k.peek() == '}' {
		k.i++
		return all.with(all, '{'), true
	}
	for {
		one, ok := k.member(s, first)
		if !ok {
			return all, false
		}
		all[0] += one[0]
		all[1] += one[1]
		switch k.peek() {
		case ',':
			k.i++
		case '}':
			k.i++
			return all.with(Sum{}, '{'), true
		default:
			return all, false
		}
	}
}

// member is a name and its value. first is where the names of its object begin.
func (k *scanner) member(s spot, first int) (Sum, bool) {
	if k.peek() != '"' {
		return Sum{}, false
	}
	from := k.i
	name, ok := k.name(first)
	if !ok || k.peek() != ':' {
		return Sum{}, false
	}
	k.i++
	if c := k.peek(); c == '{' || c == '[' {
		all, ok := k.value(s.below(name))
		return sumOf(name).with(all, 'm'), ok
	}
	value := k.i
	if !k.scalar() {
		return Sum{}, false
	}
	if s.envelope && len(s.path) == 1 && string(name) == s.path[0] {
		return Sum{}, false // no list where it should be
	}
	if kind := k.kindUnread(s, name, k.b[value:k.i]); kind != 0 {
		return sumOf(name).with(Sum{}, kind), true
	}
	return sumOf(k.b[from:k.i]), true
}

// name reads the name of a member. It gives up where two names might be one.
func (k *scanner) name(first int) ([]byte, bool) {
	from := k.i + 1
	if !k.text() {
		return nil, false
	}
	name := k.b[from : k.i-1]
	if bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
		return nil, false
	}
	h := maphash.Bytes(hashSeeds[0], name)
	if slices.Contains(k.names[first:], h) || len(k.names)-first == maxSketchNames {
		return nil, false
	}
	k.names = append(k.names, h)
	return name, true
}
