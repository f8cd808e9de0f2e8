package message

import (
	"encoding/json"
	"html"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// What comes from outside is shown as what it is: letters. It goes through Line or Lines before
// anything else is done with it.

// Line is a text on one line, without what cannot be seen, cut to a length.
func Line(s string, most int) string {
	return Fit(strings.Join(strings.Fields(visible(bounded(s, most))), " "), most)
}

// Lines is a text with its line ends, at most one empty line in a row, cut to a length. It says
// whether something was cut.
func Lines(s string, most int) (text []string, wasCut bool) {
	s = strings.TrimSpace(visible(strings.ReplaceAll(bounded(s, 2*most), "\r\n", "\n")))
	short := Fit(s, most)
	for l := range strings.SplitSeq(short, "\n") {
		l = strings.TrimRight(l, " ")
		if l != "" || len(text) > 0 && text[len(text)-1] != "" {
			text = append(text, l)
		}
	}
	return text, short != s
}

// The tags that portals and mail programs put into a message. Everything else between angle
// brackets is part of the text.
var (
	endsLine = regexp.MustCompile(`(?i)<br\b[^<>]*>|</(?:p|div|li|h[1-6]|tr)\s*>`)
	aTag     = regexp.MustCompile(`(?i)</?(?:html|head|body|p|div|span|a|b|i|u|em|strong|font|small|ul|ol|li|h[1-6]|table|tbody|tr|td|blockquote)\b[^<>]*>`)
)

// Untagged is a message that was written in HTML, as text. Where there is no tag nothing is
// changed.
func Untagged(s string) string {
	s = bounded(s, 2*maxMessage)
	text := aTag.ReplaceAllString(endsLine.ReplaceAllString(s, "\n"), "")
	if text == s {
		return s
	}
	return html.UnescapeString(text)
}

// bounded keeps what can be of use of a very long text, so that nothing is done for the rest.
func bounded(s string, most int) string { return s[:min(len(s), 8*most)] }

// visible removes control characters, marks that turn the direction of writing or hide what
// follows, letters that show nothing, heaps of accents, which draw over the lines above, and what
// is no character at all. Joiners stay: names and emoji need them.
func visible(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks++; marks > 3 {
			return -1
		}
		switch r {
		case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
			return '\n'
		case '\u200C', '\u200D':
			return r
		case '\u034f', '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0':
			return -1
		}
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co), r&0xFFFE == 0xFFFE,
			0xFDD0 <= r && r <= 0xFDEF:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// joined puts what there is of several texts together.
func joined(separator string, parts ...string) string {
	there := slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(there, separator)
}

// scalar is a JSON number or text as a person reads it; empty for everything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return Line(text, maxWord)
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return Line(number.String(), 32)
	}
	return ""
}

func splitName(whole string) (first, last string) {
	i := strings.LastIndex(whole, " ")
	if i < 0 {
		return whole, ""
	}
	return whole[:i], whole[i+1:]
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

// URL is an address that was made here, of parts that were checked: a message must not lead to
// where a stranger wants it to. It is ASCII without white space, quotes and angle brackets. What
// makes none is shown as text.
type URL string

var dialable = regexp.MustCompile(`^\+?[0-9]{5,15}$`)

// telLink calls the first of the numbers that can be called.
func telLink(numbers ...string) URL {
	for _, n := range numbers {
		n = strings.NewReplacer(" ", "", "\u00a0", "", "-", "", ".", "", "/", "", "(0)", "", "(",
			"", ")", "").Replace(n)
		if dialable.MatchString(n) {
			return URL("tel:" + n)
		}
	}
	return ""
}

const maxAddress = 254

// Address is the address of a person if mail can be sent to it, else empty.
func Address(text string) string {
	text = strings.TrimSpace(text)
	a, err := mail.ParseAddress(text)
	if err != nil || len(text) > maxAddress || a.Name != "" ||
		strings.ContainsFunc(text, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`<>"(),:;[\]`, r)
		}) {
		return ""
	}
	if at := strings.LastIndexByte(a.Address, '@'); at < 1 || at > 64 ||
		!IsDomain(a.Address[at+1:]) || !strings.Contains(a.Address[at:], ".") {
		return ""
	}
	return a.Address
}

// mailLink writes to a person, with a subject. Nothing has a meaning in it: an & would begin a
// body, or another recipient.
func mailLink(address, subject string) URL {
	if address = Address(address); address == "" {
		return ""
	}
	quoted := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	at := strings.LastIndexByte(address, '@')
	link := "mailto:" + quoted(address[:at]) + address[at:]
	if subject != "" {
		link += "?subject=" + quoted(subject)
	}
	return URL(link)
}

// webLink is an https or http address, with its host as people are shown it. Both are empty where
// it is none.
func webLink(text string) (link URL, host string) {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || len(text) > 1000 || u.Scheme != "https" && u.Scheme != "http" ||
		u.User != nil || u.Opaque != "" || !IsDomain(u.Hostname()) {
		return "", ""
	}
	for _, r := range u.String() {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'<>`\\|", r) {
			return "", ""
		}
	}
	return URL(u.String()), strings.TrimPrefix(u.Hostname(), "www.")
}

// Page is the address of a page on the web, if it is one.
func Page(text string) URL {
	page, _ := webLink(text)
	return page
}

var domain = regexp.MustCompile(
	`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// IsDomain asks for letters, digits, dots and hyphens where they may be. One word is enough: mail
// may stay in the house.
func IsDomain(s string) bool { return domain.MatchString(s) }
