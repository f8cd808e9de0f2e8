package listings

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Defects of a record. It is read all the same.
const (
	DefectUTF8          = "invalid_utf8"    // bytes or half surrogates that are no text; read as U+FFFD
	DefectDuplicateName = "duplicate_name"  // a name twice in an object; the last one counts
	DefectTooDeep       = "too_deep"        // nested deeper than 64; read as null from there
	DefectTime          = "unreadable_time" // a creation time that cannot be read
)

const maxRecordDepth = 64

// compact writes a record without white space and mends what is no proper JSON in it; everything else stays as it was
// written. record is what it then says.
func compact(v value) (record value, text json.RawMessage, defects []string) {
	c := compacter{out: make([]byte, 0, len(v.raw()))}
	c.value(v, 1)
	slices.Sort(c.defects)
	if len(c.defects) > 0 {
		v, _ = decode(c.out) // is proper by now
	}
	return v, c.out, c.defects
}

type compacter struct {
	out     []byte
	defects []string
}

func (c *compacter) defect(name string) {
	if !slices.Contains(c.defects, name) {
		c.defects = append(c.defects, name)
	}
}

func (c *compacter) value(v value, depth int) {
	switch {
	case (v.isObject() || v.isArray()) && depth > maxRecordDepth:
		c.defect(DefectTooDeep)
		c.out = append(c.out, "null"...)
	case v.isObject():
		c.object(v, depth)
	case v.isArray():
		c.out = append(c.out, '[')
		for e := range v.elements() {
			c.value(e, depth+1)
			c.out = append(c.out, ',')
		}
		c.out = closed(c.out, ']')
	case v.kind() == jsontext.KindString && isBroken(v.raw()):
		c.defect(DefectUTF8)
		s, _ := v.text()
		c.out, _ = jsontext.AppendQuote(c.out, s)
	default:
		c.out = append(c.out, v.raw()...)
	}
}

func (c *compacter) object(v value, depth int) {
	var last map[string]value // of each name, as long as it is not written; nil: none stands twice
	if v.node().twice {
		c.defect(DefectDuplicateName)
		last = map[string]value{}
		for m := range v.members() {
			last[m.called().text] = m
		}
	}
	c.out = append(c.out, '{')
	for m := range v.members() {
		n := m.called()
		if last != nil {
			var left bool
			if m, left = last[n.text]; !left {
				continue
			}
			delete(last, n.text)
		}
		if n.broken {
			c.defect(DefectUTF8)
			c.out, _ = jsontext.AppendQuote(c.out, n.text)
		} else {
			c.out = append(c.out, n.quoted...)
		}
		c.out = append(c.out, ':')
		c.value(m, depth+1)
		c.out = append(c.out, ',')
	}
	c.out = closed(c.out, '}')
}

// closed ends a list of which each element is followed by a comma.
func closed(b []byte, end byte) []byte {
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, end)
}

// isBroken says whether a JSON string holds bytes or half surrogates that are no text.
func isBroken(quoted []byte) bool {
	if utf8.Valid(quoted) && !bytes.Contains(quoted, []byte(`\u`)) {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil
}
