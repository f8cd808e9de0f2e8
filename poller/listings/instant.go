package listings

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

var creationNames = []string{
	"createdat", "creationdate", "created", "datereceived", "receivedat", "timestamp",
}

// wrapperNames are members that may hold what others have at the top of a record.
var wrapperNames = []string{
	"metadata", "contactrequest", "request", "lead", "inquiry", "enquiry", "node", "attributes", "item",
}

// created is the creation time of a contact request, directly or one level down. unreadable says that there is one, but
// none that can be read.
func (o object) created(zone *time.Location) (at time.Time, unreadable bool) {
	scopes := []object{o}
	for _, name := range wrapperNames {
		scopes = append(scopes, o.object(name))
	}
	for _, scope := range scopes {
		for value := range scope.all(creationNames...) {
			if isEmpty(value) {
				continue
			}
			if at := instant(value, zone); !at.IsZero() {
				return at, false
			}
			unreadable = true
		}
	}
	return time.Time{}, unreadable
}

// instant reads a time; zero if it cannot. RFC 3339, also without the colon in the offset or with a space for the T; no
// offset at all, then in zone; seconds or milliseconds since 1970, as number or text.
func instant(raw jsontext.Value, zone *time.Location) time.Time {
	if digits, ok := number(raw); ok {
		return plausible(epoch(digits))
	}
	s, ok := text(raw)
	if s = strings.TrimSpace(s); !ok || len(s) > 64 {
		return time.Time{}
	}
	if t := epoch(s); !t.IsZero() {
		return plausible(t)
	}
	return plausible(calendar(s, zone))
}

// plausible leaves out the zero times of other systems and years that JSON cannot carry.
func plausible(t time.Time) time.Time {
	t = t.UTC()
	if t.Year() < 1971 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

var zonedLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
}

var zonelessLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04"}

func calendar(s string, zone *time.Location) time.Time {
	if len(s) > 10 && (s[10] == ' ' || s[10] == 't') {
		s = s[:10] + "T" + s[11:]
	}
	s = strings.Replace(strings.Replace(s, " +", "+", 1), " Z", "Z", 1)
	if strings.HasSuffix(s, "z") {
		s = s[:len(s)-1] + "Z"
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	for _, layout := range zonelessLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return latest(t, zone)
		}
	}
	return time.Time{}
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

// epoch reads seconds or milliseconds since 1970, with or without a fraction. Twelve digits and more are milliseconds:
// in seconds they would be in the sixth millennium.
func epoch(s string) time.Time {
	whole, fraction, _ := strings.Cut(s, ".")
	n, ok := natural(whole)
	if !ok || fraction != "" && strings.Trim(fraction, "0123456789") != "" || n > 99_999_999_999_999 {
		return time.Time{}
	}
	if n > 99_999_999_999 {
		return time.UnixMilli(n)
	}
	nanos, _ := natural((fraction + "000000000")[:9])
	return time.Unix(n, nanos)
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
