package listings

import (
	"slices"
	"strings"
)

// named says whether a name is one of the names, in whatever style.
func named(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return isPlain(name, plain(n)) })
}

// plain makes names alike that differ in style only: createdAt, created_at, created-at, CreatedAt.
func plain(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; !isSeparator(c) {
			b = append(b, lower(c))
		}
	}
	return string(b)
}

// isPlain says whether plain(name) is want, without making it: most names are of no interest.
func isPlain(name, want string) bool {
	n := 0
	for i := range len(name) {
		c := name[i]
		if isSeparator(c) {
			continue
		}
		if n == len(want) || want[n] != lower(c) {
			return false
		}
		n++
	}
	return n == len(want)
}

// SameName says whether two names differ in style only, so that [ContactRequest.ID] may read the same member for both.
func SameName(a, b string) bool { return isPlain(a, plain(b)) }

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
