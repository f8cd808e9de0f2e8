package listings

import (
	"bytes"
	"encoding/json"
	"slices"

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

// compact takes the white space out of a record and mends what is no proper JSON in it; everything else stays as it was
// written.
func compact(raw jsontext.Value) (json.RawMessage, []string) {
	out, err := jsontext.AppendFormat(nil, raw, jsontext.PreserveRawStrings(true))
	if err == nil && !tooDeep(out) {
		return out, nil
	}
	m := mender{}
	m.value(raw, 1)
	slices.Sort(m.defects)
	return m.out, m.defects
}

// tooDeep counts brackets outside of strings.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxRecordDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// mender writes a record anew, as proper JSON.
type mender struct {
	out     []byte
	defects []string
}

func (m *mender) defect(name string) {
	if !slices.Contains(m.defects, name) {
		m.defects = append(m.defects, name)
	}
}

func (m *mender) value(raw jsontext.Value, depth int) {
	kind := raw.Kind()
	nested := kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray
	switch {
	case nested && depth > maxRecordDepth:
		m.defect(DefectTooDeep)
		m.out = append(m.out, "null"...)
	case kind == jsontext.KindBeginObject:
		m.object(raw, depth)
	case kind == jsontext.KindBeginArray:
		m.array(raw, depth)
	case kind == jsontext.KindString:
		m.text(raw)
	default:
		m.out = append(m.out, bytes.TrimSpace(raw)...)
	}
}

func (m *mender) array(raw jsontext.Value, depth int) {
	m.out = append(m.out, '[')
	first := true
	for value := range elements(raw) {
		if !first {
			m.out = append(m.out, ',')
		}
		first = false
		m.value(value, depth+1)
	}
	m.out = append(m.out, ']')
}

func (m *mender) object(raw jsontext.Value, depth int) {
	var names []string
	last := map[string]jsontext.Value{}
	for name, value := range members(raw) {
		if _, twice := last[name]; twice {
			m.defect(DefectDuplicateName)
		} else {
			names = append(names, name)
		}
		last[name] = value
	}
	m.out = append(m.out, '{')
	for i, name := range names {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		m.name(name)
		m.out = append(m.out, ':')
		m.value(last[name], depth+1)
	}
	m.out = append(m.out, '}')
}

func (m *mender) name(name string) {
	if bytes.ContainsRune([]byte(name), '\uFFFD') {
		m.defect(DefectUTF8)
	}
	m.out, _ = jsontext.AppendQuote(m.out, name) // is valid by now
}

func (m *mender) text(raw jsontext.Value) {
	s, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(raw))
	if err == nil {
		m.out = append(m.out, bytes.TrimSpace(raw)...)
		return
	}
	m.defect(DefectUTF8)
	m.out, _ = jsontext.AppendQuote(m.out, s) // is valid by now
}
