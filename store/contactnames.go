package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxFieldNames bounds what a hostile API can make us remember per agency. Fields beyond it are left out; the digest of
// the whole still notices their changes.
const maxFieldNames = 500

// fieldNames numbers the names of an agency's fields, so that a contact request holds numbers only.
type fieldNames struct {
	list  []string
	index map[string]int
	dirty bool
}

func (tx *Tx) fieldNames(agency string) (*fieldNames, error) {
	if n := tx.names[agency]; n != nil {
		return n, nil
	}
	n := &fieldNames{index: map[string]int{}}
	n.list, _ = getJSON[[]string](tx, bucketFieldNames, []byte(agency))
	for i, name := range n.list {
		n.index[name] = i
	}
	tx.names[agency] = n
	return n, nil
}

// FieldNames returns the names of all fields that any contact request of an agency was remembered with.
func (tx *Tx) FieldNames(agency string) ([]string, error) {
	names, err := tx.fieldNames(agency)
	if err != nil {
		return nil, err
	}
	return slices.Clone(names.list), nil
}

func (n *fieldNames) number(name string) (int, bool) {
	if i, ok := n.index[name]; ok {
		return i, true
	}
	if len(n.list) >= maxFieldNames {
		return 0, false
	}
	n.list = append(n.list, strings.Clone(name))
	n.index[name] = len(n.list) - 1
	n.dirty = true
	return len(n.list) - 1, true
}

// form is what contact requests have in common: the rules of their digests, and which fields they have, in order.
type form struct {
	rules  uint32
	fields []int // numbers of names
}

func (f form) encode(w *writer) {
	w.uint(uint64(f.rules))
	w.uint(uint64(len(f.fields)))
	for _, n := range f.fields {
		w.uint(uint64(n))
	}
}

// decodeForm reads a form of which every field has a name.
func decodeForm(r *reader, names *fieldNames) form {
	f := form{rules: uint32(r.uint())}
	count := r.int()
	if count < 0 || count > len(r.b) {
		r.bad = true
		return f
	}
	f.fields = make([]int, count)
	for i := range f.fields {
		if f.fields[i] = r.int(); f.fields[i] < 0 || f.fields[i] >= len(names.list) {
			r.bad = true
		}
	}
	return f
}

// maxForms bounds the forms of an agency. What has another one brings its own along.
const maxForms = 1000

// forms numbers the forms of an agency's contact requests.
type forms struct {
	list  []form
	index map[string]int // by their encoding
	dirty bool
}

const formsVersion = 1

func (tx *Tx) forms(agency string) (*forms, error) {
	if f := tx.known[agency]; f != nil {
		return f, nil
	}
	names, err := tx.fieldNames(agency)
	if err != nil {
		return nil, err
	}
	f := &forms{index: map[string]int{}}
	if v := tx.get(bucketForms, []byte(agency)); v != nil && !f.decode(v, names) {
		return nil, fmt.Errorf("%w: forms of contact requests", ErrDamaged)
	}
	tx.known[agency] = f
	return f, nil
}

func (f *forms) decode(v []byte, names *fieldNames) bool {
	r := &reader{b: v}
	version := r.byte()
	for len(r.b) > 0 && !r.bad {
		rest := r.b
		one := decodeForm(r, names)
		f.index[string(rest[:len(rest)-len(r.b)])] = len(f.list)
		f.list = append(f.list, one)
	}
	return version == formsVersion && !r.bad
}

// number returns the number of a form, made if there is room.
func (f *forms) number(one form) (int, bool) {
	w := &writer{}
	one.encode(w)
	if n, ok := f.index[string(w.b)]; ok {
		return n, true
	}
	if len(f.list) >= maxForms {
		return 0, false
	}
	f.index[string(w.b)] = len(f.list)
	f.list = append(f.list, one)
	f.dirty = true
	return len(f.list) - 1, true
}

// writeNames writes names and forms that are new.
func (tx *Tx) writeNames(agency string, names *fieldNames, f *forms) error {
	if names.dirty {
		if err := tx.putJSON(bucketFieldNames, []byte(agency), names.list); err != nil {
			return err
		}
	}
	if f.dirty {
		w := &writer{b: []byte{formsVersion}}
		for _, one := range f.list {
			one.encode(w)
		}
		if err := tx.put(bucketForms, []byte(agency), w.b); err != nil {
			return err
		}
	}
	names.dirty, f.dirty = false, false
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
