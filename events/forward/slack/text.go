package slack

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// How many bytes of a text are looked at; no message shows as much.
	mostOfLine  = 2 << 10
	mostOfLines = 16 << 10

	maxLines = 25 // of a message
	maxMarks = 3  // on one letter; more of them draw over the lines above
)

// line makes one line of any text: no control or direction marks, no line ends, single spaces.
func line(s string) string { return strings.Join(strings.Fields(clean(s, mostOfLine)), " ") }

// lines does the same and keeps line ends, but no more than one empty line in a row and not more than 25 lines.
func lines(s string) string {
	var kept []string
	empty := true // none at the top
	for l := range strings.SplitSeq(clean(s, mostOfLines), "\n") {
		l = strings.Join(strings.Fields(l), " ")
		if l == "" && empty {
			continue
		}
		if len(kept) == maxLines {
			kept = append(kept, "…")
			break
		}
		kept, empty = append(kept, l), l == ""
	}
	return strings.TrimRight(strings.Join(kept, "\n"), "\n")
}

// clean keeps what people write and drops what only steers how it is shown: control characters, marks of direction, invisible
// letters, heaps of accents. All line ends become \n.
func clean(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return -1
		}
		return cleanRune(r)
	}, s)
}

func cleanRune(r rune) rune {
	switch r {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return '\n'
	case '\t':
		return ' '
	case '\u200c', '\u200d': // join emoji, and letters of some scripts
		return r
	case '\u034f', '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0': // letters that show nothing
		return -1
	}
	if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
		return -1
	}
	return r
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escape is a text as Slack wants it, no longer than limit.
func escape(s string, limit int) string { return escaper.Replace(fit(s, limit)) }

// fit cuts a text so that it is no longer than limit when it is escaped; what is cut ends with …. Slack does not say what it
// counts, so UTF-16 units are counted, of which no character has fewer than one.
func fit(s string, limit int) string {
	used, whole := 0, 0 // whole: where to cut, so that the … still has room
	for i, r := range s {
		size := utf16.RuneLen(r)
		switch r {
		case '&':
			size = len("&amp;")
		case '<', '>':
			size = len("&lt;")
		}
		if used+size > limit {
			return strings.TrimRight(s[:whole], " \n\u200c\u200d") + "…"
		}
		if used += size; used < limit {
			whole = i + utf8.RuneLen(r)
		}
	}
	return s
}

// first is the first characters of a text.
func first(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// What looks like an e-mail address, or like a phone number: seven digits and more, with what people write between them.
var (
	looksLikeMail  = regexp.MustCompile(`[^\s<>()\[\],;:"]+\s?(?:@|\(at\)|\[at\])\s?[^\s<>()\[\],;:"]+`)
	looksLikePhone = regexp.MustCompile(`\+?\(?\d(?:[\s./()\-–'’]{0,3}\d){6,}`)
)

// spare takes out of a stranger's text what [Short] does not show: addresses, numbers, and the family name. It is a help and
// no guarantee: who writes "seven nine" is understood by people alone.
func spare(s, family string) string {
	s = looksLikeMail.ReplaceAllString(s, "(e-mail)")
	s = looksLikePhone.ReplaceAllString(s, "(number)")
	for name := range strings.FieldsSeq(family) {
		if len([]rune(name)) > 2 {
			word := regexp.MustCompile(`(?i)(^|[^\pL\pN])` + regexp.QuoteMeta(name) + `($|[^\pL\pN])`)
			s = word.ReplaceAllString(s, "${1}"+initial(name)+"${2}")
		}
	}
	return s
}

// initial is the first letter of a name with a dot.
func initial(name string) string {
	for _, r := range name {
		if unicode.IsLetter(r) {
			return string(unicode.ToUpper(r)) + "."
		}
	}
	return ""
}
