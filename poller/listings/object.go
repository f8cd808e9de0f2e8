package listings

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a record's object with names that are alike whatever their style, sorted: the order of members says nothing.
type object []field

type field struct {
	name  string // as sent
	plain string
	value jsontext.Value
}

func parse(raw jsontext.Value) object {
	var o object
	var ends [16][2]int // of the names
	var room [512]byte
	at, names := ends[:0], room[:0]
	for quoted, value := range rawMembers(raw) {
		switch len(o) {
		case 0:
			o = make(object, 0, 4) // enough for most that stand in others
		case 4:
			o = slices.Grow(o, 12)
		}
		o = append(o, field{value: value})
		from := len(names)
		names = appendName(names, quoted)
		end := len(names)
		names = appendPlain(names, names[from:end])
		at = append(at, [2]int{end, len(names)})
	}
	all, from := string(names), 0 // one piece of memory for all of them
	for n, end := range at {
		f := &o[n]
		f.name, f.plain = all[from:end[0]], all[end[0]:end[1]]
		from = end[1]
	}
	slices.SortStableFunc(o, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return o
}

// form is what most records of an answer have in common, and of the next answer: names, and their order.
type form struct {
	sorted object // of a record, without values; nil: its names are written in a way of their own
	places []int  // of its members, in their order
}

// formed reads records of which most have the same form.
type formed struct {
	form
	left int    // how many records are to come, at most
	room object // for their members
}

// mostRoom is how many members there is room made for at once. Their record may be the last one of its form.
const mostRoom = 1 << 10

// parse is parse, which need not look into names that stand where they stood in the record before, nor for members of which it
// is known where they stand. plain says that the names are plain ASCII, none of them twice. The object is good until the next
// call, unless it is kept.
func (f *formed) parse(raw jsontext.Value, members []memberPart) (o object, plain bool) {
	o, n := f.next(), 0
	if len(members) > 0 {
		n = f.fill(o, raw, members)
	} else {
		n = f.search(o, raw)
	}
	if n != len(o) {
		return f.learn(raw)
	}
	return o, f.sorted != nil
}

// fill takes over the members of a record that is alike, and returns how many there are; -1: it is not alike.
func (f *formed) fill(o object, raw jsontext.Value, members []memberPart) int {
	for n, m := range members {
		if !f.take(o, n, raw[m.name:m.nameEnd], raw[m.from:m.to:m.to]) {
			return -1
		}
	}
	return len(members)
}

// search is fill where nobody knows where the members stand.
func (f *formed) search(o object, raw jsontext.Value) (n int) {
	for quoted, value := range rawMembers(raw) {
		if !f.take(o, n, quoted[1:len(quoted)-1], value) {
			return -1
		}
		n++
	}
	return n
}

// take takes over a member that has the name of the one in its place.
func (f *formed) take(o object, n int, name []byte, value jsontext.Value) bool {
	if n >= len(o) {
		return false
	}
	at := f.places[n]
	if f.sorted[at].name != string(name) {
		return false
	}
	o[at] = f.sorted[at]
	o[at].value = value
	return true
}

// next is the object of a record that is alike.
func (f *formed) next() object {
	n := len(f.places)
	if len(f.room) < n {
		f.room = make(object, max(n, min(n*f.left, mostRoom)))
	}
	f.left--
	return f.room[:n:n]
}

// keep makes the object that parse has returned last one that stays.
func (f *formed) keep(o object) {
	if len(f.room) > 0 && len(o) > 0 && &f.room[0] == &o[0] {
		f.room = f.room[len(o):]
	}
}

func (f *formed) learn(raw jsontext.Value) (o object, plain bool) {
	o = parse(raw)
	f.form = form{places: make([]int, 0, len(o))}
	for quoted := range rawMembers(raw) {
		name := quoted[1 : len(quoted)-1]
		place, found := slices.BinarySearchFunc(o, name, func(f field, name []byte) int { return strings.Compare(f.name, string(name)) })
		_, ascii := alike(name)
		if !ascii || !found || place+1 < len(o) && o[place+1].name == o[place].name {
			f.places = nil
			return o, false
		}
		f.places = append(f.places, place)
	}
	f.sorted = slices.Clone(o)
	for n := range f.sorted {
		f.sorted[n].value = nil
	}
	return o, true
}

// all yields the values of the first name, wherever they stand in the object, then those of the next.
func (o object) all(names ...string) iter.Seq[jsontext.Value] { return objects{o}.all(names...) }

// objects are several, of which what the first does not say is looked for in the next.
type objects [3]object

func (l objects) all(names ...string) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		for _, name := range names {
			for _, o := range l {
				for n := range o {
					if o[n].plain == name && !yield(o[n].value) {
						return
					}
				}
			}
		}
	}
}

// members yields them by name.
func (o object) members() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for _, f := range o {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
}

// get is the first of all.
func (o object) get(names ...string) jsontext.Value {
	for value := range o.all(names...) {
		return value
	}
	return nil
}

// object is the first that is an object with members.
func (o object) object(names ...string) object {
	for value := range o.all(names...) {
		if inner := parse(value); len(inner) > 0 {
			return inner
		}
	}
	return nil
}

// text is the trimmed content of the first that is a text with more than white space.
func (l objects) text(names ...string) string {
	for value := range l.all(names...) {
		if s, ok := text(value); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}

func (o object) text(names ...string) string { return objects{o}.text(names...) }

// scalar is like text and takes the text of a number, too.
func (l objects) scalar(names ...string) string {
	for value := range l.all(names...) {
		if s, ok := scalar(value); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}

func (o object) scalar(names ...string) string { return objects{o}.scalar(names...) }

// number is the first that is a number, or a text that is one.
func (l objects) number(names ...string) json.Number {
	for value := range l.all(names...) {
		s, _ := scalar(value)
		s = strings.TrimSpace(s)
		raw := jsontext.Value(s)
		if _, ok := number(raw); ok && (isPlainNumber(raw) || raw.IsValid()) {
			return json.Number(s)
		}
	}
	return ""
}

func (o object) number(names ...string) json.Number { return objects{o}.number(names...) }

// references are those that a contact request names: its own, else those of objects in it such as "property". One may be
// that of a similar property.
func (o object) references() []string {
	for _, name := range referenceNames {
		if s, ok := scalar(o.get(name)); ok && s != "" {
			return []string{s}
		}
	}
	var list []string
	for _, f := range o {
		if f.value.Kind() != jsontext.KindBeginObject {
			continue
		}
		if s := referenceOf(f.value); s != "" {
			list = append(list, s)
			continue
		}
		if !slices.Contains(wrapperNames, f.plain) {
			continue
		}
		for _, inner := range members(f.value) {
			if s := referenceOf(inner); s != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

// score is passed on as it is: number, text or null.
func (o object) score() json.RawMessage {
	value := o.get("score")
	if value == nil {
		for _, name := range wrapperNames {
			if value = o.object(name).get("score"); value != nil {
				break
			}
		}
	}
	switch value.Kind() {
	case jsontext.KindNumber, jsontext.KindString, jsontext.KindNull:
		return json.RawMessage(bytes.TrimSpace(value))
	}
	return nil
}
