package shape

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"doorbell/poller/listings"
)

var (
	uuid       = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)
	email      = regexp.MustCompile(`^[^@\s<>:]+@[^@\s<>]+\.[^@\s<>.]+$`)
	namedEmail = regexp.MustCompile(`^[^<>@]+<[^@\s<>]+@[^@\s<>]+>$`)
	hexText    = regexp.MustCompile(`^(?:[0-9a-f]{16,}|[0-9A-F]{16,})$`)
	numeric    = regexp.MustCompile(`^[0-9 .,:;/()+'_-]{1,40}$`)
	upperWord  = regexp.MustCompile(`^[A-Z]+(?:_[A-Z]+)*$`)
	zoneName   = regexp.MustCompile(`^(?:[A-Z][a-z]+/[A-Z][A-Za-z_]+|UTC|GMT)$`)
	nextLink   = regexp.MustCompile(`<([^<>]*)> *;[^<>]*rel="?next"?`)
)

// classOf is the class of a value: its type, its form, and how it relates to what is around it.
func (d *describer) classOf(p place, v value) class {
	c := class{kind: typeNames[v.kind]}
	switch v.kind {
	case '0':
		c.form = numberForm(v.text)
		if !p.inRecord {
			c.is = d.relation(p, v.text)
		}
	case 't':
		if !p.inRecord && p.speaks {
			c.is = v.text
		}
	case '"':
		c.form, c.is = d.text(p, v)
	case '[':
		if dateOfNumbers(v) {
			c.form = "date as numbers"
		}
	}
	return c
}

// numberForm is 9, -9, 9.9 or 9e9, or a moment since 1970.
func numberForm(text string) string {
	if unit := momentUnit(text); unit != "" {
		return "moment in " + unit
	}
	return digitRuns.ReplaceAllString(strings.ToLower(text), "9")
}

var digitRuns = regexp.MustCompile(`[0-9]+`)

var units = []struct {
	name      string
	perSecond int64
}{{"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}}

// momentUnit is the unit in which a number counts a moment of this age; empty: it is none.
func momentUnit(text string) string {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return ""
	}
	for _, u := range units {
		if at := time.Unix(n/u.perSecond, 0); at.Year() >= 2000 && at.Before(time.Now().AddDate(10, 0, 0)) {
			return u.name
		}
	}
	return ""
}

// relation says how a number of the envelope relates to the records and the request.
func (d *describer) relation(p place, text string) string {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return ""
	case n >= 400 && n <= 599 && p.speaks:
		return "a status of failure"
	case n == d.status && p.speaks:
		return "status"
	case n == d.records:
		return "records"
	case n == 0:
		return "none"
	case n == d.size:
		return "size asked for"
	case n == 1:
		return "one"
	case d.records < 0:
		return "some"
	case n > d.records:
		return "more than records"
	}
	return "fewer than records"
}

// Words that tell success from failure; they are written where a member speaks of the response.
var (
	wholeWords = []string{
		"ok", "okay", "success", "successful", "succeeded", "fine", "done", "none", "ended", "empty", "found", "ready", "complete", "completed",
		"no error", "no errors", "no result", "no results", "no record", "no records", "no content", "no data", "true", "false", "yes", "no",
	}
	firstWords = []string{"partial", "incomplete", "truncated", "timed out", "degraded"}
	wordsIn    = []string{
		"error", "exception", "fault", "fail", "fatal", "critical", "severe", "forbidden", "unauthorized", "denied", "exceed", "limit", "quota",
		"throttl", "unavailable", "overload", "timeout", "too many", "invalid", "refused", "abort",
	}
)

// wordOf is the word of these lists that a text consists of, begins with or has in it.
func wordOf(text string) string {
	text = strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(strings.TrimSpace(text)))
	if len(text) > 200 {
		return ""
	}
	for _, w := range wholeWords {
		if text == w || strings.ReplaceAll(w, " ", "") == text {
			return w
		}
	}
	for _, w := range firstWords {
		if strings.HasPrefix(text, w) || strings.HasPrefix(text, strings.ReplaceAll(w, " ", "")) {
			return w
		}
	}
	for _, w := range wordsIn {
		if strings.Contains(text, w) || strings.Contains(text, strings.ReplaceAll(w, " ", "")) {
			return w
		}
	}
	return ""
}

func (d *describer) text(p place, v value) (form, is string) {
	s := v.text
	switch {
	case v.broken:
		return "broken text", ""
	case len(s) > longText:
		return "long text", ""
	case s == "":
		return "empty", ""
	case strings.TrimSpace(s) == "":
		return "white space", ""
	}
	if !p.inRecord && p.speaks {
		if word := wordOf(s); word != "" {
			return "word", "says: " + word
		}
	}
	switch {
	case d.asked.Agency != "" && strings.EqualFold(s, d.asked.Agency):
		return "text", "agencyId asked for"
	case listings.SameName(p.name, "agencyId") && usualAgency.MatchString(s) && usualAgency.MatchString(d.asked.Agency):
		return "text", "another agencyId"
	case d.asked.Reference != "" && loose(s) == loose(d.asked.Reference):
		return "text", "propertyReferenceId asked for"
	case momentUnit(s) != "":
		return "moment in " + momentUnit(s), ""
	}
	if date, ok := dateForm(s); ok {
		return date, ""
	}
	switch {
	case numeric.MatchString(s):
		if isNatural(s) && !p.inRecord {
			is = d.relation(p, s)
		}
		return mask(s), is
	case uuid.MatchString(s):
		return "uuid", ""
	case hexText.MatchString(s):
		return "hex", ""
	case email.MatchString(s):
		return "e-mail", ""
	case namedEmail.MatchString(s):
		return "name <e-mail>", ""
	case strings.HasPrefix(s, "mailto:"):
		return "mailto:e-mail", ""
	case zoneName.MatchString(s):
		return "zone", ""
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		if u, err := url.Parse(s); err == nil && strings.EqualFold(u.Host, d.asked.Host) {
			return "url of the API", ""
		}
		return "url elsewhere", ""
	case strings.HasPrefix(s, "/") && !strings.ContainsAny(s, " \n"):
		return "path", ""
	case len(s) < 200 && !strings.ContainsAny(s, "\r\n<"):
		for _, separator := range []string{"#", "%23"} {
			if strings.Contains(s, separator) && strings.Count(s, separator) <= 4 {
				return segments(s, separator), ""
			}
		}
	}
	if upperWord.MatchString(s) {
		return "word", ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return "control text", ""
	}
	return "text", ""
}

