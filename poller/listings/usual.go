package listings

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// hasUsualTexts says whether each text of a body whose structure is that of JSON is written as in canonical form. White space
// other than blanks counts against it: services that write much of it are few.
func hasUsualTexts(body []byte) bool {
	if hasControls(body) || !utf8.Valid(body) {
		return false
	}
	for {
		n := bytes.IndexByte(body, '\\')
		if n < 0 {
			return true
		}
		if n+1 == len(body) || !isUsualEscape(body[n+1]) {
			return false
		}
		body = body[n+2:]
	}
}

// isUsualEscape knows what follows a backslash where nothing else could be written in place of both.
func isUsualEscape(c byte) bool {
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// hasControls says whether one of the bytes is a control character, eight at a time.
func hasControls(b []byte) bool {
	const ones = 0x0101_0101_0101_0101
	below := uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		below |= (word - ones*' ') &^ word
	}
	for _, c := range b {
		below |= uint64(c-' ') &^ uint64(c)
	}
	return below&(ones<<7) != 0
}
