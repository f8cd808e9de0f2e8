package shape

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"doorbell/poller/listings"
)

var typeNames = map[byte]string{'n': "null", 't': "boolean", 'f': "boolean", '0': "number", '"': "string", '[': "array", '{': "object"}

// textForms are forms of texts that a pattern tells, with the made-up text of each.
var textForms = []struct {
	name    string
	pattern *regexp.Regexp
	madeUp  string // of three random parts
}{
	{"uuid", uuid, "%[1]x-%[2]x-%[2]x-%[2]x-%[3]x"},
	{"e-mail", email, "person.%[1]x@example.org"},
	{"name <e-mail>", regexp.MustCompile(`^[^<>@]+<[^@\s<>]+@[^@\s<>]+>$`), "Person Beispiel <person.%[1]x@example.org>"},
	{"zone", regexp.MustCompile(`^(?:[A-Z][a-z]+/[A-Z][A-Za-z_]+|UTC|GMT)$`), "Europe/Zurich"},
	{"url", regexp.MustCompile(`^https?://`), "https://elsewhere.example.org/%[1]x"},
}

var (
	uuid      = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)
	email     = regexp.MustCompile(`^[^@\s<>:]+@[^@\s<>]+\.[^@\s<>.]+$`)
	numeric   = regexp.MustCompile(`^[0-9 .,:;/()+'_-]{1,40}$`)
	reference = regexp.MustCompile(`^[^\r\n<]{0,199}$`)
	digitRuns = regexp.MustCompile(`[0-9]+`)
	letters   = regexp.MustCompile(`\pL+`)
	digit     = regexp.MustCompile(`[0-9]`)
)

// classOf is the class of a value: its type, its form, and how it relates to what is around it.
func (d *describer) classOf(p place, v value) class {
	c := class{kind: typeNames[v.kind]}
	switch v.kind {
	case '0':
		if c.form = timeForm(v.text); c.form == "" {
			c.form = digitRuns.ReplaceAllString(strings.ToLower(v.text), "9")
		}
		if !p.inRecord {
			c.is = d.relation(p, v.text)
		}
	case 't', 'f':
		if !p.inRecord && p.speaks {
			c.is = v.text
		}
	case '"':
		if c.is = d.said(p, v.text); c.is == "" || isNatural(v.text) {
			c.form = textForm(v)
		}
	case '[':
		if len(v.inner) == 0 {
			c.form = "empty"
		} else if isDate(v) {
			c.form = "time as numbers"
		}
	}
	return c
}

// relation says how a number of the envelope relates to the records and the request.
func (d *describer) relation(p place, text string) string {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return ""
	case n >= 400 && n <= 599 && p.speaks:
		return "a status of failure"
	case n == d.records:
		return "records"
	case n == 0:
		return "none"
	case n == d.size:
		return "size asked for"
	case n == 1: // the number of the page, or of pages
		return "one"
	case n > d.records:
		return "more than records"
	}
	return "fewer than records"
}

