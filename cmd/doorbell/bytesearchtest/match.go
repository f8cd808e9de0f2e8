package bytesearchtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// form is how the bytes at a place are read.
type form uint8

const (
	plain form = iota
	utf16le
	utf16be
	base64at0 // the text begins with the first byte of three
	base64at1
	base64at2
	gzipped // compressed data
	zlibbed
)

func (f form) String() string {
	return [...]string{"utf-8", "utf-16le", "utf-16be", "base64", "base64", "base64", "gzip", "zlib"}[f]
}

// text is what is searched, ASCII letters in lower case.
type text struct {
	bytes []byte
	units []uint16 // as UTF-16
}

// index says by the first two bytes of a place what may be there: one pass is enough for all texts
// in all forms.
type index struct {
	texts   []text
	at      [1 << 16][]candidate
	longest int // bytes that a text, or the head of compressed data, takes at most
}

type candidate struct {
	text int
	form form
}

func compile(texts []string) (*index, error) {
	ix := &index{longest: 1 << 17}
	for i, s := range texts {
		if len(s) < Shortest || !utf8.ValidString(s) {
			return nil, fmt.Errorf("text %d: not valid UTF-8 of at least %d bytes", i, Shortest)
		}
		t := text{bytes: []byte(s)}
		for k, c := range t.bytes {
			t.bytes[k] = lower(c)
		}
		t.units = utf16.Encode([]rune(string(t.bytes)))
		ix.texts = append(ix.texts, t)
		ix.longest = max(ix.longest, 16*len(s)) // \u and four digits, with a soft line break after it, is less
		for f := plain; f < gzipped; f++ {
			t.begins(f, func(first, second []byte) { ix.add(first, second, candidate{i, f}) })
		}
	}
	ix.add([]byte{0x1f}, []byte{0x8b}, candidate{form: gzipped})
	ix.add([]byte{0x78}, []byte{0x01, 0x5e, 0x9c, 0xda}, candidate{form: zlibbed})
	return ix, nil
}

// add notes what may begin with one of these bytes and then one of those.
func (ix *index) add(first, second []byte, c candidate) {
	for _, a := range first {
		for _, b := range second {
			if at := &ix.at[int(a)<<8|int(b)]; !slices.Contains(*at, c) {
				*at = append(*at, c)
			}
		}
	}
}

