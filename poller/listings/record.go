package listings

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Defects of a record. It is read all the same.
const (
	DefectUTF8          = "invalid_utf8"    // bytes or half surrogates that are no text; read as U+FFFD
	DefectDuplicateName = "duplicate_name"  // a name twice in an object; the last one counts
	DefectTooDeep       = "too_deep"        // nested deeper than 64; read as null from there
	DefectTime          = "unreadable_time" // a creation time that cannot be read
)

const maxRecordDepth = 64

// compact writes a record without white space and mends what is no proper JSON in it; everything else stays as it was
// written. record is what it then says.
func compact(v value) (record value, text json.RawMessage, defects []string) {
	c := compacter{out: make([]byte, 0, len(v.raw()))}
	c.value(v, 1)
	slices.Sort(c.defects)
	if len(c.defects) > 0 {
		v, _ = decode(c.out) // is proper by now
	}
	return v, c.out, c.defects
}

type compacter struct {
	out     []byte
	defects []string
}

func (c *compacter) defect(name string) {
	if !slices.Contains(c.defects, name) {
		c.defects = append(c.defects, name)
	}
}

func (c *compacter) value(v value, depth int) {
	switch {
	case (v.isObject() || v.isArray()) && depth > maxRecordDepth:
		c.defect(DefectTooDeep)
		c.out = append(c.out, "null"...)
	case v.isObject():
		c.object(v, depth)
	case v.isArray():
		c.out = append(c.out, '[')
		for e := range v.elements() {
			c.value(e, depth+1)
			c.out = append(c.out, ',')
		}
		c.out = closed(c.out, ']')
	case v.kind() == jsontext.KindString && isBroken(v.raw()):
		c.defect(DefectUTF8)
		s, _ := v.text()
		c.out, _ = jsontext.AppendQuote(c.out, s)
	default:
		c.out = append(c.out, v.raw()...)
	}
}

func (c *compacter) object(v value, depth int) {
	var last map[string]value // of each name, as long as it is not written; nil: none stands twice
	if v.node().twice {
		c.defect(DefectDuplicateName)
		last = map[string]value{}
		for m := range v.members() {
			last[m.called().text] = m
		}
	}
	c.out = append(c.out, '{')
	for m := range v.members() {
		n := m.called()
		if last != nil {
			var left bool
			if m, left = last[n.text]; !left {
				continue
			}
			delete(last, n.text)
		}
		if n.broken {
			c.defect(DefectUTF8)
			c.out, _ = jsontext.AppendQuote(c.out, n.text)
		} else {
			c.out = append(c.out, n.quoted...)
		}
		c.out = append(c.out, ':')
		c.value(m, depth+1)
		c.out = append(c.out, ',')
	}
	c.out = closed(c.out, '}')
}

// closed ends a list of which each element is followed by a comma.
func closed(b []byte, end byte) []byte {
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, end)
}

// isBroken says whether a JSON string holds bytes or half surrogates that are no text.
func isBroken(quoted []byte) bool {
	if utf8.Valid(quoted) && !bytes.Contains(quoted, []byte(`\u`)) {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil
}

var errNoJSON = errors.New("digest: not one proper JSON value")

// Digest is the SHA-256 of a record in canonical form (RFC 8785) without what the RFC 6901 pointers in ignore lead to:
// the order of members and white space do not matter. Other than in the RFC, numbers keep their text: integers above 2^53
// that a float would make equal stay different, and 1.0 is not 1.
func Digest(record json.RawMessage, ignore []string) (digest [32]byte, err error) {
	return digestRecord(record, ignore, nil)
}

// ContactRequestDigest is that of a contact request's record, as [ContactRequest.Digest].
func ContactRequestDigest(record json.RawMessage, ignore, ids []string) (digest [32]byte, err error) {
	return digestRecord(record, ignore, outsideDigest(ids))
}

func digestRecord(record json.RawMessage, ignore, outside []string) (digest [32]byte, err error) {
	root, wrong := decode(record)
	if wrong != "" {
		return digest, errNoJSON
	}
	if _, _, defects := compact(root); len(defects) > 0 {
		return digest, errNoJSON
	}
	return root.digest(tokens(ignore), outside), nil
}

// outsideLevels is how many levels of a contact request's objects lack what is outside of its digest.
const outsideLevels = 2

// usuallyOutside is what is outside of the digest of every contact request.
var usuallyOutside = slices.Concat([]string{"score"}, referenceNames, plainNames(IDFields))

func outsideDigest(ids []string) []string {
	if len(ids) == 0 {
		return usuallyOutside
	}
	return append(slices.Clone(usuallyOutside), plainNames(ids)...)
}

// digest is that of a value without what is ignored, and without members of a contact request that are outside of it.
func (v value) digest(ignore [][]string, outside []string) [32]byte {
	return sha256.Sum256(v.appendCanonical(make([]byte, 0, 1024), ignore, outside, outsideLevels))
}

// appendCanonical appends the canonical form without what is ignored. levels is how many levels of objects are left that lack
// what is outside.
func (v value) appendCanonical(b []byte, ignore [][]string, outside []string, levels int) []byte {
	switch v.kind() {
	case jsontext.KindBeginObject:
		b = append(b, '{')
		empty := len(b)
		for _, m := range v.object() {
			n := m.called()
			deeper, drop := below(ignore, n.text)
			if drop || levels > 0 && slices.Contains(outside, n.plain) {
				continue
			}
			if len(b) > empty {
				b = append(b, ',')
			}
			b = append(b, n.canonical...)
			b = m.appendCanonical(append(b, ':'), deeper, outside, levels-1)
		}
		return append(b, '}')
	case jsontext.KindBeginArray:
		b = append(b, '[')
		empty, n := len(b), 0
		for e := range v.elements() {
			deeper, drop := below(ignore, strconv.Itoa(n))
			if n++; drop {
				continue
			}
			if len(b) > empty {
				b = append(b, ',')
			}
			b = e.appendCanonical(b, deeper, nil, 0)
		}
		return append(b, ']')
	case jsontext.KindString:
		if bytes.IndexByte(v.raw(), '\\') >= 0 { // may be written in several ways
			var room [512]byte
			text, _ := jsontext.AppendUnquote(room[:0], v.raw()) // the error is about UTF-8, which is mended
			b, _ = jsontext.AppendQuote(b, text)
			return b
		}
	}
	return append(b, v.raw()...)
}

func tokens(pointers []string) [][]string {
	var split [][]string
	for _, p := range pointers {
		if t := slices.Collect(jsontext.Pointer(p).Tokens()); len(t) > 0 {
			split = append(split, t)
		}
	}
	return split
}

// below are the pointers that lead through a member, without their first token; drop says that one ends there.
func below(ignore [][]string, name string) (deeper [][]string, drop bool) {
	for _, t := range ignore {
		if t[0] != name {
			continue
		}
		if len(t) == 1 {
			return nil, true
		}
		deeper = append(deeper, t[1:])
	}
	return deeper, false
}

// Sum is 128 bits of hash under keys that each process draws anew and nobody else sees: who writes what we read cannot aim
// at a collision, nor learn of one. The zero value is the hash of nothing.
type Sum [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) Sum {
	return Sum{maphash.Bytes(hashSeeds[0], b), maphash.Bytes(hashSeeds[1], b)}
}