// said is what a text says about the request or the response.
func (d *describer) said(p place, s string) string {
	loose := func(s string) string {
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
		return strings.TrimRight(strings.ToLower(strings.TrimSpace(s)), "#")
	}
	switch {
	case !p.inRecord && p.speaks && listings.Remark(s) != "":
		return "says: " + listings.Remark(s)
	case d.asked.Agency != "" && strings.EqualFold(s, d.asked.Agency):
		return "agencyId asked for"
	case listings.SameName(p.name, "agencyId") && usualAgency.MatchString(s) && usualAgency.MatchString(d.asked.Agency):
		return "another agencyId"
	case d.asked.Reference != "" && loose(s) == loose(d.asked.Reference):
		return "propertyReferenceId asked for"
	case !p.inRecord && isNatural(s):
		return d.relation(p, s)
	}
	return ""
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

func textForm(v value) string {
	s := v.text
	switch {
	case v.broken:
		return "broken text"
	case len(s) > longText:
		return "long text"
	case s == "":
		return "empty"
	}
	if form := timeForm(s); form != "" {
		return form
	}
	if numeric.MatchString(s) {
		return digit.ReplaceAllString(s, "9")
	}
	for _, f := range textForms {
		if f.pattern.MatchString(s) {
			return f.name
		}
	}
	for _, separator := range []string{"#", "%23"} { // a reference has the form x#x##
		if parts := strings.Split(s, separator); len(parts) > 1 && len(parts) < 6 && reference.MatchString(s) {
			for n, part := range parts {
				parts[n] = map[bool]string{true: "x"}[part != ""]
			}
			return strings.Join(parts, separator)
		}
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return "control text"
	}
	return "text"
}

// longText is longer than any reference may be.
const longText = 4 << 10

// timeForm is "time " and a layout of package time, or the unit of a number since 1970; empty if a
// text is no time. A time that is written in another language, or in an unusual way, has the layout
// that the client reads in the same way.
func timeForm(s string) string {
	if len(s) > 60 || !digit.MatchString(s) {
		return ""
	}
	layout := layouts[timeMask(s)]
	if at, err := time.Parse(layout, s); layout != "" && err == nil && at.Format(layout) == s {
		if at.Year() < 1990 || at.Year() > time.Now().Year()+9 {
			return "time " + layout + noMoment
		}
		return "time " + layout
	}
	switch form := listings.TimeForm(s); form {
	case listings.FormUnreadable:
		return ""
	case listings.FormOffset:
		return "time " + time.RFC3339
	case listings.FormZoneless:
		return "time 2006-01-02T15:04:05"
	default:
		return "time " + form
	}
}

// noMoment ends the form of a date such as 0001-01-01, which stands for none.
const noMoment = " of no moment"

func timeMask(s string) string { return letters.ReplaceAllString(digit.ReplaceAllString(s, "9"), "x") }

// layouts are the usual layouts of times, by what timeMask makes of them.
var layouts = func() map[string]string {
	all := map[string]string{}
	add := func(layout string) {
		for _, day := range []int{2, 12} { // with one digit and two
			mask := timeMask(time.Date(2026, 11, day, day, 41, 7, 5e8, time.UTC).Format(layout))
			if all[mask] == "" {
				all[mask] = layout
			}
		}
	}
	for _, date := range []string{
		"2006-01-02", "2006/01/02", "2006.01.02", "02.01.2006", "2.1.2006", "02-01-2006", "02/01/2006", "1/2/2006",
		"2 Jan 2006", "2. January 2006", "Jan 2, 2006", "Mon, 02 Jan 2006", "20060102",
	} {
		add(date)
		for _, clock := range []string{
			"15:04:05", "15:04", "15:04:05.0", "15:04:05.00", "15:04:05.000", "15:04:05.000000", "15:04:05.0000000", "15:04:05.000000000",
			"3:04:05 PM", "3:04 PM", "150405",
		} {
			for _, between := range []string{"T", " ", ", "} {
				for _, zone := range []string{"", "Z", "-07:00", "-0700", "-07", " UTC", " -0700", " -07:00"} {
					add(date + between + clock + zone)
				}
			}
		}
	}
	all[timeMask(time.RFC1123)] = "Mon, 02 Jan 2006 15:04:05 GMT"
	return all
}()

// isDate reports whether an array is a date: [2026,11,20,10,41].
func isDate(v value) bool {
	if len(v.inner) < 5 || len(v.inner) > 7 {
		return false
	}
	for n, bound := range [][2]int{{1990, 2100}, {1, 12}, {1, 31}} {
		if i := atoi(v.inner[n].text); v.inner[n].kind != '0' || i < bound[0] || i > bound[1] {
			return false
		}
	}
	return true
}

// alphabets are the classes of characters, with some that are made up. The first class of a text
// that is among them fills it.
var alphabets = []struct {
	name     string
	includes func(rune) bool
	madeUp   string
}{
	{"lower case", func(r rune) bool { return r >= 'a' && r <= 'z' }, "abcdefghijklmnoprstuvw"},
	{"upper case", func(r rune) bool { return r >= 'A' && r <= 'Z' }, "ABCDEFGHIJKLMNOPRSTUVW"},
	{"digits", func(r rune) bool { return r >= '0' && r <= '9' }, "123456789"},
	{"letters beyond ASCII", func(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.M, r) }, "äöüéèàêôçñ"},
	{"line breaks", func(r rune) bool { return r == '\n' || r == '\r' }, "\n"},
	{"markup", func(r rune) bool { return strings.ContainsRune("<>&", r) }, "&"},
	{"control characters", unicode.IsControl, "\x01"},
	{"spaces", unicode.IsSpace, " "},
	{"punctuation", func(rune) bool { return true }, "-.!?"},
}

// addClasses adds the classes of the characters of a text.
func addClasses(alphabet map[string]bool, text string) {
	for _, r := range text {
		for _, a := range alphabets {
			if a.includes(r) {
				alphabet[a.name] = true
				break
			}
		}
	}
}

// madeUpText is a text of a line's length and alphabet. Its end differs for each of the different
// ones while there is room.
func (l Line) madeUpText(sum [32]byte, n int) string {
	length := 8
	if l.Length != nil {
		length = min((l.Length.Min+l.Length.Max+1)/2, 2*longText)
	}
	samples := [][]rune{[]rune(alphabets[0].madeUp)}
	for _, a := range alphabets {
		if slices.Contains(l.Alphabet, a.name) {
			samples = append(samples, []rune(a.madeUp))
		}
	}
	pool := samples[min(1, len(samples)-1)]
	text := make([]rune, length)
	for i := range text {
		text[i] = pool[int(sum[i%32]+byte(i/32))%len(pool)]
	}
	for i := length - 1; i >= max(0, length-3); i-- {
		text[i] = pool[n%len(pool)]
		n /= len(pool)
	}
	for i := 2; i < len(samples) && i+3 < length; i++ {
		text[i] = samples[i][0]
	}
	if l.Form == "control text" && length > 0 {
		text[0] = 0
	}
	return string(text)
}