// longText is longer than any reference may be.
const longText = 4 << 10

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// segments is a reference as x#x##.
func segments(s, separator string) string {
	parts := strings.Split(s, separator)
	for n, part := range parts {
		if part != "" {
			parts[n] = "x"
		}
	}
	return strings.Join(parts, separator)
}

// loose is a reference without what differs by style.
func loose(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		s = decoded
	}
	return strings.TrimRight(strings.ToLower(strings.TrimSpace(s)), "#")
}

// mask is a text with 9 for each digit and without letters.
func mask(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsDigit(r):
			return '9'
		case strings.ContainsRune(" .,:;/()+'_-", r):
			return r
		}
		return 'x'
	}, s)
}

var (
	datePart = regexp.MustCompile(`[0-9]+|\pL+|[\[(][A-Za-z_/]+[\])]|.`)
	dateLike = regexp.MustCompile(`^[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|^[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}|^[0-9]{8}T|[0-9]:[0-9]{2}`)
	months   = listOf("jan feb mar apr may mai jun jul aug sep okt oct nov dec dez januar februar märz april juni juli august september oktober november dezember " +
		"january february march june july october december janvier février mars avril juin juillet août septembre octobre novembre décembre " +
		"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre dicembre sept juil")
	weekdays = listOf("mon tue wed thu fri sat sun mo di mi do fr sa so monday tuesday wednesday thursday friday saturday sunday")
	literals = listOf("t z utc gmt am pm uhr um at cet cest")
)

func listOf(words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(words) {
		all[w] = true
	}
	return all
}

// dateForm is a date or a time of day with 9 for digits, Mmm for a month and Ddd for a weekday.
func dateForm(s string) (string, bool) {
	if len(s) > 60 || !dateLike.MatchString(s) {
		return "", false
	}
	var b strings.Builder
	for _, part := range datePart.FindAllString(s, -1) {
		word := strings.ToLower(part)
		switch first := rune(part[0]); {
		case first >= '0' && first <= '9':
			b.WriteString(strings.Repeat("9", len(part)))
		case literals[word]:
			b.WriteString(part)
		case months[word]:
			b.WriteString("M" + strings.Repeat("m", max(2, min(len([]rune(word))-1, 3))))
		case weekdays[word]:
			b.WriteString("Ddd")
		case first == '[' && len(part) > 1:
			b.WriteString("[zone]")
		case first == '(' && len(part) > 1:
			b.WriteString("(zone)")
		case strings.Contains(" .,:/+-_", part):
			b.WriteString(part)
		case part == "\u00a0", part == "\u202f":
			b.WriteString(" ")
		default:
			return "", false
		}
	}
	form := b.String()
	year := regexp.MustCompile(`[0-9]{4}`).FindString(s)
	if n := atoi(year); strings.Contains(form, "9999") && (n < 1990 || n > time.Now().Year()+9) {
		form += " of no moment"
	}
	return form, true
}

// dateOfNumbers reports whether an array is a date: [2026,11,20,10,41].
func dateOfNumbers(v value) bool {
	if len(v.inner) < 5 || len(v.inner) > 7 {
		return false
	}
	for n, bound := range [][2]int{{1990, 2100}, {1, 12}, {1, 31}} {
		e := v.inner[n]
		if i, err := strconv.Atoi(e.text); e.kind != '0' || err != nil || i < bound[0] || i > bound[1] {
			return false
		}
	}
	return true
}

// addClasses notes the classes of the characters of a text.
func addClasses(alphabet map[string]bool, v value) {
	if v.broken {
		alphabet["bytes that are no text"] = true
	}
	for _, r := range v.text {
		switch {
		case r >= '0' && r <= '9':
			alphabet["digits"] = true
		case r >= 'a' && r <= 'z':
			alphabet["lower case"] = true
		case r >= 'A' && r <= 'Z':
			alphabet["upper case"] = true
		case unicode.IsLetter(r), unicode.Is(unicode.M, r):
			alphabet["letters beyond ASCII"] = true
		case r == ' ', unicode.Is(unicode.Zs, r):
			alphabet["spaces"] = true
		case r == '\n', r == '\r':
			alphabet["line breaks"] = true
		case r == '<', r == '>', r == '&':
			alphabet["markup"] = true
		case unicode.IsControl(r):
			alphabet["control characters"] = true
		default:
			alphabet["punctuation"] = true
		}
	}
}
