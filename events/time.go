package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

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
	t = t.UTC()
	if t.Nanosecond() == 0 {
		return t.Format(time.RFC3339)
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return normal(t), err == nil && writable(t)
}

// timeMembers are the members of payloads, and of the errors in them, that hold times.
var timeMembers = []string{
	"observedAt", "observedAfter", "createdAt", "lastSeenAt", "disappearedAt", "haltedAt", "startedAt",
	"lastSuccessAt", "at", "since", "from", "to", "until",
}

// padTimes gives times their third digit, which encoding/json drops where it is a zero.
func padTimes(o *object) {
	for i, m := range *o {
		switch {
		case m.name == "errors":
			(*o)[i].value = items(m.value, func(e json.RawMessage) json.RawMessage { return members(e, padTimes) }, maxStaleErrors)
		case slices.Contains(timeMembers, m.name):
			(*o)[i].value = padTime(m.value)
		}
	}
}

func padTime(value json.RawMessage) json.RawMessage {
	_, fraction, ok := bytes.Cut(value, []byte("."))
	if !ok || value[0] != '"' {
		return value
	}
	digits := len(fraction) - len(`Z"`)
	if digits < 1 || digits > 2 {
		return value
	}
	return slices.Concat(value[:len(value)-len(`Z"`)], []byte("00"[:3-digits]), []byte(`Z"`))
}
