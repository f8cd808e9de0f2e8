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
	ID          string // of one that bears an id that was given before: see AgainID
	Fingerprint Short
	Content     Short // of what the person wrote; zero: nothing
	Other       Short // of a member that may be an id as well; zero: none
	Digest      Short
	Rules       uint32 // the rules that made Digest
	Epoch       int    // the insertion's Epoch when it was learned
	Revision    int
	CreatedAt   time.Time // zero if unknown
	Emptied     time.Time // since when the person's fields are null or empty; zero: they are not, or it is Redacted
	Nameless    bool      // it has no id of the API: ID is made of what it was when it was learned
	Redacted    bool
	Fields      []Field // that held the person
}

// AgainID is the id under which a contact request is remembered that bears the same id as another one: APIs give ids again.
func AgainID(id string, fingerprint Short) string {
	return id + "~" + hex.EncodeToString(fingerprint[:])
}

// Given is the id that the API gave.
func (c ContactRequest) Given() string {
	n := strings.LastIndexByte(c.ID, '~')
	if again, err := hex.DecodeString(c.ID[n+1:]); n < 0 || err != nil || len(again) != len(c.Fingerprint) {
		return c.ID
	}
	return c.ID[:n]
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

// chunkSize is how many contact requests of an insertion lie in one entry of the bucket, a chunk: a key of its own for each would
// double what it takes to remember them.
const chunkSize = 8

// ContactRequests returns all contact requests remembered of an insertion, by id.
func (tx *Tx) ContactRequests(agency, reference string) []ContactRequest {
	all := tx.asTheyCame(agency, reference)
	slices.SortFunc(all, func(a, b ContactRequest) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// asTheyCame are the contact requests of an insertion in the order of its chunks. None ever goes.
func (tx *Tx) asTheyCame(agency, reference string) (all []ContactRequest) {
	below, names := prefix(agency, reference), tx.FieldNames(agency)
	for _, v := range tx.ascend(bucketContacts, below, below) {
		list, ok := decodeChunk(v, names)
		if !ok {
			panic(damagef("contact requests of agency %q cannot be read", agency))
		}
		all = append(all, list...)
	}
	return all
}

// PutContactRequests remembers contact requests of an insertion.
func (tx *Tx) PutContactRequests(agency, reference string, puts ...ContactRequest) error {
	all, place, dirty := tx.asTheyCame(agency, reference), map[string]int{}, map[int]bool{}
	for n, c := range all {
		place[c.ID] = n
	}
	for _, c := range puts {
		n, known := place[c.ID]
		if !known {
			n, all = len(all), append(all, c)
			place[c.ID] = n
		}
		all[n] = c
		dirty[n/chunkSize] = true
	}
	names := tx.FieldNames(agency)
	known := len(names)
	for _, n := range slices.Sorted(maps.Keys(dirty)) {
		k := binary.BigEndian.AppendUint32(prefix(agency, reference), uint32(n))
		chunk := all[n*chunkSize : min((n+1)*chunkSize, len(all))]
		if err := tx.put(bucketContacts, k, encodeChunk(chunk, &names)); err != nil {
			return err
		}
	}
	if len(names) == known {
		return nil
	}
	return tx.putJSON(bucketFieldNames, []byte(agency), names)
}

// Flags of a contact request in a chunk.
const (
	contactRedacted = 1 << iota
	contactUUID     // the id is a UUID in small letters, and stands there as 16 bytes
	contactOther    // there is a member that may be an id as well
	contactEmptied  // the person's fields are empty since a moment
	contactNameless
)

// encodeChunk writes how many contact requests there are, a zero, and each of them.
func encodeChunk(list []ContactRequest, names *[]string) []byte {
	w := &writer{b: make([]byte, 0, 128*len(list))}
	w.uint(uint64(len(list)))
	w.byte(0) // older stores have the time of a poll here, which nobody needs
	for _, c := range list {
		id, flags := packUUID(c.ID)
		if c.Redacted {
			flags |= contactRedacted
		}
		if c.Nameless {
			flags |= contactNameless
		}
		if c.Other != (Short{}) {
			flags |= contactOther
		}
		if !c.Emptied.IsZero() {
			flags |= contactEmptied
		}
		w.byte(flags)
		if flags&contactUUID == 0 {
			w.uint(uint64(len(id)))
		}
		w.fixed(id)
		w.fixed(c.Fingerprint[:])
		w.fixed(c.Content[:])
		if flags&contactOther != 0 {
			w.fixed(c.Other[:])
		}
		if flags&contactEmptied != 0 {
			w.time(c.Emptied)
		}
		w.fixed(c.Digest[:])
		w.b = binary.BigEndian.AppendUint32(w.b, c.Rules)
		w.uint(uint64(c.Epoch))
		w.uint(uint64(c.Revision))
		w.time(c.CreatedAt)
		w.uint(uint64(len(c.Fields)))
		for _, f := range c.Fields {
			w.uint(numberOf(f.Name, names))
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
		c.Redacted, c.Nameless = flags&contactRedacted != 0, flags&contactNameless != 0
		if flags&contactUUID != 0 {
			c.ID = unpackUUID(r.take(16))
		} else {
			c.ID = string(r.take(r.int()))
		}
		copy(c.Fingerprint[:], r.take(len(c.Fingerprint)))
		copy(c.Content[:], r.take(len(c.Content)))
		if flags&contactOther != 0 {
			copy(c.Other[:], r.take(len(c.Other)))
		}
		if flags&contactEmptied != 0 {
			c.Emptied = r.time()
		}
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

// FieldNames returns the names of all fields that any contact request of an agency was remembered with. A chunk holds their numbers.
func (tx *Tx) FieldNames(agency string) []string {
	names, _ := getJSON[[]string](tx, bucketFieldNames, []byte(agency))
	return names
}

// numberOf returns the number of a name, made if there is room, else one that no name has.
func numberOf(name string, names *[]string) uint64 {
	n := slices.Index(*names, name)
	if n < 0 && len(*names) >= maxFieldNames {
		return maxFieldNames
	}
	if n < 0 {
		n, *names = len(*names), append(*names, name)
	}
	return uint64(n)
}
