package email

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What comes from outside is shown as what it is: letters. It goes through line or lines before anything else is done with it.

// Lengths, in characters, of what is shown.
const (
	maxWord     = 100   // names, ids, places
	maxTitle    = 200   // titles, references, addresses
	maxSubject  = 160   // without the prefix
	maxSentence = 1000  // advice and the like
	maxMessage  = 10000 // what a person wrote, in a mail of its own
	maxInDigest = 800   // and in a list
)

const cutMark = "…"

// line is a text on one line, without what cannot be seen, cut to a length.
func line(s string, most int) string {
	s = visible(bounded(s, most), func(r rune) rune {
		if unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	})
	return cut(strings.Join(strings.Fields(s), " "), most)
}

// lines is a text with its line ends, at most one empty line in a row, cut to a length. It says whether something was cut.
func lines(s string, most int) (text []string, wasCut bool) {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n").Replace(bounded(s, 2*most))
	s = visible(s, func(r rune) rune {
		if r != '\n' && unicode.IsSpace(r) {
			return ' '
		}
		return r
	})
	s = strings.TrimSpace(s)
	short := cut(s, most)
	for l := range strings.SplitSeq(short, "\n") {
		l = strings.TrimRight(l, " ")
		if l != "" || len(text) > 0 && text[len(text)-1] != "" {
			text = append(text, l)
		}
	}
	return text, short != s
}

// bounded keeps what can be of use of a very long text, so that nothing is done for the rest.
func bounded(s string, most int) string {
	if len(s) <= 8*most {
		return s
	}
	return s[:8*most]
}

// visible removes control characters, marks that turn the direction of writing or hide what follows, and what is no
// character at all. Joiners stay: names and emoji need them. Space and line ends are up to keep.
func visible(s string, keep func(rune) rune) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		r = keep(r)
		switch {
		case r == '\n', r == ' ', r == '\u200C', r == '\u200D':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r&0xFFFE == 0xFFFE, 0xFDD0 <= r && r <= 0xFDEF:
			return -1
		}
		return r
	}, s)
}

// cut keeps the beginning of a text, with a mark if that is not all.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:most-1]), " \n\u200D") + cutMark
}

// joined puts what there is of several texts together.
func joined(separator string, parts ...string) string {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	return strings.Join(there, separator)
}

// scalar is a JSON number or text as a person reads it; empty for everything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return line(text, maxWord)
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return line(number.String(), 32)
	}
	return ""
}

// amount writes a number as Swiss people do, 2’890.– or 2’890.50. What is no plain number stays as it is.
func amount(n string) string {
	n = line(n, 32)
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(n, "-"), ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return n
	}
	fraction = strings.TrimRight(fraction, "0")
	switch len(fraction) {
	case 0:
		fraction = "–"
	case 1:
		fraction += "0"
	}
	sign := ""
	if strings.HasPrefix(n, "-") {
		sign = "-"
	}
	return sign + grouped(whole) + "." + fraction
}

func grouped(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('’')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// moment is a time where the readers are, to the minute.
func moment(t time.Time, l *time.Location) string {
	return t.In(l).Format("Mon 2 Jan 2006, 15:04 MST")
}

// since is how long ago something was, in one unit. Clocks differ: what lies ahead was just now.
func since(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 10*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// count is a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(fmt.Sprint(n)) + " " + many
}
