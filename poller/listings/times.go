package listings

import (
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
// is wrapped in.
func (o object) creations() iter.Seq[value] {
	return func(yield func(value) bool) {
		for scope := range o.scopes() {
			for v := range scope.all(creationNames...) {
				if !v.isEmpty() && !yield(v) {
					return
				}
			}
		}
	}
}

// instant reads a time and names the form in which it is written. An unreadable time does little
// harm, a wrong one much: what can be read in two ways, or is not plausible, is zero.
func instant(v value, zone *time.Location) (at time.Time, form string) {
	if date := v.object().get("$date"); date.raw != nil { // as MongoDB writes it
		if v = date; date.isObject() {
			v = date.object().get("$numberlong")
		}
	}
	s, _ := v.scalar()
	if v.isArray() {
		s = arrayText(v)
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

// arrayText writes the array [2026,11,20,10,41,7,123000000], of which the last two may be absent,
// as a text without a zone.
func arrayText(v value) string {
	elements := v.inner
	if len(elements) < 5 || len(elements) > 7 {
		return ""
	}
	var parts []any
	for n := range 7 {
		digits := "0"
		if n < len(elements) {
			digits, _ = elements[n].number()
		}
		read, err := strconv.ParseUint(digits, 10, 30)
		if err != nil || read > 999_999_999 {
			return ""
		}
		parts = append(parts, read)
	}
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%09d", parts...)
}

// layouts are those of dates and times of day, as inLayout writes them. The day is first where
// there are dots or dashes. With slashes it may be the month: such a date is not read.
var layouts = func() (all []string) {
	for _, zone := range []string{"", "Z07:00", "-0700", "-07"} {
		for _, date := range []string{"2006-01-02", "02.01.2006", "02-01-2006", "2 Jan 2006"} {
			all = append(all, date+" 15:04:05"+zone, date+" 15:04"+zone)
		}
		all = append(all, "Jan 2 2006 3:04:05 PM"+zone) // as Gson writes it
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

// inLayout writes a date as layouts has it: no weekday, no words in between, and the zone directly
// behind the time. Of zones by letters only UTC is the same everywhere. What RFC 2822 and Java add
// to an offset (a comment, a place) says nothing more.
func inLayout(s string) string {
	s = besideOffset.ReplaceAllString(s, "$1")
	s = separator.ReplaceAllString(weekday.ReplaceAllString(s, ""), "$1 $2")
	s = beforeZone.ReplaceAllString(strings.Join(strings.Fields(s), " "), "$1$2")
	return universal.ReplaceAllString(s, "${1}Z")
}

var (
	besideOffset = regexp.MustCompile(
		`(?i)(UTC?|GMT|Z|[+-][0-9]{2}(?::?[0-9]{2})?)(?: *\([^()]*\)|\[[^]]*\])$`)
	weekday    = regexp.MustCompile(`^\pL{3}, *`)
	separator  = regexp.MustCompile(`([0-9])(?:, |[tT])([0-9])`)
	beforeZone = regexp.MustCompile(`(?i)([0-9M]) ([+-]|UTC?$|GMT$|Z$)`)
	universal  = regexp.MustCompile(`(?i)([0-9M])(?:UTC?|GMT|Z)$`)
)

// latest is the moment at which clocks in the zone showed what t shows in UTC. When they showed it
// twice, it is the later one: when in doubt, a contact request is new.
func latest(t time.Time, zone *time.Location) time.Time {
	at := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(),
		zone)
	if again := at.Add(time.Hour); again.Hour() == at.Hour() {
		return again
	}
	return at
}
