package listings

import (
	"slices"
	"strings"
)

// named says whether a name is one of the names, in whatever style.
func named(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return SameName(name, n) })
}

// plain makes names alike that differ in style only: createdAt, created_at, created-at, CreatedAt.
func plain(name string) string {
	n := 0
	for n < len(name) && !isSeparator(name[n]) && lower(name[n]) == name[n] {
		n++
	}
	if n == len(name) {
		return name
	}
	return string(appendPlain(make([]byte, 0, 64), name))
}

func appendPlain[text string | []byte](to []byte, name text) []byte {
	for n := range len(name) {
		if c := name[n]; !isSeparator(c) {
			to = append(to, lower(c))
		}
	}
	return to
}

// SameName says whether two names differ in style only, so that [ContactRequest.ID] may read the same member for both. It is
// what plain tells, without making it: most names are of no interest.
func SameName(a, b string) bool {
	for i, j := 0, 0; ; i, j = i+1, j+1 {
		for i < len(a) && isSeparator(a[i]) {
			i++
		}
		for j < len(b) && isSeparator(b[j]) {
			j++
		}
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if lower(a[i]) != lower(b[j]) {
			return false
		}
	}
}

func isSeparator(c byte) bool { return c == '_' || c == '-' || c == ' ' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// looksLike says whether a text holds one of the words, in whatever case.
func looksLike(s string, words ...string) bool {
	s = strings.ToLower(s)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}
