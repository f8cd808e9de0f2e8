package shape

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value as it was written: members in their order, names twice where they are
// twice.
type value struct {
	kind   byte // n t 0 " [ {
	text   string
	broken bool // a text with bytes that are none
	inner  []value
	name   string // of a member
	again  int    // how often the name was there before in the same object
}

// maxDepth is deeper than any record is read.
const maxDepth = 80

var errNotJSON = errors.New("not one JSON value")

func parse(body []byte) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\uFEFF"))), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
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
	switch kind := d.PeekKind(); kind {
	case '{', '[':
		if depth == maxDepth {
			return value{kind: 'n'}, d.SkipValue()
		}
		v := value{kind: byte(kind)}
		if _, err := d.ReadToken(); err != nil {
			return v, err
		}
		met := map[string]int{}
		for d.PeekKind() != '}' && d.PeekKind() != ']' {
			name := value{}
			if kind == '{' {
				var err error
				if name, err = parseValue(d, depth+1); err != nil {
					return v, err
				}
			}
			inner, err := parseValue(d, depth+1)
			if err != nil {
				return v, err
			}
			if inner.name = name.text; kind == '{' {
				inner.again = met[name.text]
				met[name.text]++
			}
			v.inner = append(v.inner, inner)
		}
		_, err := d.ReadToken()
		return v, err
	case '"':
		raw, err := d.ReadValue()
		if err != nil {
			return value{}, err
		}
		text, wrong := jsontext.AppendUnquote(nil, raw)
		return value{kind: '"', text: string(text), broken: wrong != nil}, nil
	case '0':
		raw, err := d.ReadValue()
		return value{kind: '0', text: string(raw)}, err
	case 'n', 't', 'f':
		raw, err := d.ReadValue()
		k := byte(kind)
		if k == 'f' {
			k = 't'
		}
		return value{kind: k, text: string(raw)}, err
	}
	_, err := d.ReadToken()
	if err == nil {
		err = errNotJSON
	}
	return value{}, err
}

var typeNames = map[byte]string{'n': "null", 't': "boolean", '0': "number", '"': "string", '[': "array", '{': "object"}
