package listings

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Defects of a record. It is read all the same.
const (
	// bytes or half surrogates that are no text; read as U+FFFD
	DefectUTF8          = "invalid_utf8"
	DefectDuplicateName = "duplicate_name"  // a name twice in an object; the last one counts
	DefectTooDeep       = "too_deep"        // nested deeper than 64; read as null from there
	DefectTime          = "unreadable_time" // a creation time that cannot be read
)

const maxRecordDepth = 64

// compact is a record without white space, everything else as it was written. One with defects is
// written in canonical form, in which they are mended; record is what it then says.
func compact(v value) (record value, text json.RawMessage, defects []string) {
	if defects = v.defects(); len(defects) > 0 {
		v, _ = decode(v.canonical(nil, nil, 0))
	}
	return v, json.RawMessage(v.raw), defects
}

// defects are sorted.
func (v value) defects() (list []string) {
	tooDeep := v.depth() > maxRecordDepth
	if !tooDeep && v.raw.IsValid() {
		return nil
	}
	if !v.raw.IsValid(jsontext.AllowInvalidUTF8(true)) {
		list = append(list, DefectDuplicateName)
	}
	if !v.raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		list = append(list, DefectUTF8)
	}
	if tooDeep {
		list = append(list, DefectTooDeep)
	}
	slices.Sort(list)
	return list
}

// depth is how many objects and arrays that hold something are nested.
func (v value) depth() (levels int) {
	for _, m := range v.inner {
		levels = max(levels, m.depth())
	}
	if len(v.inner) > 0 {
		levels++
	}
	return levels
}

var errNoJSON = errors.New("digest: not one proper JSON value")

// Digest is the SHA-256 of a record in canonical form (RFC 8785) without what the RFC 6901 pointers
// in ignore lead to: the order of members and white space do not matter. Unlike in the RFC, numbers
// keep their text: integers above 2^53 that a float would make equal stay different, and 1.0 is not
// 1.
func Digest(record json.RawMessage, ignore []string) (digest [32]byte, err error) {
	root, wrong := decode(record)
	if wrong != "" || len(root.defects()) > 0 {
		return digest, errNoJSON
	}
	return sha256.Sum256(root.canonical(tokens(ignore), nil, 0)), nil
}

// outsideLevels is how many levels of a contact request's objects lack what is outside of its
// digest.
const outsideLevels = 2

// usuallyOutside is what is outside of the digest of every contact request.
var usuallyOutside = wordsOf([]string{"score"}, referenceNames, plainNames(IDFields))

// Outside is what is outside of the digests of contact requests beside the score, ids and
// references, which are so wherever they stand in the first levels, however they are spelled.
type Outside struct {
	ignored [][]string // pointers
	ids     []string   // names, plain
}

// NewOutside takes the pointers to what is ignored, and the candidates for the id.
func NewOutside(ignore, ids []string) Outside {
	o := Outside{ignored: tokens(ignore)}
	if !slices.Equal(ids, IDFields) { // which are outside in any case
		o.ids = plainNames(ids)
	}
	return o
}

// canonical is the form of RFC 8785, but for numbers, without what is ignored. The first levels of
// objects lack the members outside, too.
func (v value) canonical(ignore [][]string, outside []string, levels int) jsontext.Value {
	c := jsontext.Value(v.appendMended(nil, ignore, outside, levels, 1))
	_ = c.Canonicalize(jsontext.AllowInvalidUTF8(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return c
}

// appendMended appends a value as it is written, but what is left out: of members of one name all
// but the last. What is nested too deep is null.
func (v value) appendMended(b []byte, ignore [][]string, outside []string, levels, depth int) []byte {
	switch {
	case len(v.inner) == 0:
		return append(b, v.raw...)
	case depth > maxRecordDepth:
		return append(b, "null"...)
	}
	b = append(b, v.raw[0])
	first := len(b)
	for n, m := range v.inner {
		called := strconv.Itoa(n)
		if m.name != nil {
			called = m.name.text
		}
		deeper, drop := below(ignore, called)
		isOutside := m.name != nil && levels > 0 && (m.name.outside || m.isCalled(outside))
		isShadowed := m.name != nil && n+1 < len(v.inner) && v.inner[n+1].name.text == called
		if drop || isOutside || isShadowed {
			continue
		}
		if len(b) > first {
			b = append(b, ',')
		}
		if m.name != nil {
			b, _ = jsontext.AppendQuote(b, called)
			b = append(b, ':')
		}
		b = m.appendMended(b, deeper, outside, levels-1, depth+1)
	}
	return append(b, v.raw[len(v.raw)-1])
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

// below are the pointers that lead through a member, without their first token; drop reports that
// one ends there.
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
