package events

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// object is a JSON object whose members keep their order and whose values stay as they were written.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var (
	errNoObject = errors.New("no JSON object")
	errNoText   = errors.New("no JSON string")
)

// parseObject splits a JSON object into its members. The error quotes nothing.
func parseObject(data []byte) (object, error) {
	if !json.Valid(data) {
		return nil, errNoObject
	}
	return split(data)
}

// split is parseObject of what is surely JSON.
func split(data []byte) (object, error) {
	if len(data) == 0 {
		return nil, errNoObject
	}
	at := skipSpace(data, 0)
	if data[at] != '{' {
		return nil, errNoObject
	}
	o := make(object, 0, 24)
	for at = skipSpace(data, at+1); data[at] != '}'; {
		end := valueEnd(data, at)
		name, err := unquote(data[at:end])
		if err != nil {
			return nil, err
		}
		at = skipSpace(data, skipSpace(data, end)+len(":"))
		end = valueEnd(data, at)
		o = append(o, member{name, data[at:end:end]})
		if at = skipSpace(data, end); data[at] == ',' {
			at = skipSpace(data, at+1)
		}
	}
	return o, nil
}

// value is that of the last member of a name; nil if there is none.
func (o object) value(name string) json.RawMessage {
	for _, m := range slices.Backward(o) {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// read reads a member that is a text. Where there is none, or null, the text stays as it is.
func (o object) read(name string, text *string) bool {
	value := o.value(name)
	if value == nil || string(value) == "null" {
		return true
	}
	s, err := unquote(value)
	*text = s
	return err == nil
}

func skipSpace(data []byte, at int) int {
	for data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n' {
		at++
	}
	return at
}

// valueEnd is where the value ends that begins at a place inside an object.
func valueEnd(data []byte, at int) int {
	for depth := 0; ; at++ {
		switch data[at] {
		case '"':
			for at++; data[at] != '"'; at++ {
				if data[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // of a number or a word
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
	}
}

// encode writes the object without white space between its members.
func (o object) encode() json.RawMessage {
	size := len("{}")
	for _, m := range o {
		size += len(`"":,`) + len(m.name) + len(m.value)
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, m.name), ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// members applies a step to the members of an object; what is none stays as it is.
func members(value json.RawMessage, step func(*object)) json.RawMessage {
	o, err := parseObject(value)
	if err != nil {
		return value
	}
	step(&o)
	return o.encode()
}

// items changes the elements of an array, of which it keeps the first most; what is none stays as it is.
func items(value json.RawMessage, change func(json.RawMessage) json.RawMessage, most int) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return value
	}
	list = list[:min(most, len(list))]
	for i := range list {
		list[i] = change(list[i])
	}
	changed, err := encode(list)
	if err != nil {
		return value
	}
	return changed
}

// quote is s as a JSON string.
func quote(s string) json.RawMessage { return appendQuoted(nil, s) }

// appendQuoted writes what encoding/json writes without HTML escapes; each byte that is no UTF-8 becomes the escape of
// U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0 // what is not written yet
	for i, c := range s {
		if !special(c) {
			continue
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && size > 1 {
			continue // it stands in the text
		}
		b = appendEscape(append(b, s[from:i]...), c)
		from = i + size
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

func special(c rune) bool {
	return c < ' ' || c == '"' || c == '\\' || c == '\u2028' || c == '\u2029' || c == utf8.RuneError
}

func appendEscape(b []byte, c rune) []byte {
	if short := strings.IndexRune("\"\\\b\f\n\r\t", c); short >= 0 {
		return append(b, '\\', `"\bfnrt`[short])
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[c>>12], hex[c>>8&15], hex[c>>4&15], hex[c&15])
}

// unquote reads a JSON string. The error quotes nothing.
func unquote(value []byte) (s string, err error) {
	if inner := len(value) - 1; inner > 0 && value[0] == '"' && simple(value[1:inner]) {
		return string(value[1:inner]), nil
	}
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", errNoText
	}
	return s, nil
}

// simple says whether JSON writes a text as it is.
func simple[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
