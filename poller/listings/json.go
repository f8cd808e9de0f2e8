package listings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a value of a decoded text; the zero value stands for one that is absent. The structure
// of a text is proper JSON. Its strings may be no text and its names may repeat: that is a defect
// of the record that holds them.
type value struct {
	doc      *document
	from, to uint32
	name     *name   // nil: it is no member
	inner    []value // elements in their order, members by name, those of one name in their order
}

// document is what the values of a text share.
type document struct {
	text   []byte
	flawed bool // a string may be broken, a name stands twice in an object, or something is nested too deep for a record
	spaced bool // there is white space between values
}

// name is the name of a member.
type name struct {
	quoted string // as it is written
	text   string
	plain  string // without what differs by style only

	canonical string // as RFC 8785 writes it
	broken    bool   // it is no text
	outside   bool   // of the digest of every contact request
	reference int    // place in referenceNames, counted from 1; 0: it is none of them
}

// maxValues bounds what is made of a body: 2,000 values for each of a thousand records.
const maxValues = 2_000_000

// maxNesting bounds the depth of a body.
const maxNesting = 10_000

var errTooManyValues = errors.New("more values than fit any page")

// decode reads one JSON value and no more. The text must not change afterwards. wrong says what is
// wrong without quoting the text; it is empty if nothing is.
func decode(text []byte) (root value, wrong string) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	text = bytes.TrimRight(text, " \t\r\n")
	r.text, r.doc, r.at, r.room, r.count, r.stack = text, &document{text: text, flawed: isBroken(text)}, 0, nil, 0, r.stack[:0]
	if r.named > maxNamed { // those of one API are few
		clear(r.names)
		r.named = 0
	}
	root, err := r.value(nil, 0)
	end := r.at
	r.text, r.doc = nil, nil
	switch {
	case err == nil && end < len(text):
		return value{}, fmt.Sprintf("more after the JSON, at byte %d", end)
	case err == nil:
		return root, ""
	case errors.Is(err, errTooManyValues):
	case len(text) == 0:
		return value{}, "an empty body"
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")):
		return value{}, "HTML"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return value{}, fmt.Sprintf("JSON that is cut off after %d bytes", len(text))
	}
	return value{}, err.Error()
}

// readers are those that are not used, with what they have allocated.
var readers = sync.Pool{New: func() any { return &reader{names: map[string]*name{}} }}

// maxNamed is how many bytes of names a reader keeps from one body to the next.
const maxNamed = 16 << 10

// reader reads JSON into values. It keeps offsets and copies nothing, unlike the decoders of the
// libraries, which take several times as long.
type reader struct {
	doc   *document
	text  []byte
	at    int
	names map[string]*name // by how they are written
	named int              // bytes of them
	stack []value          // of the objects and arrays that are open
	room  []value          // for those that are closed
	count int
}

// wrong is the error for the byte at which the reader stands.
func (r *reader) wrong() error {
	if r.at >= len(r.text) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("no JSON at byte %d", r.at)
}

// next is the byte at which the reader stands; 0 at the end.
func (r *reader) next() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

func (r *reader) skipSpace() {
	for ; r.at < len(r.text); r.at++ {
		if c := r.text[r.at]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return
		}
		r.doc.spaced = true
	}
}

// value reads the next value and everything in it.
func (r *reader) value(called *name, depth int) (value, error) {
	r.skipSpace()
	if r.count++; r.count > maxValues {
		return value{}, errTooManyValues
	}
	v := value{doc: r.doc, name: called, from: uint32(r.at)}
	var err error
	switch c := r.next(); {
	case c == '"':
		err = r.string()
	case c == '{', c == '[':
		if depth == maxNesting {
			return v, r.wrong()
		}
		r.doc.flawed = r.doc.flawed || depth >= maxRecordDepth
		v.inner, err = r.inside(c, depth+1)
	default:
		err = r.word()
	}
	v.to = uint32(r.at)
	return v, err
}

// inside reads the members of an object or the elements of an array, which opens with a bracket.
func (r *reader) inside(open byte, depth int) ([]value, error) {
	shut := open + 2
	first := len(r.stack)
	r.at++
	r.skipSpace()
	for r.next() != shut {
		var called *name
		if open == '{' {
			from := r.at
			if r.next() != '"' {
				return nil, r.wrong()
			}
			if err := r.string(); err != nil {
				return nil, err
			}
			called = r.intern(r.text[from:r.at])
			if r.skipSpace(); r.next() != ':' {
				return nil, r.wrong()
			}
			r.at++
		}
		v, err := r.value(called, depth)
		if err != nil {
			return nil, err
		}
		r.stack = append(r.stack, v)
		r.skipSpace()
		if r.next() == ',' {
			r.at++
			if r.skipSpace(); r.next() == shut {
				return nil, r.wrong()
			}
		} else if r.next() != shut {
			return nil, r.wrong()
		}
	}
	r.at++
	list := r.keep(r.stack[first:], open == '{')
	r.stack = r.stack[:first]
	return list, nil
}

// string reads a string, whose bytes may be no UTF-8.
func (r *reader) string() error {
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return nil
		case c < ' ':
			return r.wrong()
		case c == '\\':
			if err := r.escape(); err != nil {
				return err
			}
		}
	}
	return r.wrong()
}

