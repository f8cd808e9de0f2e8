package listings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A body is decoded once, into a document that lists all of its values with their places in the text. Its structure must be
// that of JSON; texts and names may be broken, and names stand twice: that is the trouble of the record that holds them.

// document is a decoded text.
type document struct {
	text   []byte
	nodes  []node  // in the order of the text: what a value holds follows it
	sorted []value // the members of each object by name
	names  []name  // of members, each spelling once
	known  map[string]int32

	decoder jsontext.Decoder
}

// node is a value in a document.
type node struct {
	from, to       uint32 // in the text
	next           int32  // the node behind this one and all that it holds
	name           int32  // in names; -1: it is no member
	members, count int32  // of an object, in sorted
	kind           jsontext.Kind
	twice          bool // an object that holds a name twice
}

// name is how a member is called.
type name struct {
	quoted    string // as it stands there
	text      string
	units     []uint16 // the text in UTF-16
	canonical string   // the text, quoted in the one way
	plain     string   // without what differs by style only
	broken    bool     // holds what is no text; read as U+FFFD
}

// value is a value of a document; the zero value stands for one that is absent.
type value struct {
	doc *document
	at  int32
}

// maxValues bounds what is made of a body: 2,000 values for each of a thousand records.
const maxValues = 2_000_000

var errTooManyValues = errors.New("more values than fit any page")

// decode reads one JSON value and no more. The text must not change any more. What is wrong is said in words that quote
// nothing; empty: nothing is.
func decode(text []byte) (root value, wrong string) {
	doc := &document{text: text, nodes: make([]node, 0, len(text)/32+8), known: make(map[string]int32, 32)}
	d := &doc.decoder
	d.Reset(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := errTooManyValues
	if len(text) < math.MaxUint32 {
		err = doc.read(-1)
	}
	switch {
	case errors.Is(err, errTooManyValues):
		return value{}, err.Error()
	case errors.Is(err, io.EOF):
		return value{}, "an empty body"
	case err != nil && bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")):
		return value{}, "HTML"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return value{}, fmt.Sprintf("JSON that is cut off after %d bytes", len(text))
	case err != nil:
		return value{}, fmt.Sprintf("no JSON at byte %d", offset(err))
	}
	if end := d.InputOffset(); len(bytes.Trim(text[end:], " \t\r\n")) > 0 { // JSON's own white space
		return value{}, fmt.Sprintf("more after the JSON, at byte %d", end)
	}
	return value{doc, 0}, ""
}

func offset(err error) int64 {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntax.ByteOffset
	}
	return 0
}

// read appends the value that comes next, and all that it holds.
func (doc *document) read(name int32) error {
	at, d := len(doc.nodes), &doc.decoder
	if at == maxValues {
		return errTooManyValues
	}
	kind := d.PeekKind()
	doc.nodes = append(doc.nodes, node{kind: kind, name: name})
	if kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		raw, err := d.ReadValue()
		to := d.InputOffset()
		doc.nodes[at].from, doc.nodes[at].to, doc.nodes[at].next = uint32(to-int64(len(raw))), uint32(to), int32(at+1)
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	doc.nodes[at].from = uint32(d.InputOffset() - 1)
	end := jsontext.KindEndArray
	if kind == jsontext.KindBeginObject {
		end = jsontext.KindEndObject
	}
	for d.PeekKind() != end {
		member := int32(-1)
		if kind == jsontext.KindBeginObject {
			quoted, err := d.ReadValue()
			if err != nil {
				return err
			}
			member = doc.intern(quoted)
		}
		if err := doc.read(member); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	doc.nodes[at].to, doc.nodes[at].next = uint32(d.InputOffset()), int32(len(doc.nodes))
	if kind == jsontext.KindBeginObject {
		doc.sort(value{doc, int32(at)})
	}
	return err
}

// intern returns the place of a name by its spelling.
func (doc *document) intern(quoted []byte) int32 {
	if n, ok := doc.known[string(quoted)]; ok {
		return n
	}
	n := name{quoted: string(quoted)}
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		n.text, n.canonical = n.quoted[1:len(n.quoted)-1], n.quoted
	} else {
		text, err := jsontext.AppendUnquote(nil, quoted) // the error is about UTF-8, which is mended
		canonical, _ := jsontext.AppendQuote(nil, text)
		n.text, n.canonical, n.broken = string(text), string(canonical), err != nil
	}
	n.plain, n.units = plain(n.text), utf16.Encode([]rune(n.text))
	doc.names = append(doc.names, n)
	doc.known[n.quoted] = int32(len(doc.names) - 1)
	return int32(len(doc.names) - 1)
}

// sort lists the members of an object by name, in UTF-16 as RFC 8785 has it, those of one name in their order.
func (doc *document) sort(o value) {
	first := len(doc.sorted)
	for m := range o.members() {
		doc.sorted = append(doc.sorted, m)
	}
	members := doc.sorted[first:]
	slices.SortStableFunc(members, byName)
	n := o.node()
	n.members, n.count = int32(first), int32(len(members))
	for i := 1; i < len(members); i++ {
		n.twice = n.twice || members[i-1].called().text == members[i].called().text
	}
}

