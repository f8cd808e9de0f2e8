package listings

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
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

// compact is a record without white space, everything else as it was written. One with defects is
// written in canonical form, in which they are mended; record is what it then says. flawed is that
// of the document.
func compact(v value, flawed bool) (record value, text json.RawMessage, defects []string) {
	if flawed {
		defects = v.inspect(nil, 1)
	}
	if len(defects) > 0 {
		slices.Sort(defects)
		mended, _ := decode(v.appendCanonical(nil, nil, nil, 0, 1))
		v = mended.value
	}
	return v, json.RawMessage(v.raw), slices.Compact(defects)
}

// inspect appends what is wrong in a value.
func (v value) inspect(defects []string, depth int) []string {
	switch {
	case v.kind() == jsontext.KindString && isBroken(v.raw):
		return append(defects, DefectUTF8)
	case len(v.inner) > 0 && depth > maxRecordDepth:
		return append(defects, DefectTooDeep)
	}
	for n, m := range v.inner {
		switch {
		case v.object().isShadowed(n):
			defects = append(defects, DefectDuplicateName)
			continue
		case v.isObject() && m.name.broken:
			defects = append(defects, DefectUTF8)
		}
		defects = m.inspect(defects, depth+1)
	}
	return defects
}

// isShadowed reports whether a member is followed by another one with its name, which counts.
func (o object) isShadowed(n int) bool { return n+1 < len(o) && o[n].name.text == o[n+1].name.text }

// compareUTF16 orders names as RFC 8785 does. That differs from their order in bytes only between
// characters above U+FFFF, whose surrogates come earlier, and those from U+E000 on.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i < len(a) && i < len(b) && min(a[i], b[i]) >= 0xEE && (a[i] >= 0xF0) != (b[i] >= 0xF0) {
		return cmp.Compare(b[i], a[i])
	}
	return cmp.Compare(a[i:], b[i:])
}

// isBroken reports whether a JSON string, or any string in a text, may hold bytes or half
// surrogates that are no text.
func isBroken(quoted []byte) bool {
	if !utf8.Valid(quoted) {
		return true
	}
	if !bytes.Contains(quoted, []byte(`\u`)) {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil
}

var errNoJSON = errors.New("digest: not one proper JSON value")

// Digest is the SHA-256 of a record in canonical form (RFC 8785) without what the RFC 6901 pointers
// in ignore lead to: the order of members and white space do not matter. Unlike in the RFC, numbers
// keep their text: integers above 2^53 that a float would make equal stay different, and 1.0 is not
// 1.
func Digest(record json.RawMessage, ignore []string) (digest [32]byte, err error) {
	root, wrong := decode(record)
	if wrong != "" || root.flawed && len(root.inspect(nil, 1)) > 0 {
		return digest, errNoJSON
	}
	return root.digest(tokens(ignore), nil, 0), nil
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

// digest is that of a record; of a contact request's, levels of its objects lack what is outside.
func (v value) digest(ignore [][]string, outside []string, levels int) [32]byte {
	room := canonicals.Get().(*[]byte)
	defer canonicals.Put(room)
	*room = v.appendCanonical((*room)[:0], ignore, outside, levels, 1)
	return sha256.Sum256(*room)
}

// canonicals are rooms for canonical forms.
var canonicals = sync.Pool{New: func() any { return new([]byte) }}

// appendCanonical appends the canonical form without what is ignored. The first levels of objects
// lack the members outside, too. What is nested too deep is null.
func (v value) appendCanonical(b []byte, ignore [][]string, outside []string, levels, depth int) []byte {
	if len(v.inner) > 0 && depth > maxRecordDepth {
		return append(b, "null"...)
	}
	separate := func(b []byte) []byte {
		if last := b[len(b)-1]; last == '{' || last == '[' {
			return b
		}
		return append(b, ',')
	}
	switch v.kind() {
	case jsontext.KindBeginObject:
		b = append(b, '{')
		for n, m := range v.inner {
			deeper, drop := below(ignore, m.name.text)
			if drop || v.object().isShadowed(n) || levels > 0 && (m.name.outside || slices.Contains(outside, m.name.plain)) {
				continue
			}
			b = append(append(separate(b), m.name.canonical...), ':')
			b = m.appendCanonical(b, deeper, outside, levels-1, depth+1)
		}
		return append(b, '}')
	case jsontext.KindBeginArray:
		b = append(b, '[')
		for n, e := range v.inner {
			if deeper, drop := below(ignore, strconv.Itoa(n)); !drop {
				b = e.appendCanonical(separate(b), deeper, nil, 0, depth+1)
			}
		}
		return append(b, ']')
	case jsontext.KindString:
		if raw := v.raw; mayBeRewritten(raw) || !utf8.Valid(raw) {
			return appendCanonicalString(b, raw)
		}
	}
	return append(b, v.raw...)
}

// appendCanonicalString appends a JSON string in the one form that RFC 8785 has for it.
func appendCanonicalString(b, quoted []byte) []byte {
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error is about UTF-8, which is mended
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

// mayBeRewritten reports whether something may be escaped in a JSON string that RFC 8785 writes in
// another way.
func mayBeRewritten(quoted []byte) bool {
	return bytes.Contains(quoted, []byte(`\u`)) || bytes.Contains(quoted, []byte(`\/`))
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
