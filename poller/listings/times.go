package listings

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Forms of creation times.
const (
	FormOffset       = "rfc3339"
	FormZoneless     = "zoneless"
	FormSeconds      = "seconds" // since 1970
	FormMilliseconds = "milliseconds"
	FormMicroseconds = "microseconds"
	FormNanoseconds  = "nanoseconds"
	FormUnreadable   = "unreadable"
	FormAbsent       = "absent"
)

// created is the creation time of a contact request, directly or one level down, and the form in
// which it is written.
func (o object) created(zone *time.Location) (at time.Time, form string) {
	form = FormAbsent
	for v := range o.creations() {
		if at, form = instant(v, zone); !at.IsZero() {
			return at, form
		}
	}
	return at, form
}

// written is the text of a creation time that cannot be read and is a date all the same, such as
// 05/06/2026: it distinguishes contact requests. Other texts, such as "3 minutes ago", may differ
// at each reading.
func (o object) written() string {
	for v := range o.creations() {
		if s, ok := v.scalar(); ok && writtenDate.MatchString(s) {
			return s
		}
	}
	return ""
}

var writtenDate = regexp.MustCompile(`^[0-9][0-9./:T -]{4,28}[0-9]$`)

// creations yields what may be the creation time, surest first, of the record and then of what it
// is wrapped in. A member meta says nothing else of a contact request.
func (o object) creations() iter.Seq[value] {
	return func(yield func(value) bool) {
		for v := range o.all(creationNames...) {
			if !v.isEmpty() && !yield(v) {
				return
			}
		}
		for inner := range o.all(append([]string{"meta"}, wrapperNames...)...) {
			if inner.isProperty() {
				continue
			}
			for v := range inner.object().all(creationNames...) {
				if !v.isEmpty() && !yield(v) {
					return
				}
			}
		}
	}
}

// isProperty reports whether a member of a contact request is its property, which has a time of its
// own.
func (v value) isProperty() bool { return v.reference() != "" && !v.object().hint(personal, 0) }

// instant reads a time and names the form in which it is written. An unreadable time does little
// harm, a wrong one much: what can be read in two ways, or is not plausible, is zero.
func instant(v value, zone *time.Location) (at time.Time, form string) {
	s, _ := v.scalar()
	switch {
	case v.isArray():
		s = arrayText(v)
	case v.isObject():
		s = objectText(v.object(), zone)
	}
	if s = strings.TrimSpace(s); len(s) > 100 {
		return time.Time{}, FormUnreadable
	}
	at, err := time.Parse(time.RFC3339, s) // as most are written
	if form = FormOffset; err != nil {
		if at, form = epoch(s); form != FormUnreadable {
			return at.UTC(), form
		}
		at, form = calendar(s, zone)
	}
	if !isPlausible(at.Unix(), earliestDate) {
		return time.Time{}, FormUnreadable
	}
	return at.UTC(), form
}

// A date is read from 1990 on, so that the zero times of most systems are none. A number is read
// only from December 1999 on, as it may count from another moment than 1970: seconds since 2001
// (until 2030) and ticks since the year 1 would be moments of the nineties, which make every
// contact request old.
const earliestDate, earliestNumber = 631_152_000, 944_006_400

// isPlausible bounds times: no more than ten years from now. A clock that was never set, and begins
// in 1970, does not count.
func isPlausible(second, earliest int64) bool {
	const written = 1_767_225_600 // 2026
	now := time.Unix(max(time.Now().Unix(), written), 0)
	return earliest <= second && second <= now.AddDate(10, 0, 0).Unix()
}

// epoch reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970: only one
// of them is plausible, and none where the digits are a written date such as 20261120094107.
func epoch(s string) (time.Time, string) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || !allDigits(whole+fraction) {
		return time.Time{}, FormUnreadable
	}
	for _, unit := range []struct {
		form      string
		perSecond int64
	}{{FormSeconds, 1}, {FormMilliseconds, 1e3}, {FormMicroseconds, 1e6}, {FormNanoseconds, 1e9}} {
		if second := n / unit.perSecond; isPlausible(second, earliestNumber) {
			nanos := n % unit.perSecond * (1e9 / unit.perSecond)
			if unit.form == FormSeconds {
				nanos, _ = strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
			}
			return time.Unix(second, nanos), unit.form
		}
	}
	return time.Time{}, FormUnreadable
}

// arrayText writes [2026,11,20,10,41,7,123000000], of which the last two may be absent, as a text
// without a zone.
func arrayText(v value) string {
	elements := v.array()
	if len(elements) < 5 || len(elements) > 7 {
		return ""
	}
	digits := make([]string, 7)
	for n := range digits {
		if digits[n] = "0"; n < len(elements) {
			digits[n], _ = elements[n].number()
		}
	}
	return datedBy(digits...)
}

