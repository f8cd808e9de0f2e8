package listings

import "bytes"

// plainKind is the kind of a number, or of a text without anything odd in it that is not empty; 0 for anything else.
func plainKind(value []byte) uint64 {
	if value[0] != '"' {
		if isPlainNumber(value) {
			return '0'
		}
		return 0
	}
	for _, c := range value[1 : len(value)-1] {
		if c < ' ' || c > '~' || c == '\\' {
			return 0
		}
	}
	if len(value) == 2 {
		return 0
	}
	return '"'
}

// isPlainNumber knows decimal numbers without an exponent.
func isPlainNumber(value []byte) bool {
	value = bytes.TrimPrefix(value, []byte{'-'})
	whole, part, dot := bytes.Cut(value, []byte{'.'})
	if len(whole) == 0 || whole[0] == '0' && len(whole) > 1 || dot && len(part) == 0 {
		return false
	}
	return isDigits(whole) && isDigits(part)
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isOneOf says whether a name, made plain, is one of the names. A very long one might be.
func isOneOf(name []byte, names map[string]struct{}) bool {
	var room [48]byte
	if len(name) > len(room) {
		return true
	}
	b := room[:0]
	for _, c := range name {
		if !isSeparator(c) {
			b = append(b, lower(c))
		}
	}
	_, ok := names[string(b)]
	return ok
}
