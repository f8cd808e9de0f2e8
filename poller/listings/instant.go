package listings

import (
	"iter"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// created is the creation time of a contact request, directly or one level down, and the form it is written in.
func (o object) created(zone *time.Location) (at time.Time, form string) {
	form = FormAbsent
	for v := range o.creations() {
		if at, form = instant(v, zone); !at.IsZero() {
			return at, form
		}
	}
	return at, form
}

// written is the text of a creation time that cannot be read and is a date all the same, such as 05/06/2026: it tells
// contact requests apart. Other texts may be another at each reading, such as "3 minutes ago".
func (o object) written() string {
	for v := range o.creations() {
		if s, ok := v.scalar(); ok && writtenDate.MatchString(s) {
			return s
		}
	}
	return ""
}

var writtenDate = regexp.MustCompile(`^[0-9][0-9./:T -]{4,28}[0-9]$`)

// creations yields what may be the creation time, surest first, of the record and then of what it is wrapped in.
func (o object) creations() iter.Seq[value] {
	return func(yield func(value) bool) {
		within := func(scope object) bool {
			for v := range scope.all(creationNames...) {
				if !v.isEmpty() && !yield(v) {
					return false
				}
			}
			return true
		}
		if !within(o) {
			return
		}
		for inner := range o.all(wrapperNames...) {
			if !inner.isProperty() && !within(inner.object()) {
				return
			}
		}
	}
}

// isProperty says whether a member of a contact request is the property that it is about: that has a time of its own.
func (v value) isProperty() bool { return v.reference() != "" && !v.object().hint(personal, 0) }

// instant reads a time, and says in which form it stands there; zero if it cannot. RFC 3339, also without the colon in the
// offset or with a space for the T; no offset at all, then in zone; day, month and year with dots or dashes; the form of HTTP
// headers; seconds or milliseconds since 1970, as number or text, also in /Date(…)/; a list of year, month, day, hour, minute
// and so on, in zone.
func instant(v value, zone *time.Location) (at time.Time, form string) {
	s, isText := v.text()
	digits, isNumber := v.number()
	switch s = strings.TrimSpace(s); {
	case isNumber:
		at, form = epoch(digits)
	case v.isArray():
		at, form = listed(v, zone), FormZoneless
	case isText && len(s) <= 64:
		if inner := wrappedEpoch.FindStringSubmatch(s); inner != nil {
			s = inner[1]
		}
		if at, form = epoch(s); at.IsZero() {
			at, form = calendar(s, zone)
		}
	}
	// The zero times of other systems, and years that JSON cannot carry, are none.
	if at = at.UTC(); at.Year() < 1971 || at.Year() > 9999 {
		return time.Time{}, FormUnreadable
	}
	return at, form
}

// wrappedEpoch has the form /Date(1514764800000+0100)/; what follows the number is about how to show it.
var wrappedEpoch = regexp.MustCompile(`^/?Date\(([0-9]{1,15})(?:[+-][0-9]{4})?\)/?$`)

// listed reads [2026,11,20,10,41,7,123000000]; the last two may be absent.
func listed(v value, zone *time.Location) time.Time {
	var n []int
	for e := range v.elements() {
		digits, _ := e.number()
		i, ok := natural(digits)
		if !ok || len(n) == 7 || i > 999_999_999 {
			return time.Time{}
		}
		n = append(n, int(i))
	}
	if len(n) < 5 {
		return time.Time{}
	}
	n = append(n, 0, 0)
	t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], n[6], time.UTC)
	if t.Year() != n[0] || t.Month() != time.Month(n[1]) || t.Day() != n[2] || t.Hour() != n[3] || t.Minute() != n[4] || t.Second() != n[5] {
		return time.Time{} // something was too large and carried over
	}
	return latest(t, zone)
}

var zonedLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
}

// Of day and month, dots and dashes are written by those who put the day first. With slashes it may be the other way
// round: such a time is read only if it can be read in one way.
var zonelessLayouts = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04",
	"02.01.2006T15:04:05", "02.01.2006T15:04", "02-01-2006T15:04:05", "02-01-2006T15:04",
	"02/01/2006T15:04:05", "02/01/2006T15:04",
}

// nativeZone is what Java writes behind the offset.
var nativeZone = regexp.MustCompile(`\[[A-Za-z_/+-]{1,40}\]$`)

func calendar(s string, zone *time.Location) (time.Time, string) {
	if strings.HasSuffix(s, " GMT") {
		t, _ := http.ParseTime(s)
		return t, FormOffset
	}
	if strings.HasSuffix(s, "]") {
		s = nativeZone.ReplaceAllString(s, "")
	}
	s = strings.Replace(s, ", ", " ", 1)
	if len(s) > 5 && s[2] == '/' && (s[3:5] <= "12" && s[:2] <= "12" && s[:2] != s[3:5]) {
		return time.Time{}, FormUnreadable
	}
	if len(s) > 10 && (s[10] == ' ' || s[10] == 't') {
		s = s[:10] + "T" + s[11:]
	}
	s = strings.Replace(strings.Replace(s, " +", "+", 1), " Z", "Z", 1)
	if strings.HasSuffix(s, "z") {
		s = s[:len(s)-1] + "Z"
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, FormOffset
		}
	}
	for _, layout := range zonelessLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return latest(t, zone), FormZoneless
		}
	}
	return time.Time{}, FormUnreadable
}

// latest is the moment at which clocks in the zone showed what t shows in UTC. When they showed it twice, it is the later
// one, and when never, the later reading of it: a contact request that seems younger is rather news.
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

// epochFrom and epochTo bound what is read as a number of seconds or milliseconds: 202611200941 and 20261120094107 are written
// dates, and would be 1976 and 2612.
const epochFrom, epochTo = 631_152_000, 4_102_444_800 // 1990 and 2100

// epoch reads seconds or milliseconds since 1970, with or without a fraction. Twelve digits and more are milliseconds:
// in seconds they would be in the sixth millennium.
func epoch(s string) (time.Time, string) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, ok := natural(whole)
	if !ok || fraction != "" && strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}, FormUnreadable
	}
	if n >= epochFrom*1000 && n < epochTo*1000 {
		return time.UnixMilli(n), FormMilliseconds
	}
	if n < epochFrom || n >= epochTo {
		return time.Time{}, FormUnreadable
	}
	nanos, _ := natural((fraction + "000000000")[:9])
	return time.Unix(n, nanos), FormSeconds
}

func natural(digits string) (n int64, ok bool) {
	if digits == "" || len(digits) > 15 {
		return 0, false
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}
