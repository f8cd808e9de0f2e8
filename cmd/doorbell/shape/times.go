package shape

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"doorbell/poller/listings"
)

// iso is a time in the order of ISO 8601, and the layouts of its parts.
var iso = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d)?(\.\d{1,9})?( ?)` +
	`(Z|UTC|[+-]\d\d:\d\d|[+-]\d{4}|[+-]\d\d)?$`)

// layoutOf is the layout of package time in which a text is written; empty if none of the usual
// ones.
func layoutOf(text string) string {
	if parts := iso.FindStringSubmatch(text); parts != nil {
		zone := parts[5]
		if zone != "UTC" && zone != "" {
			zone = map[int]string{1: "Z", 3: "-07", 5: "-0700", 6: "-07:00"}[len(zone)]
		}
		seconds := map[bool]string{true: ":05"}[parts[2] != ""]
		return "2006-01-02" + parts[1] + "15:04" + seconds +
			digit.ReplaceAllString(parts[3], "0") + parts[4] + zone
	}
	// as headers have it
	if at, err := time.Parse(time.RFC1123, text); err == nil && at.Format(time.RFC1123) == text {
		return time.RFC1123
	}
	return ""
}

// perSecond are the units of times since 1970.
var perSecond = map[string]int64{
	listings.FormSeconds: 1, listings.FormMilliseconds: 1e3, listings.FormMicroseconds: 1e6,
	listings.FormNanoseconds: 1e9,
}

// moment is the layout or unit in which a text or number is a time, and which time that is. One
// that is written in another language, or in an unusual way, has the layout that the client reads
// in the same way, and no moment.
func moment(text string) (layout string, at time.Time) {
	if len(text) > 60 || !digit.MatchString(text) {
		return "", at
	}
	if layout = layoutOf(text); layout != "" {
		if at, err := time.Parse(layout, text); err == nil {
			return layout, at
		}
	}
	switch form := listings.TimeForm(text); form {
	case listings.FormUnreadable:
		return "", at
	case listings.FormOffset:
		return time.RFC3339, at
	case listings.FormZoneless:
		return "2006-01-02T15:04:05", at
	default:
		n, _ := strconv.ParseFloat(text, 64)
		return form, time.Unix(int64(n)/perSecond[form], 0)
	}
}

// time is the form of a time, with its number among all of the response, the newest first; empty if
// the text is none. A date such as 0001-01-01 is no moment.
func (m *masker) time(text string) string {
	layout, at := moment(text)
	if layout == "" {
		return ""
	}
	year := at.Year()
	if !at.IsZero() && year > 1 && (year < 1990 || year > time.Now().Year()+9) ||
		year == 1 && layoutOf(text) != "" {
		return "{0 time " + layout + "}"
	}
	if at.IsZero() {
		return m.numbered("time "+layout, text)
	}
	n, _ := slices.BinarySearchFunc(m.moments, at, func(a, b time.Time) int { return b.Compare(a) })
	return fmt.Sprintf("{%d time %s}", n+1, layout)
}

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