// begins hands over the first two bytes of the text in a form, in every way that they may be
// written. For base64 these are the first characters that the text alone decides.
func (t text) begins(f form, add func(first, second []byte)) {
	low, high := byte(t.units[0]), []byte{byte(t.units[0] >> 8)}
	switch f {
	case plain:
		add(raw(t.bytes[0]), append(raw(t.bytes[1]), `\=%`...))
		for _, c := range cases(t.bytes[0]) {
			add([]byte("=%"), digits(c>>4))
		}
		add([]byte(`\`), []byte{'u'})
		if i := strings.IndexByte(escapedInJSON, t.bytes[0]); i >= 0 {
			add([]byte(`\`), []byte{inJSON[i]})
		}
	case utf16le:
		add(cases(low), high)
	case utf16be:
		add(high, cases(low))
	default:
		for _, a := range cases(t.bytes[0]) {
			for _, b := range cases(t.bytes[1]) {
				for _, c := range cases(t.bytes[2]) {
					v := (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) >> map[form]int{base64at0: 12, base64at1: 8, base64at2: 10}[f]
					add(characters(v>>6&63), append(characters(v&63), '\r', '\n'))
				}
			}
		}
	}
}

// raw returns the bytes that stand for one without an escape.
func raw(c byte) []byte {
	if c == ' ' {
		return []byte(" +")
	}
	return cases(c)
}

// The characters behind a backslash in JSON, and what they stand for.
const (
	inJSON        = `"\/bfnrt`
	escapedInJSON = "\"\\/\b\f\n\r\t"
)

// match says whether the text stands in a form at b[i:], where exactly it begins, and how it is
// written.
func (t text) match(f form, b []byte, i int) (begin int, encoding string, ok bool) {
	switch f {
	case plain:
		how, ok := t.plain(b[i:], 0)
		return i, how.String(), ok
	case utf16le, utf16be:
		if len(b)-i < 2*len(t.units) {
			return 0, "", false
		}
		for k, u := range t.units {
			at := b[i+2*k:]
			have := uint16(at[0]) | uint16(at[1])<<8
			if f == utf16be {
				have = have>>8 | have<<8
			}
			if have < utf8.RuneSelf {
				have = uint16(lower(byte(have)))
			}
			if have != u {
				return 0, "", false
			}
		}
		return i, f.String(), true
	}
	i, ok = t.base64(f, b, i)
	return i, f.String(), ok
}

// escapes is a set of the ways in which characters were escaped.
type escapes uint8

const (
	byJSON escapes = 1 << iota
	byQuotedPrintable
	byPercent
)

func (e escapes) String() string {
	var names []string
	for i, name := range []string{"json", "quoted-printable", "percent"} {
		if e>>i&1 == 1 {
			names = append(names, name)
		}
	}
	if names == nil {
		return plain.String()
	}
	return strings.Join(names, "+")
}

// plain says whether the text stands at b from its k-th byte on, and with which escapes. A
// character that begins escapes may also stand for itself.
func (t text) plain(b []byte, k int) (how escapes, ok bool) {
	if k == len(t.bytes) {
		return 0, true
	}
	if len(b) == 0 {
		return 0, false
	}
	c, want, rest := b[0], t.bytes[k], b[1:]
	goesOn := func(kind escapes, written, read int) bool {
		how, ok = t.plain(b[written:], k+read)
		how |= kind
		return ok
	}
	if lower(c) == want && goesOn(0, 1, 1) || c == '+' && want == ' ' && goesOn(byPercent, 1, 1) {
		return how, true
	}
	found := false
	switch c {
	case '\\':
		r, n := unescape(rest)
		if r < utf8.RuneSelf {
			r = rune(lower(byte(r)))
		}
		character := utf8.AppendRune(nil, r)
		found = n > 0 && bytes.HasPrefix(t.bytes[k:], character) && goesOn(byJSON, 1+n, len(character))
	case '=', '%':
		kind := map[byte]escapes{'=': byQuotedPrintable, '%': byPercent}[c]
		v, fits := hex(rest, 2)
		found = fits && lower(byte(v)) == want && goesOn(kind, 3, 1) ||
			c == '=' && k > 0 && (bytes.HasPrefix(rest, []byte("\r\n")) && goesOn(kind, 3, 0) || bytes.HasPrefix(rest, []byte("\n")) && goesOn(kind, 2, 0))
	}
	return how, found
}

// unescape reads an escape of JSON, behind its backslash, and how many bytes it takes.
func unescape(b []byte) (r rune, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	if b[0] != 'u' {
		if i := strings.IndexByte(inJSON, b[0]); i >= 0 {
			return rune(escapedInJSON[i]), 1
		}
		return 0, 0
	}
	v, ok := hex(b[1:], 4)
	if !ok {
		return 0, 0
	}
	if r = rune(v); !utf16.IsSurrogate(r) {
		return r, 5
	}
	if len(b) > 7 && b[5] == '\\' && b[6] == 'u' {
		if v, ok = hex(b[7:], 4); ok {
			return utf16.DecodeRune(r, rune(v)), 11
		}
	}
	return 0, 0
}

// base64 says whether the text stands at b[i:], with i the first character that the text alone
// decides, and where it begins: the character before may hold its first bits.
func (t text) base64(f form, b []byte, i int) (begin int, ok bool) {
	have, bits := uint32(0), 0
	if f != base64at0 {
		begin = i - 1
		for begin >= 0 && begin > i-before && (b[begin] == '\r' || b[begin] == '\n') {
			begin--
		}
		if begin < 0 || sextets[b[begin]] == 0 {
			return 0, false
		}
		have, bits = uint32(sextets[b[begin]]-1), map[form]int{base64at1: 4, base64at2: 2}[f]
	} else {
		begin = i
	}
	for k, breaks := 0, 0; k < len(t.bytes); i++ {
		if i >= len(b) {
			return 0, false
		}
		if b[i] == '\r' || b[i] == '\n' {
			if breaks++; breaks > 2 {
				return 0, false
			}
			continue
		}
		if sextets[b[i]] == 0 {
			return 0, false
		}
		breaks = 0
		have, bits = have<<6|uint32(sextets[b[i]]-1), bits+6
		if bits >= 8 {
			bits -= 8
			if lower(byte(have>>bits)) != t.bytes[k] {
				return 0, false
			}
			k++
		}
	}
	return begin, true
}

// sextets holds for each character of base64, of both alphabets, its value and one.
var sextets = func() (s [256]byte) {
	for v := range uint32(64) {
		for _, c := range characters(v) {
			s[c] = byte(v) + 1
		}
	}
	return s
}()

// characters returns the characters of base64 that stand for six bits.
func characters(v uint32) []byte {
	switch {
	case v < 26:
		return []byte{'A' + byte(v)}
	case v < 52:
		return []byte{'a' + byte(v-26)}
	case v < 62:
		return []byte{'0' + byte(v-52)}
	case v == 62:
		return []byte("+-")
	}
	return []byte("/_")
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// cases returns both cases of an ASCII letter in lower case, and every other byte alone.
func cases(c byte) []byte {
	if 'a' <= c && c <= 'z' {
		return []byte{c, c &^ 0x20}
	}
	return []byte{c}
}

// digits returns the hexadecimal digits of a value.
func digits(v byte) []byte {
	if v < 10 {
		return []byte{'0' + v}
	}
	return []byte{'a' + v - 10, 'A' + v - 10}
}

// hex reads n hexadecimal digits.
func hex(b []byte, n int) (v uint32, ok bool) {
	if len(b) < n {
		return 0, false
	}
	for _, c := range b[:n] {
		switch c = lower(c); {
		case '0' <= c && c <= '9':
			v = v<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
