package events

import "time"

// Times are written as RFC 3339 in UTC: whole seconds plainly, all others with three digits, so that a column of them
// lines up.

// normal is the precision of every time that we write, without its monotonic part. A year that RFC 3339 cannot write is
// no time.
func normal(t time.Time) time.Time {
	if !writable(t) {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func writable(t time.Time) bool {
	year := t.UTC().Year()
	return 1 <= year && year <= 9999
}

func formatTime(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.UTC().Format(time.RFC3339)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return normal(t), err == nil && writable(t)
}
