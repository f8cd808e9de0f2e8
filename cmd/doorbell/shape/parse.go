package shape

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value with its members in their order.
type value struct {
	kind   byte // n t f 0 " [ {
	text   string
	broken bool // a text that is not UTF-8
	inner  []value
	name   string // of a member
}

// maxDepth is deeper than the client reads a record.
const maxDepth = 80

var errNotJSON = errors.New("not one JSON value")

func parse(body []byte) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\uFEFF"))),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := parseValue(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return v, errNotJSON
	}
	return v, nil
}

func parseValue(d *jsontext.Decoder, depth int) (value, error) {
	v := value{kind: byte(d.PeekKind())}
	if v.kind != '{' && v.kind != '[' {
		raw, err := d.ReadValue()
		if v.text = string(raw); v.kind == '"' && err == nil {
			text, wrong := jsontext.AppendUnquote(nil, raw)
			v.text, v.broken = string(text), wrong != nil
		}
		return v, err
	}
	if depth == maxDepth {
		return value{kind: 'n', text: "null"}, d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return v, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var name, inner value
		var err error
		if v.kind == '{' {
			if name, err = parseValue(d, depth+1); err != nil {
				return v, err
			}
		}
		if inner, err = parseValue(d, depth+1); err != nil {
			return v, err
		}
		inner.name = name.text
		v.inner = append(v.inner, inner)
	}
	_, err := d.ReadToken()
	return v, err
}

// append appends a value as JSON.
func (v value) append(b []byte) []byte {
	switch v.kind {
	case '"':
		b, _ = jsontext.AppendQuote(b, v.text)
		return b
	case '{', '[':
	default:
		return append(b, v.text...)
	}
	b = append(b, v.kind)
	for n, inner := range v.inner {
		if n > 0 {
			b = append(b, ',')
		}
		if v.kind == '{' {
			b, _ = jsontext.AppendQuote(b, inner.name)
			b = append(b, ':')
		}
		b = inner.append(b)
	}
	return append(b, v.kind+2) // } and ] follow { and [ in ASCII
}
