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

	"github.com/go-json-experiment/json/jsontext"
)

// value is a value of a decoded text; the zero value stands for one that is absent. The structure
// of a text is proper JSON. Its strings may be no text and its names may repeat: that is a defect
// of the record that holds them.
type value struct {
	raw  jsontext.Value // without white space
	name *name          // nil: it is no member
	// elements in their order, members by name, those of one name in their order
	inner []value
}

// name is the name of a member.
type name struct {
	text    string
	plain   string // without what differs by style only
	outside bool   // of the digest of every contact request
}

// maxValues bounds what is made of a body: 2,000 values for each of a thousand records.
const maxValues = 2_000_000

// lenient takes names that repeat and strings that are no text.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decode reads a copy of one JSON value and no more. wrong says what is wrong without quoting the
// text; it is empty if nothing is.
func decode(text []byte) (v value, wrong string) {
	text = bytes.Trim(text, " \t\r\n")
	compacted := jsontext.Value(bytes.Clone(text))
	err := compacted.Compact(lenient...)
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case len(text) == 0:
		return v, "an empty body"
	case text[0] == '<':
		return v, "HTML"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return v, fmt.Sprintf("JSON that is cut off after %d bytes", len(text))
	case isSyntax:
		return v, fmt.Sprintf("invalid JSON at byte %d", syntax.ByteOffset)
	case countValues(text) > maxValues:
		return v, "more values than fit on any page"
	}
	r := reader{text: compacted, names: map[string]*name{}}
	r.Decoder = jsontext.NewDecoder(bytes.NewBuffer(compacted), lenient...)
	return r.value(nil), ""
}

// countValues is at least the number of values in a text.
func countValues(text []byte) int {
	return 1 + bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) +
		bytes.Count(text, []byte("{"))
}

// reader divides a text, which is known to be JSON without white space, into values.
type reader struct {
	*jsontext.Decoder
	text  jsontext.Value
	names map[string]*name // by how they are written
	stack []value          // of the objects and arrays that are open
}

// value reads the next value and everything in it.
func (r *reader) value(called *name) value {
	v := value{name: called}
	kind := r.PeekKind()
	if kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		v.raw = r.next()
		return v
	}
	_, _ = r.ReadToken()
	from, first := int(r.InputOffset())-1, len(r.stack)
	for end := r.PeekKind(); end != jsontext.KindEndObject &&
		end != jsontext.KindEndArray; end = r.PeekKind() {
		var called *name
		if kind == jsontext.KindBeginObject {
			called = r.intern(r.next())
		}
		inner := r.value(called)
		r.stack = append(r.stack, inner)
	}
	_, _ = r.ReadToken()
	v.inner, v.raw = slices.Clone(r.stack[first:]), r.text[from:r.InputOffset():r.InputOffset()]
	r.stack = r.stack[:first]
	if kind == jsontext.KindBeginObject {
		slices.SortStableFunc(v.inner, func(a, b value) int { return strings.Compare(a.name.text, b.name.text) })
	}
	return v
}

// next reads a value that holds no others.
func (r *reader) next() jsontext.Value {
	raw, _ := r.ReadValue()
	end := int(r.InputOffset())
	return r.text[end-len(raw) : end : end]
}

// intern returns the name that is written so, which most records repeat.
func (r *reader) intern(quoted []byte) *name {
	n := r.names[string(quoted)]
	if n == nil {
		text := unquote(quoted)
		n = &name{text: text, plain: plain(text), outside: usuallyOutside[plain(text)]}
		r.names[string(quoted)] = n
	}
	return n
}

// unquote is the content of a JSON string. What is no text in it becomes U+FFFD.
func unquote(quoted []byte) string {
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// kind is 0 where the value is absent.
func (v value) kind() jsontext.Kind { return v.raw.Kind() }

func (v value) isObject() bool { return len(v.raw) > 0 && v.raw[0] == '{' }
func (v value) isArray() bool  { return len(v.raw) > 0 && v.raw[0] == '[' }

// isCalled reports whether a value is a member of one of the names.
func (v value) isCalled(names []string) bool {
	return v.name != nil && slices.Contains(names, v.name.plain)
}

// object returns the members of an object; nothing for anything else.
func (v value) object() object {
	if !v.isObject() {
		return nil
	}
	return v.inner
}

// text is the content of a JSON string; false for anything else.
func (v value) text() (string, bool) {
	if v.kind() != jsontext.KindString {
		return "", false
	}
	return unquote(v.raw), true
}

// maxNumber is how long the text of a number may be that is meant as one.
const maxNumber = 64

// number is the text of a JSON number; false for anything else.
func (v value) number() (string, bool) {
	if v.kind() != jsontext.KindNumber {
		return "", false
	}
	return string(v.raw), len(v.raw) <= maxNumber
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
		return len(v.raw) == len(`""`)
	case jsontext.KindBeginArray, jsontext.KindBeginObject:
		return len(v.inner) == 0
	}
	return false
}

func (v value) typeName() string { return TypeOf(v.raw) }

// TypeOf names the JSON type of a value by its text; that of an empty text is nothing.
func TypeOf(raw []byte) string { return cmp.Or(typeNames[jsontext.Value(raw).Kind()], "nothing") }

var typeNames = map[jsontext.Kind]string{
	jsontext.KindNull: "null", jsontext.KindTrue: "boolean", jsontext.KindFalse: "boolean",
	jsontext.KindNumber: "number", jsontext.KindString: "string",
	jsontext.KindBeginObject: "object", jsontext.KindBeginArray: "array",
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

// has reports whether there is a member of one of the names.
func (o object) has(names []string) bool {
	return slices.ContainsFunc(o, func(m value) bool { return m.isCalled(names) })
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
