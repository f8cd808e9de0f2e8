package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object whose members still have an order of their own. A
// value is nil, a bool, string, int, float64, json.Number, time.Time, an object
// or a []any of them.
type object []member

// rawText is written as it is, whether it is JSON or not.
type rawText string

type member struct {
	name  string
	value any
}

// with returns a copy in which the member has the value.
func (o object) with(name string, value any) object {
	c := make(object, 0, len(o)+1)
	for _, m := range o {
		if m.name != name {
			c = append(c, m)
		}
	}
	return append(c, member{name, value})
}

// without returns a copy that lacks the member.
func (o object) without(name string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return m.name == name })
}

// renamed returns a copy in which the member has the other name, in its place.
func (o object) renamed(name, other string) object {
	c := slices.Clone(o)
	for i := range c {
		if c[i].name == name {
			c[i].name = other
		}
	}
	return c
}

// replaced returns a copy in which the member has the value, in its place.
func (o object) replaced(name string, value any) object {
	c := slices.Clone(o)
	for i := range c {
		if c[i].name == name {
			c[i].value = value
		}
	}
	return c
}

// get returns the value of a member; nil if there is none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// list makes an array of objects.
func list(objects []object) []any {
	values := make([]any, len(objects))
	for i, o := range objects {
		values[i] = o
	}
	return values
}

var errNotJSON = errors.New("an extra member is not JSON")

// treeOf turns what encoding/json makes of v, an object, into a tree. The
// parser's own error is left out: it would quote the record.
func treeOf(v any) (object, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	tree, err := readValue(d)
	if err != nil {
		return nil, errNotJSON
	}
	o, _ := tree.(object)
	return o, nil
}

func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(d)
	case json.Delim('['):
		return readArray(d)
	}
	return token, nil
}

func readObject(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := readValue(d)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name.(string), value})
	}
	_, err := d.Token()
	return o, err
}

func readArray(d *json.Decoder) (any, error) {
	a := []any{}
	for d.More() {
		value, err := readValue(d)
		if err != nil {
			return nil, err
		}
		a = append(a, value)
	}
	_, err := d.Token()
	return a, err
}

// writer writes one answer. Member order and white space come from shuffle, if
// there is one; they are as the trees have them, and none, if not.
type writer struct {
	out          []byte
	shuffle      *rand.Rand
	colon, comma string
	open, close  string
	time         func(time.Time) any // a text or a number
	name         func(string) string // how a member is called; nil: as in the tree
}

func newWriter(shuffle *rand.Rand, times func(time.Time) any) *writer {
	w := &writer{out: make([]byte, 0, 4<<10), shuffle: shuffle, colon: ":", comma: ",", time: times}
	if shuffle != nil {
		w.colon += pick(shuffle, "", " ")
		w.comma += pick(shuffle, "", " ", "\n", "\r\n\t")
		w.open = pick(shuffle, "", "", " ", "\n")
		w.close = pick(shuffle, "", "", " ", "\n")
	}
	return w
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case string:
		w.text(v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case float64:
		w.out = strconv.AppendFloat(w.out, v, 'f', -1, 64)
	case json.Number:
		w.out = append(w.out, v...)
	case rawText:
		w.out = append(w.out, v...)
	case time.Time:
		w.value(w.time(v))
	case object:
		w.object(v)
	case []any:
		w.array(v)
	default:
		panic(fmt.Sprintf("sandbox: a tree cannot hold a %T", v))
	}
}

func (w *writer) object(o object) {
	w.out = append(append(w.out, '{'), w.open...)
	order := w.order(len(o))
	for n := range o {
		if n > 0 {
			w.out = append(w.out, w.comma...)
		}
		m := o[n]
		if order != nil {
			m = o[order[n]]
		}
		if w.name != nil {
			m.name = w.name(m.name)
		}
		w.text(m.name)
		w.out = append(w.out, w.colon...)
		w.value(m.value)
	}
	w.out = append(append(w.out, w.close...), '}')
}

func (w *writer) order(n int) []int {
	if w.shuffle == nil {
		return nil
	}
	return w.shuffle.Perm(n)
}

func (w *writer) array(a []any) {
	w.out = append(append(w.out, '['), w.open...)
	for n, v := range a {
		if n > 0 {
			w.out = append(w.out, w.comma...)
		}
		w.value(v)
	}
	w.out = append(append(w.out, w.close...), ']')
}

// text escapes what must be escaped and nothing else; bytes that are no UTF-8
// become U+FFFD.
func (w *writer) text(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	w.out = append(w.out, '"')
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		w.out = append(w.out, s[begin:i]...)
		begin = i + 1
		switch c {
		case '"', '\\':
			w.out = append(w.out, '\\', c)
		case '\n':
			w.out = append(w.out, `\n`...)
		case '\r':
			w.out = append(w.out, `\r`...)
		default:
			w.out = fmt.Appendf(w.out, `\u%04x`, c)
		}
	}
	w.out = append(append(w.out, s[begin:]...), '"')
}
