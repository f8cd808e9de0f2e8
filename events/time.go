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

func formatTime(t time.Time) string { return string(appendTime(nil, t)) }

// appendTime puts the digits in by hand: package time writes its own forms at once, and others piece by piece.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	if t.Nanosecond() == 0 {
		return b
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return normal(t), err == nil && writable(t)
}
