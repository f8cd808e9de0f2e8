package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// object is a JSON object whose members keep their order and whose values stay as they were
// written. encoding/json keeps neither the order of a record that passes through Go values nor the
// text of its numbers.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("not a JSON object")

// parseObject splits a JSON object into its members. The error quotes nothing.
func parseObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('{') || !json.Valid(data) {
		return nil, errNoObject
	}
	var o object
	for d.More() { // nothing fails from here on: data is valid
		name, _ := d.Token()
		m := member{name: name.(string)}
		_ = d.Decode(&m.value)
		o = append(o, m)
	}
	return o, nil
}

// encode writes the object without white space between its members.
func (o object) encode() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quote(m.name)...), ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

func (o object) index(name string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.name == name })
}

// without is an edit that removes a member; rewrite is one that changes its value.
func without(name string) func(*object) {
	return func(o *object) {
		*o = slices.DeleteFunc(*o, func(m member) bool { return m.name == name })
	}
}

func rewrite(name string, change func(json.RawMessage) json.RawMessage) func(*object) {
	return func(o *object) {
		for i, m := range *o {
			if m.name == name {
				(*o)[i].value = change(m.value)
			}
		}
	}
}

// edit changes an object; any other value stays as it is.
func edit(value json.RawMessage, change func(*object)) json.RawMessage {
	o, err := parseObject(value)
	if err != nil {
		return value
	}
	change(&o)
	return o.encode()
}

// encode writes compact JSON without HTML escapes, so that records keep their texts; bytes that are
// not UTF-8 become U+FFFD.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\uFFFD")), nil
}

// quote is s as a JSON string.
func quote(s string) json.RawMessage {
	quoted, _ := encode(s) // a text cannot fail
	return quoted
}
