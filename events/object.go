package events

import (
	"bytes"
	"encoding/json"
	"errors"
)

// object is a JSON object whose members keep their order and whose values stay as they were written.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("no JSON object")

// parseObject splits a JSON object into its members. The error quotes nothing.
func parseObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var o object
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		m := member{name: name.(string)} // a decoder yields nothing else in the place of a name
		if err := d.Decode(&m.value); err != nil {
			return nil, errNoObject
		}
		o = append(o, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errNoObject
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
		b = append(b, quote(m.name)...)
		b = append(b, ':')
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
func quote(s string) json.RawMessage {
	q, _ := encode(s) // a string cannot fail
	return q
}
