package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ContactRequest is what is remembered of one contact request: enough to know it again and to say what changed, and
// nothing that the person wrote.
type ContactRequest struct {
	ID          string
	Fingerprint [16]byte
	Digest      [16]byte
	Rules       uint32 // the rules that made Digest and Fields
	Epoch       int    // the insertion's Epoch when it was learned
	Revision    int
	CreatedAt   time.Time // zero if unknown
	Redacted    bool
	Fields      []Field
}

// Field is one named field of a contact request: a short digest of its value, all zero for an empty one.
type Field struct {
	Name   string
	Digest [3]byte
}

// Empty says whether the field was null or empty.
func (f Field) Empty() bool { return f.Digest == [3]byte{} }

const contactRequestVersion = 1

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
	if v := tx.tx.Bucket(bucketFieldNames).Get([]byte(agency)); v != nil {
		if err := json.Unmarshal(v, &n.list); err != nil {
			return nil, fmt.Errorf("%w: field names", ErrDamaged)
		}
	}
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
	n.list = append(n.list, name)
	n.index[name] = len(n.list) - 1
	n.dirty = true
	return len(n.list) - 1, true
}

func (c ContactRequest) encode(names *fieldNames) []byte {
	w := &writer{b: make([]byte, 0, 128)}
	w.byte(contactRequestVersion)
	var flags byte
	if c.Redacted {
		flags = 1
	}
	w.byte(flags)
	w.fixed(c.Fingerprint[:])
	w.fixed(c.Digest[:])
	w.uint(uint64(c.Rules))
	w.uint(uint64(c.Epoch))
	w.uint(uint64(c.Revision))
	w.time(c.CreatedAt)
	for _, f := range c.Fields {
		if i, ok := names.number(f.Name); ok {
			w.uint(uint64(i))
			w.fixed(f.Digest[:])
		}
	}
	return w.b
}

func decodeContactRequest(id string, v []byte, names *fieldNames) (ContactRequest, error) {
	r := &reader{b: v}
	version := r.byte()
	c := ContactRequest{ID: id, Redacted: r.byte() == 1}
	copy(c.Fingerprint[:], r.take(len(c.Fingerprint)))
	copy(c.Digest[:], r.take(len(c.Digest)))
	c.Rules, c.Epoch, c.Revision, c.CreatedAt = uint32(r.uint()), r.int(), r.int(), r.time()
	for len(r.b) > 0 && !r.bad {
		var f Field
		i := r.int()
		copy(f.Digest[:], r.take(len(f.Digest)))
		if i < 0 || i >= len(names.list) {
			r.bad = true
			break
		}
		f.Name = names.list[i]
		c.Fields = append(c.Fields, f)
	}
	if r.bad || version != contactRequestVersion {
		return ContactRequest{}, fmt.Errorf("%w: a contact request", ErrDamaged)
	}
	return c, nil
}

// ContactRequests returns all contact requests remembered of an insertion, by id.
func (tx *Tx) ContactRequests(agency, reference string) ([]ContactRequest, error) {
	names, err := tx.fieldNames(agency)
	if err != nil {
		return nil, err
	}
	var all []ContactRequest
	err = tx.scan(bucketContactRequests, prefix(agency, reference), func(k, v []byte) error {
		c, err := decodeContactRequest(string(k), v, names)
		all = append(all, c)
		return err
	})
	return all, err
}

// PutContactRequest remembers a contact request of an insertion.
func (tx *Tx) PutContactRequest(agency, reference string, c ContactRequest) error {
	names, err := tx.fieldNames(agency)
	if err != nil {
		return err
	}
	value := c.encode(names)
	if names.dirty {
		list, err := json.Marshal(slices.Clone(names.list))
		if err != nil {
			return err
		}
		if err := tx.tx.Bucket(bucketFieldNames).Put([]byte(agency), list); err != nil {
			return err
		}
		names.dirty = false
	}
	return tx.tx.Bucket(bucketContactRequests).Put(key(agency, reference, c.ID), value)
}
