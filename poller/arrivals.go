package poller

import (
	"maps"
	"slices"
	"time"
)

// arrived keeps the creation times, by id, of the contact requests that a catch-up has shown and that were not known before
// it began. What a poll that failed half-way has shown is told to the schedule by the next one.
func (l *look) arrived(since map[string]time.Time) {
	if len(since) == 0 {
		return
	}
	if l.untold == nil {
		l.untold = map[string]time.Time{}
	}
	maps.Copy(l.untold, since)
}

// tellable takes out what arrived, in our clock and oldest first: zero where the time is not known, and never later than
// the answer that showed it.
func (l *look) tellable(skew time.Duration, received time.Time) []time.Time {
	if len(l.untold) == 0 {
		return nil
	}
	created := make([]time.Time, 0, len(l.untold))
	for _, t := range l.untold {
		if !t.IsZero() {
			t = t.Add(-skew)
		}
		if t.After(received) {
			t = received
		}
		created = append(created, t)
	}
	l.untold = nil
	slices.SortFunc(created, time.Time.Compare)
	return created
}
