package store

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// ContactRequest is what is remembered of one contact request: enough to know it again and to say what changed, and
// nothing that the person wrote.
type ContactRequest struct {
	ID          string
	Fingerprint Short
	Digest      Short
	Rules       uint32 // the rules that made Digest and Fields
	Epoch       int    // the insertion's Epoch when it was learned
	Revision    int
	CreatedAt   time.Time // zero if unknown
	Redacted    bool
	Fields      []Field
}

// Short is the beginning of a hash. Those of one insertion are compared with each other only, so it is long enough.
type Short [8]byte

// Field is one named field of a contact request: a short digest of its value, all zero for an empty one. That two values
// have the same hides which field changed, not that something did.
type Field struct {
	Name   string
	Digest FieldDigest
}

// FieldDigest is the first 20 bits of a hash; its last four bits are zero.
type FieldDigest [3]byte

// ShortenField returns what is remembered of the hash of a field that is not empty. It is never all zero.
func ShortenField(hash [3]byte) FieldDigest {
	hash[2] &= 0xf0
	if hash == [3]byte{} {
		hash[0] = 1
	}
	return hash
}

// Empty says whether the field was null or empty.
func (f Field) Empty() bool { return f.Digest == FieldDigest{} }

// ContactRequests returns all contact requests remembered of an insertion, by id.
func (tx *Tx) ContactRequests(agency, reference string) []ContactRequest {
	all := slices.Clone(tx.group(agency, reference).list)
	slices.SortFunc(all, func(a, b ContactRequest) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// PutContactRequest remembers a contact request of an insertion.
func (tx *Tx) PutContactRequest(agency, reference string, c ContactRequest) error {
	tx.group(agency, reference).put(c)
	return nil
}

// group is what is remembered of the contact requests of one insertion. They lie together, a few in each entry of the
// bucket, a chunk: a key of its own for each would double what it takes to remember them. A transaction reads a group once and
// writes what has changed of it at its end.
type group struct {
	agency string
	below  []byte           // of its keys
	list   []ContactRequest // as they came; none ever goes
	place  map[string]int   // by id
	dirty  map[int]bool     // chunks that have changed
}

// chunkSize is how many contact requests lie in one entry.
const chunkSize = 8

func (g *group) put(c ContactRequest) {
	c.Fields = slices.Clone(c.Fields)
	n, known := g.place[c.ID]
	if !known {
		n = len(g.list)
		g.place[c.ID] = n
		g.list = append(g.list, c)
	}
	g.list[n] = c
	g.dirty[n/chunkSize] = true
}

// group reads the contact requests of an insertion, once in a transaction.
func (tx *Tx) group(agency, reference string) *group {
	below := prefix(agency, reference)
	if g := tx.groups[string(below)]; g != nil {
		return g
	}
	g := &group{agency: agency, below: below, place: map[string]int{}, dirty: map[int]bool{}}
	names := tx.fieldNames(agency)
	for _, v := range tx.ascend(bucketContacts, below, below) {
		list, ok := decodeChunk(v, names.list)
		if !ok {
			panic(damagef("contact requests of agency %q cannot be read", agency))
		}
		for _, c := range list {
			g.place[c.ID] = len(g.list)
			g.list = append(g.list, c)
		}
	}
	tx.groups[string(below)] = g
	return g
}

// flush writes what has changed of the contact requests.
func (tx *Tx) flush() error {
	for _, below := range slices.Sorted(maps.Keys(tx.groups)) {
		g := tx.groups[below]
		names := tx.fieldNames(g.agency)
		for _, n := range slices.Sorted(maps.Keys(g.dirty)) {
			k := binary.BigEndian.AppendUint32(slices.Clone(g.below), uint32(n))
			chunk := g.list[n*chunkSize : min((n+1)*chunkSize, len(g.list))]
			if err := tx.put(bucketContacts, k, encodeChunk(chunk, names)); err != nil {
				return err
			}
		}
		if names.dirty {
			names.dirty = false
			if err := tx.putJSON(bucketFieldNames, []byte(g.agency), names.list); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flags of a contact request in a chunk.
const (
	contactRedacted = 1 << iota
	contactUUID     // the id is a UUID in small letters, and stands there as 16 bytes
)

// encodeChunk writes how many contact requests there are, a zero, and each of them.
func encodeChunk(list []ContactRequest, names *fieldNames) []byte {
	w := &writer{b: make([]byte, 0, 128*len(list))}
	w.uint(uint64(len(list)))
	w.byte(0) // older stores have the time of a poll here, which nobody needs
	for _, c := range list {
		id, flags := packUUID(c.ID)
		if c.Redacted {
			flags |= contactRedacted
		}
		w.byte(flags)
		if flags&contactUUID == 0 {
			w.uint(uint64(len(id)))
		}
		w.fixed(id)
		w.fixed(c.Fingerprint[:])
		w.fixed(c.Digest[:])
		w.b = binary.BigEndian.AppendUint32(w.b, c.Rules)
		w.uint(uint64(c.Epoch))
		w.uint(uint64(c.Revision))
		w.time(c.CreatedAt)
		w.uint(uint64(len(c.Fields)))
		for _, f := range c.Fields {
			w.uint(names.number(f.Name))
			w.fixed(f.Digest[:])
		}
	}
	return w.b
}

func decodeChunk(v []byte, names []string) (list []ContactRequest, ok bool) {
	r := &reader{b: v}
	list = make([]ContactRequest, min(r.int(), len(v)))
	r.time()
	for n := range list {
		c := &list[n]
		flags := r.byte()
		c.Redacted = flags&contactRedacted != 0
		if flags&contactUUID != 0 {
			c.ID = unpackUUID(r.take(16))
		} else {
			c.ID = string(r.take(r.int()))
		}
		copy(c.Fingerprint[:], r.take(len(c.Fingerprint)))
		copy(c.Digest[:], r.take(len(c.Digest)))
		c.Rules = binary.BigEndian.Uint32(r.take(4))
		c.Epoch, c.Revision, c.CreatedAt = r.int(), r.int(), r.time()
		if count := min(r.int(), len(r.b)); count > 0 {
			c.Fields = make([]Field, 0, count)
			for range count {
				number, digest := r.int(), FieldDigest(r.take(3))
				if number < len(names) { // else there were too many
					c.Fields = append(c.Fields, Field{names[number], digest})
				}
			}
		}
	}
	return list, !r.bad && len(r.b) == 0
}

// packUUID makes an id short that most are.
func packUUID(id string) (packed []byte, flag byte) {
	if raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", "")); err == nil && len(raw) == 16 && unpackUUID(raw) == id {
		return raw, contactUUID
	}
	return []byte(id), 0
}

func unpackUUID(b []byte) string {
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// maxFieldNames bounds what a hostile API can make us remember per agency. Fields beyond it are left out; the digest of
// the whole still notices their changes.
const maxFieldNames = 500

// fieldNames numbers the names of an agency's fields, so that a contact request holds numbers only.
type fieldNames struct {
	list  []string
	index map[string]int
	dirty bool
}

func (tx *Tx) fieldNames(agency string) *fieldNames {
	if n := tx.names[agency]; n != nil {
		return n
	}
	n := &fieldNames{index: map[string]int{}}
	n.list, _ = getJSON[[]string](tx, bucketFieldNames, []byte(agency))
	for i, name := range n.list {
		n.index[name] = i
	}
	tx.names[agency] = n
	return n
}

// FieldNames returns the names of all fields that any contact request of an agency was remembered with.
func (tx *Tx) FieldNames(agency string) []string {
	return slices.Clone(tx.fieldNames(agency).list)
}

// number returns the number of a name, made if there is room, else one that no name has.
func (n *fieldNames) number(name string) uint64 {
	if i, ok := n.index[name]; ok {
		return uint64(i)
	}
	if len(n.list) >= maxFieldNames {
		return maxFieldNames
	}
	n.list = append(n.list, strings.Clone(name))
	n.index[name] = len(n.list) - 1
	n.dirty = true
	return uint64(len(n.list) - 1)
}
