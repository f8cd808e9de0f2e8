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

// creations yields what may be the creation time, surest first, of the record and then of what it is
// wrapped in.
func (o object) creations() iter.Seq[value] {
	return func(yield func(value) bool) {
		for v := range o.all(creationNames...) {
			if !v.isEmpty() && !yield(v) {
				return
			}
		}
		for inner := range o.all(wrapperNames...) {
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
	if v.isArray() {
		s = arrayText(v)
	}
	if s = strings.TrimSpace(s); len(s) > 64 {
		return time.Time{}, FormUnreadable
	}
	if at, form = epoch(s); form == FormUnreadable {
		at, form = calendar(s, zone)
	}
	if !isPlausible(at.Unix()) {
		return time.Time{}, FormUnreadable
	}
	return at.UTC(), form
}

// isPlausible bounds times: not of the twentieth century, but for its last month, and no more than ten
// years from now. So the zero times of most systems are none, and seconds since 2001 (until 2030) and
// ticks since the year 1 are not taken for moments of the nineties, which would make every contact
// request old. A clock that was never set, and begins in 1970, does not count.
func isPlausible(second int64) bool {
	const earliest, written = 944_006_400, 1_767_225_600 // December 1999 and 2026
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
		if second := n / unit.perSecond; isPlausible(second) {
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
	parts := make([]any, 0, 7)
	for _, e := range v.array() {
		digits, _ := e.number()
		n, err := strconv.ParseUint(digits, 10, 30)
		if err != nil || n > 999_999_999 || len(parts) == cap(parts) {
			return ""
		}
		parts = append(parts, n)
	}
	if len(parts) < 5 {
		return ""
	}
	parts = append(parts, 0, 0)[:7]
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%09d", parts...)
}

// calendarText is a date and a time of day: hours and minutes, seconds with any fraction, and a
// zone. Of zones by letters only UTC is the same everywhere. What RFC 2822 and Java add to an
// offset (a comment, a place) says nothing more.
var calendarText = regexp.MustCompile(`(?i)^(?:[a-z]{3}, *)?([^:]*[0-9])(?:T|,? +)` +
	`([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:[.,][0-9]+)?)?` +
	`(?: *(Z|UTC?|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)(?: *\([^()]*\)|\[[^]]*\])?)?$`)

// dateLayouts have the day first where there are dots or dashes. With slashes it may be the month:
// such a date is not read.
var dateLayouts = []string{"2006-01-02", "02.01.2006", "02-01-2006", "2 Jan 2006"}

func calendar(s string, zone *time.Location) (time.Time, string) {
	if at, err := time.Parse(time.RFC3339, s); err == nil { // most are
		return at, FormOffset
	}
	parts := calendarText.FindStringSubmatch(s)
	if parts == nil {
		return time.Time{}, FormUnreadable
	}
	clock, offset := parts[2]+cmp.Or(parts[3], ":00"), "+0000"
	if strings.ContainsAny(parts[4], "+-") {
		offset = (strings.ReplaceAll(parts[4], ":", "") + "00")[:5]
	}
	for _, layout := range dateLayouts {
		at, err := time.Parse(layout+"T15:04:05-0700", parts[1]+"T"+clock+offset)
		switch {
		case err != nil:
		case parts[4] == "":
			return latest(at, zone), FormZoneless
		default:
			return at, FormOffset
		}
	}
	return time.Time{}, FormUnreadable
}

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
