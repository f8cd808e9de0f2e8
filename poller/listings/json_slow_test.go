package listings

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// part is a member, or an element without a name.
type part struct {
	name  string
	value string
}

// slowParts are the members or elements of a value as a decoder reads them.
func slowParts(raw jsontext.Value) (list []part) {
	d := newDecoder(raw)
	begin, err := d.ReadToken()
	if err != nil {
		return nil
	}
	end := jsontext.KindEndArray
	if begin.Kind() == jsontext.KindBeginObject {
		end = jsontext.KindEndObject
	}
	for d.PeekKind() != end {
		var p part
		if end == jsontext.KindEndObject {
			name, err := d.ReadToken()
			if err != nil {
				return list
			}
			p.name = name.String()
		}
		value, err := d.ReadValue()
		if err != nil {
			return list
		}
		p.value = string(value)
		list = append(list, p)
	}
	return list
}

func quickParts(raw jsontext.Value) (list []part) {
	for name, value := range members(raw) {
		list = append(list, part{name, string(value)})
	}
	for value := range elements(raw) {
		list = append(list, part{"", string(value)})
	}
	return list
}

// FuzzParts holds the quick way to the parts of a value against a decoder.
func FuzzParts(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,{"c\\":"}"},[]],"\u0061":"\\\"","ä":-1.5e3 , "":null}`, ` [ 1 ,"]", [ ] , { } ] `, "{\"\xff\":\"\xff\"}", `{}`, `[`, `{"a"`, `{"a":}`, `{"a":1]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { compareParts(t, body) })
}

func compareParts(t *testing.T, body []byte) {
	t.Helper()
	quick := quickParts(body)
	inner := bytes.TrimLeft(body, " \n\r\t")
	if check(body) != "" || inner[0] != '{' && inner[0] != '[' {
		return // what is no JSON only must not break us
	}
	if slow := slowParts(body); !slices.Equal(quick, slow) {
		t.Fatalf("of %q: %q, a decoder reads %q", body, quick, slow)
	}
	for _, p := range quick {
		if len(p.value) > 0 && (p.value[0] == '{' || p.value[0] == '[') {
			compareParts(t, []byte(p.value))
		}
	}
}
