package store

import (
	"encoding/hex"
	"fmt"
	"time"
)

// A chunk is a version, when a poll has written it, and some contact requests: flags, id, fingerprint, digest, form, epoch,
// revision, time, and 20 bits for each field of the form.
const chunkVersion = 2

// Flags of a contact request in a chunk.
const (
	contactRedacted = 1 << iota
	contactHexID    // the id is 16 bytes in hexadecimal digits
	contactUUID     // the same with the hyphens of a UUID
	contactOwnForm  // the form stands here and has no number
	contactSeconds  // the time is in whole seconds
	contactFirst    // epoch and revision are 0
)

func encodeChunk(list []ContactRequest, polled time.Time, names *fieldNames, known *forms) []byte {
	w := &writer{b: make([]byte, 0, 96*len(list))}
	w.byte(chunkVersion)
	w.time(polled)
	for _, c := range list {
		c.encode(w, names, known)
	}
	return w.b
}

func (c ContactRequest) encode(w *writer, names *fieldNames, known *forms) {
	var flags byte
	if c.Redacted {
		flags |= contactRedacted
	}
	id, kind := packID(c.ID)
	flags |= kind
	f := form{rules: c.Rules}
	var digests nibbles
	for _, field := range c.Fields {
		if n, ok := names.number(field.Name); ok {
			f.fields = append(f.fields, n)
			digests.add(field.Digest)
		}
	}
	number, numbered := known.number(f)
	if !numbered {
		flags |= contactOwnForm
	}
	if c.CreatedAt.UnixMilli()%1000 == 0 && !c.CreatedAt.IsZero() {
		flags |= contactSeconds
	}
	if c.Epoch == 0 && c.Revision == 0 {
		flags |= contactFirst
	}
	w.byte(flags)
	if kind == 0 {
		w.uint(uint64(len(id)))
	}
	w.fixed(id)
	w.fixed(c.Fingerprint[:])
	w.fixed(c.Digest[:])
	if numbered {
		w.uint(uint64(number))
	} else {
		f.encode(w)
	}
	if flags&contactFirst == 0 {
		w.uint(uint64(c.Epoch))
		w.uint(uint64(c.Revision))
	}
	if flags&contactSeconds != 0 {
		w.int(c.CreatedAt.Unix())
	} else {
		w.time(c.CreatedAt)
	}
	w.fixed(digests.b)
}

// packID makes an id short whose digits tell nothing but 16 bytes.
func packID(id string) (packed []byte, kind byte) {
	bare := id
	if len(id) == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-' {
		bare, kind = id[:8]+id[9:13]+id[14:18]+id[19:23]+id[24:], contactUUID
	} else {
		kind = contactHexID
	}
	if len(bare) == 32 {
		if raw, err := hex.DecodeString(bare); err == nil && string(appendID(nil, raw, kind)) == id {
			return raw, kind
		}
	}
	return []byte(id), 0
}

// appendID appends an id as it was before it was packed.
func appendID(b, packed []byte, kind byte) []byte {
	if kind != contactHexID && kind != contactUUID {
		return append(b, packed...)
	}
	for n, c := range packed {
		if kind == contactUUID && (n == 4 || n == 6 || n == 8 || n == 10) {
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&0xf])
	}
	return b
}

const hexDigits = "0123456789abcdef"

// chunkReader reads a chunk. What it reads has its fields in common pieces of memory.
type chunkReader struct {
	reader
	names  *fieldNames
	known  *forms
	fields []Field // room for more
}

// decodeChunk appends the contact requests of a chunk, and says when a poll has written it; zero if nothing tells.
func decodeChunk(list []ContactRequest, v []byte, names *fieldNames, known *forms) (_ []ContactRequest, polled time.Time, err error) {
	r := &chunkReader{reader: reader{b: v}, names: names, known: known}
	r.bad = r.byte() != chunkVersion
	polled = r.time()
	for len(r.b) > 0 && !r.bad {
		list = append(list, ContactRequest{})
		r.contactRequest(&list[len(list)-1])
	}
	if r.bad {
		return list[:max(len(list)-1, 0)], polled, fmt.Errorf("%w: contact requests", ErrDamaged)
	}
	return list, polled, nil
}

func (r *chunkReader) contactRequest(c *ContactRequest) {
	before := len(r.b)
	flags := r.byte()
	c.Redacted = flags&contactRedacted != 0
	kind, size := flags&(contactHexID|contactUUID), 16
	if kind == 0 {
		size = r.int()
	}
	var room [64]byte
	c.ID = string(appendID(room[:0], r.take(size), kind))
	copy(c.Fingerprint[:], r.take(len(c.Fingerprint)))
	copy(c.Digest[:], r.take(len(c.Digest)))
	f := decodeFormOf(&r.reader, flags, r.names, r.known)
	c.Rules = f.rules
	if flags&contactFirst == 0 {
		c.Epoch, c.Revision = r.int(), r.int()
	}
	if flags&contactSeconds != 0 {
		c.CreatedAt = time.Unix(r.varint(), 0).UTC()
	} else {
		c.CreatedAt = r.time()
	}
	digests := nibbles{b: r.take((len(f.fields)*fieldNibbles + 1) / 2)}
	if r.bad || len(f.fields) == 0 {
		return
	}
	if len(r.fields) < len(f.fields) { // those that follow are alike
		r.fields = make([]Field, len(f.fields)*(1+len(r.b)/(before-len(r.b))))
	}
	c.Fields, r.fields = r.fields[:len(f.fields):len(f.fields)], r.fields[len(f.fields):]
	for i, n := range f.fields {
		c.Fields[i] = Field{r.names.list[n], digests.next()}
	}
}

// nibbles are digests of fields, one behind the other, half bytes.
type nibbles struct {
	b []byte
	n int // half bytes written or read
}

const fieldNibbles = 5

func (h *nibbles) add(d FieldDigest) {
	for i := range fieldNibbles {
		half := d[i/2] >> (4 * (1 - i%2)) & 0xf
		if h.n%2 == 0 {
			h.b = append(h.b, half<<4)
		} else {
			h.b[len(h.b)-1] |= half
		}
		h.n++
	}
}

func (h *nibbles) next() FieldDigest {
	b, whole := h.b[h.n/2:], h.n%2 == 0
	h.n += fieldNibbles
	if whole {
		return FieldDigest{b[0], b[1], b[2] & 0xf0}
	}
	return FieldDigest{b[0]<<4 | b[1]>>4, b[1]<<4 | b[2]>>4, b[2] << 4}
}

func decodeFormOf(r *reader, flags byte, names *fieldNames, known *forms) form {
	if flags&contactOwnForm != 0 {
		return decodeForm(r, names)
	}
	n := r.int()
	if n < 0 || n >= len(known.list) {
		r.bad = true
		return form{}
	}
	return known.list[n]
}