// objectText writes the time of an object as libraries serialize their own types: that of MongoDB
// ($date), of Firestore and Protobuf (seconds and nanoseconds), of PHP and Microsoft Graph (a text
// and its zone), and of Java (a LocalDateTime by its getters). A zone that is named must be UTC or
// ours.
func objectText(o object, zone *time.Location) string {
	number := func(names ...string) string { return cmp.Or(o.scalar(names...), "0") }
	date := o.get("$date")
	text, named := o.scalar("date", "datetime"), o.scalar("timezone")
	offset := o.scalar("$date") // a text or a number
	switch {
	case date.isObject():
		return date.object().scalar("$numberlong")
	case offset != "":
		return offset
	case o.scalar("seconds", "epochsecond") != "":
		nanos, err := strconv.ParseUint(number("nanos", "nanoseconds", "nano"), 10, 30)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%s.%09d", o.scalar("seconds", "epochsecond"), nanos)
	case text != "" && (named == zone.String() || utcOffset.MatchString(named)):
		return text + " " + strings.Replace(named, zone.String(), "", 1)
	case o.scalar("monthvalue") != "":
		return datedBy(
			number("year"), number("monthvalue"), number("dayofmonth"),
			number("hour"), number("minute"), number("second"), number("nano"),
		)
	}
	return ""
}

var utcOffset = regexp.MustCompile(`^(?:UTC|GMT|Z|[+-][0-9]{2}:?[0-9]{2})$`)

func datedBy(digits ...string) string {
	parts := make([]any, len(digits))
	for i, d := range digits {
		n, err := strconv.ParseUint(d, 10, 30)
		if err != nil || n > 999_999_999 {
			return ""
		}
		parts[i] = n
	}
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%09d", parts...)
}

// layouts are those of dates and times of day, in the words and spaces of inLayout. The day is
// first where there are dots or dashes. With slashes it may be the month: such a date is not read.
var layouts = func() (all []string) {
	for _, zone := range []string{"", "Z07:00", "-0700", "-07"} {
		for _, clock := range []string{"15:04:05", "15:04"} {
			for _, date := range []string{"2006-01-02", "2006/01/02", "02.01.2006", "02-01-2006", "2 Jan 2006", "Jan 2 2006"} {
				all = append(all, date+" "+clock+zone)
			}
			all = append(all, "Jan 2 "+clock+zone+" 2006")
		}
		all = append(all, "Jan 2 2006 3:04:05 PM"+zone, "Jan 2 2006 3:04 PM"+zone, "20060102 150405"+zone)
	}
	return all
}()

func calendar(s string, zone *time.Location) (time.Time, string) {
	s = inLayout(s)
	for _, layout := range layouts {
		at, err := time.Parse(layout, s)
		switch {
		case err != nil:
		case strings.Contains(layout, "07"):
			return at, FormOffset
		default:
			return latest(at, zone), FormZoneless
		}
	}
	return time.Time{}, FormUnreadable
}

// inLayout writes a date as layouts has it: months in English, no weekday, no words in between, and
// the zone directly behind the time. Of zones by letters only UTC is the same everywhere. What
// RFC 2822 and Java add to an offset (a comment, a place) says nothing more.
func inLayout(s string) string {
	s = besideOffset.ReplaceAllString(s, "$1")
	if day := weekday.FindString(s); months[plain(strings.Trim(day, "., "))] == 0 {
		s = s[len(day):]
	}
	s = separator.ReplaceAllString(s, " ")
	s = letters.ReplaceAllStringFunc(s, func(word string) string {
		switch name := plain(word); name {
		case "t", "at", "um", "uhr", "a", "alle", "ore":
			return " "
		case "z", "ut", "utc", "gmt":
			return "Z"
		default:
			if month := months[name]; month > 0 {
				word = time.Month(month).String()[:3]
			}
			return " " + strings.ToUpper(word) + " "
		}
	})
	s = beforeZone.ReplaceAllString(strings.Join(strings.Fields(s), " "), "$1$2")
	return strings.NewReplacer("Z+", "+", "Z-", "-").Replace(s)
}

var (
	besideOffset = regexp.MustCompile(`(?i)(UTC?|GMT|Z|[+-][0-9]{2}(?::?[0-9]{2})?)(?: *\([^()]*\)|\[[^]]*\])$`)
	weekday      = regexp.MustCompile(`^\pL{2,3}(?:, *|[.,]* +)`)
	separator    = regexp.MustCompile(`[.,]+ `)
	letters      = regexp.MustCompile(`\pL+`)
	beforeZone   = regexp.MustCompile(`([0-9M]) ([Z+-])`)
)

// months are the names of months in four languages, and their first three letters where these name
// one.
var months = func() map[string]int {
	all := map[string]int{}
	for _, year := range []string{
		"january february march april may june july august september october november december",
		"januar februar maerz april mai juni juli august september oktober november dezember",
		"janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
		"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
	} {
		for n, name := range strings.Fields(year) {
			all[name] = n + 1
			if short := name[:3]; short != "jui" { // juin, juillet
				all[short] = n + 1
			}
		}
	}
	all["marz"], all["sept"], all["juil"] = 3, 9, 7
	return all
}()

// latest is the moment at which clocks in the zone showed what t shows in UTC. When they showed it
// twice, it is the later one, and when never, the later reading of it: when in doubt, a contact
// request is new.
func latest(t time.Time, zone *time.Location) time.Time {
	var found, reading time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := t.Add(near).In(zone).Zone()
		c := t.Add(-time.Duration(offset) * time.Second)
		if c.After(reading) {
			reading = c
		}
		_, actual := c.In(zone).Zone()
		if actual == offset && c.After(found) {
			found = c
		}
	}
	if found.IsZero() {
		return reading
	}
	return found
}