// escape reads an escape to its last byte.
func (r *reader) escape() error {
	r.at++
	if c := r.next(); c != 'u' {
		if c == 0 || strings.IndexByte(`"\/bfnrt`, c) < 0 {
			return r.wrong()
		}
		return nil
	}
	for range 4 {
		r.at++
		if c := r.next(); c == 0 || strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
			return r.wrong()
		}
	}
	return nil
}

// word reads a number, or what is written in letters.
func (r *reader) word() error {
	from := r.at
	for r.at < len(r.text) && strings.IndexByte(",]} \t\r\n", r.text[r.at]) < 0 {
		r.at++
	}
	if raw := jsontext.Value(r.text[from:r.at]); len(raw) == 0 || !raw.IsValid() {
		if r.at < len(r.text) {
			r.at = from
		}
		return r.wrong()
	}
	return nil
}

// keep copies values to where they stay, members ordered by name.
func (r *reader) keep(list []value, members bool) []value {
	if len(list) > cap(r.room)-len(r.room) {
		r.room = make([]value, 0, max(len(list), min(len(r.text)/32, 256)))
	}
	if members {
		slices.SortFunc(list, func(a, b value) int {
			return cmp.Or(compareUTF16(a.name.text, b.name.text), cmp.Compare(a.from, b.from))
		})
	}
	for n := range list {
		r.doc.flawed = r.doc.flawed || members && n > 0 && list[n-1].name.text == list[n].name.text
	}
	first := len(r.room)
	r.room = append(r.room, list...)
	return r.room[first:len(r.room):len(r.room)]
}

// intern returns the name that is written so, which most records repeat.
func (r *reader) intern(quoted []byte) *name {
	n := r.names[string(quoted)]
	if n == nil {
		n = &name{quoted: string(quoted), text: unquote(quoted)}
		n.plain = plain(n.text)
		n.canonical, n.broken = string(appendCanonicalString(nil, quoted)), isBroken(quoted)
		n.outside, n.reference = usuallyOutside[n.plain], slices.Index(referenceNames, n.plain)+1
		r.names[n.quoted] = n
		r.named += len(quoted)
	}
	return n
}

// compareUTF16 orders names as RFC 8785 does. That differs from their order in bytes only between
// characters above U+FFFF, whose surrogates come earlier, and those from U+E000 on.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i < len(a) && i < len(b) && min(a[i], b[i]) >= 0xEE && (a[i] >= 0xF0) != (b[i] >= 0xF0) {
		return cmp.Compare(b[i], a[i])
	}
	return cmp.Compare(a[i:], b[i:])
}

// unquote is the content of a JSON string. What is no text in it becomes U+FFFD.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// raw is the text of the value; nil where it is absent.
func (v value) raw() jsontext.Value {
	if v.doc == nil {
		return nil
	}
	return v.doc.text[v.from:v.to:v.to]
}

// kind is 0 where the value is absent.
func (v value) kind() jsontext.Kind { return v.raw().Kind() }

func (v value) isObject() bool { return v.kind() == jsontext.KindBeginObject }
func (v value) isArray() bool  { return v.kind() == jsontext.KindBeginArray }

var noName = &name{}

// called is the name of a member; empty where it is none.
func (v value) called() *name { return cmp.Or(v.name, noName) }

// isCalled reports whether a member has one of the names.
func (v value) isCalled(names []string) bool { return slices.Contains(names, v.called().plain) }

// object returns the members of an object; nothing for anything else.
func (v value) object() object {
	if !v.isObject() {
		return nil
	}
	return v.inner
}

// array returns the elements of an array; nothing for anything else.
func (v value) array() []value {
	if !v.isArray() {
		return nil
	}
	return v.inner
}

// text is the content of a JSON string; false for anything else.
func (v value) text() (string, bool) {
	if v.kind() != jsontext.KindString {
		return "", false
	}
	return unquote(v.raw()), true
}

// maxNumber is how long the text of a number may be that is meant as one.
const maxNumber = 64

// number is the text of a JSON number; false for anything else.
func (v value) number() (string, bool) {
	if v.kind() != jsontext.KindNumber {
		return "", false
	}
	return string(v.raw()), len(v.raw()) <= maxNumber
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
	return s, raw.Kind() == jsontext.KindNumber && len(raw) <= maxNumber && raw.IsValid()
}

// isEmpty reports whether a value is null, "", [] or {}.
func (v value) isEmpty() bool {
	switch v.kind() {
	case jsontext.KindNull:
		return true
	case jsontext.KindString:
		return len(v.raw()) == len(`""`)
	case jsontext.KindBeginArray, jsontext.KindBeginObject:
		return len(v.inner) == 0
	}
	return false
}

func (v value) typeName() string { return TypeOf(v.raw()) }

// TypeOf names the JSON type of a value by its text; that of an empty text is nothing.
func TypeOf(raw []byte) string { return cmp.Or(typeNames[jsontext.Value(raw).Kind()], "nothing") }

var typeNames = map[jsontext.Kind]string{
	jsontext.KindNull: "null", jsontext.KindTrue: "boolean", jsontext.KindFalse: "boolean", jsontext.KindNumber: "number",
	jsontext.KindString: "string", jsontext.KindBeginObject: "object", jsontext.KindBeginArray: "array",
}

// object is the members of an object, or those of several one after the other.
type object []value

// all yields the values of the first name, then those of the next. Names are plain.
func (o object) all(names ...string) iter.Seq[value] {
	return func(yield func(value) bool) {
		for _, name := range names {
			for _, m := range o {
				if m.name.plain == name && !yield(m) {
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