func byName(a, b value) int { return slices.Compare(a.called().units, b.called().units) }

func (v value) node() *node { return &v.doc.nodes[v.at] }

// called is how a member is called; nothing if it is none.
func (v value) called() *name {
	if n := v.node().name; n >= 0 {
		return &v.doc.names[n]
	}
	return &name{}
}

// kind is that of the value, 0 where it is absent.
func (v value) kind() jsontext.Kind {
	if v.doc == nil {
		return 0
	}
	return v.node().kind
}

// raw is the text of the value as it stands there; nil where it is absent.
func (v value) raw() jsontext.Value {
	if v.doc == nil {
		return nil
	}
	n := v.node()
	return v.doc.text[n.from:n.to:n.to]
}

func (v value) isObject() bool { return v.kind() == jsontext.KindBeginObject }
func (v value) isArray() bool  { return v.kind() == jsontext.KindBeginArray }

// members yields the members of an object, in their order; nothing for anything else.
func (v value) members() iter.Seq[value] {
	return func(yield func(value) bool) {
		if v.isObject() {
			v.inside(yield)
		}
	}
}

// elements yields the elements of an array; nothing for anything else.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		if v.isArray() {
			v.inside(yield)
		}
	}
}

func (v value) inside(yield func(value) bool) {
	for at := v.at + 1; at < v.node().next; at = v.doc.nodes[at].next {
		if !yield(value{v.doc, at}) {
			return
		}
	}
}

// text is the content of a JSON string; false for anything else.
func (v value) text() (string, bool) {
	if v.kind() != jsontext.KindString {
		return "", false
	}
	raw := v.raw()
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), true
	}
	s, _ := jsontext.AppendUnquote(nil, raw) // the error is about UTF-8, which is mended
	return string(s), true
}

// longestNumber is that of a number that may be meant.
const longestNumber = 64

// number is the text of a JSON number; false for anything else, and for one that is too long to be meant.
func (v value) number() (string, bool) {
	if v.kind() != jsontext.KindNumber {
		return "", false
	}
	return string(v.raw()), len(v.raw()) <= longestNumber
}

// scalar is the text of a JSON string or number.
func (v value) scalar() (string, bool) {
	if s, ok := v.text(); ok {
		return s, true
	}
	return v.number()
}

// numeric is the text of a number, or of a text that is one.
func (v value) numeric() (string, bool) {
	s, _ := v.scalar()
	raw := jsontext.Value(strings.TrimSpace(s))
	return s, raw.Kind() == jsontext.KindNumber && len(raw) <= longestNumber && raw.IsValid()
}

// isEmpty says whether a value is null, "", [] or {}.
func (v value) isEmpty() bool {
	switch v.kind() {
	case jsontext.KindNull:
		return true
	case jsontext.KindString:
		return len(v.raw()) == len(`""`)
	case jsontext.KindBeginArray, jsontext.KindBeginObject:
		return v.node().next == v.at+1
	}
	return false
}

// typeName names the JSON type of a value.
func (v value) typeName() string { return TypeOf(v.raw()) }

// TypeOf names the JSON type of a value by its text; where that is empty it is nothing.
func TypeOf(raw []byte) string {
	switch jsontext.Value(raw).Kind() {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "boolean"
	case jsontext.KindString:
		return "string"
	case jsontext.KindNumber:
		return "number"
	case jsontext.KindBeginObject:
		return "object"
	case jsontext.KindBeginArray:
		return "array"
	}
	return "nothing"
}

// object is the members of an object by name, for their order says nothing, or those of several one after the other.
type object []value

// object returns the members of an object; nil for anything else.
func (v value) object() object {
	if !v.isObject() {
		return nil
	}
	n := v.node()
	return object(v.doc.sorted[n.members : n.members+n.count : n.members+n.count])
}

// all yields the values of the first name, wherever they stand in the object, then those of the next. Names are plain.
func (o object) all(names ...string) iter.Seq[value] {
	return func(yield func(value) bool) {
		for _, name := range names {
			for _, m := range o {
				if m.called().plain == name && !yield(m) {
					return
				}
			}
		}
	}
}

// get is the first of all.
func (o object) get(names ...string) value {
	for v := range o.all(names...) {
		return v
	}
	return value{}
}

// object is the first that is an object with members.
func (o object) object(names ...string) object {
	for v := range o.all(names...) {
		if inner := v.object(); len(inner) > 0 {
			return inner
		}
	}
	return nil
}

// text is the trimmed content of the first that is a text with more than white space.
func (o object) text(names ...string) string { return o.first(value.text, names) }

// scalar is like text and takes the text of a number, too.
func (o object) scalar(names ...string) string { return o.first(value.scalar, names) }

// number is the first that is a number, or a text that is one.
func (o object) number(names ...string) json.Number {
	return json.Number(o.first(value.numeric, names))
}

func (o object) first(read func(value) (string, bool), names []string) string {
	for v := range o.all(names...) {
		if s, ok := read(v); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}
