package watch

import (
	"errors"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Kinds of alarms of a whole operation, as watch.recovered names what it ends.
const (
	Stale   = "stale"          // nothing good for too long, or too much of it too late
	Drifted = "schema_drifted" // an answer that is not what it should be
	Gap     = "gap_detected"   // walks that are not complete
)

// Alarms are all kinds.
var Alarms = []string{Stale, Drifted, Gap}

// since is where an operation remembers since when an alarm is on; zero: it is not.
func since(o *store.Operation, kind string) *time.Time {
	switch kind {
	case Stale:
		return &o.StaleSince
	case Drifted:
		return &o.DriftSince
	}
	return &o.GapSince
}

// Since is when an alarm of an operation was raised that has not ended; zero: there is none.
func Since(o store.Operation, kind string) time.Time { return *since(&o, kind) }

// Raise turns an alarm of an operation on and tells it, unless it is on.
func Raise(o *store.Operation, kind string, at time.Time, event events.Payload) []events.Payload {
	if s := since(o, kind); s.IsZero() {
		*s = at.UTC()
		return []events.Payload{event}
	}
	return nil
}

// Clear turns an alarm of an operation off and tells it, if it is on.
func Clear(o *store.Operation, kind, agencyID, op string, at time.Time) []events.Payload {
	s := since(o, kind)
	if s.IsZero() {
		return nil
	}
	event := &events.WatchRecovered{Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: op, Ends: kind, Since: *s}
	if *s = (time.Time{}); kind == Drifted {
		event.PropertyReferenceID, o.DriftFound, o.DriftReference = o.DriftReference, "", ""
	}
	return []events.Payload{event}
}

// Liveness is how well an operation of an agency has gone, as far as this process has seen. What is remembered beyond it is that the
// last success was at Good.
type Liveness struct {
	Good   time.Time           // last complete walk, or last good answer of contact requests
	Failed time.Time           // last failure of this process
	Calm   time.Time           // last moment at which silence meant nothing
	Timely time.Time           // last check that found less than a tenth of the insertions late; zero: there was none
	Behind bool                // the last check found more, and the alarm may not end
	Errors []events.StaleError // the last ten, since Good
}

// maxErrors is how many errors an alarm names.
const maxErrors = 10

// LastErrors is a copy of the last of some errors.
func LastErrors(list ...events.StaleError) []events.StaleError {
	return slices.Clone(list[max(0, len(list)-maxErrors):])
}

// Fail notes a failure.
func (l *Liveness) Fail(op listings.Operation, c Class, err error, at time.Time) {
	one := events.StaleError{At: at, Operation: string(op), Class: string(c), Text: err.Error()}
	var status *listings.StatusError
	if errors.As(err, &status) {
		one.Status = status.Status
	}
	l.Failed, l.Errors = at, LastErrors(append(l.Errors, one)...)
}

// staleAfter is the least time without a successful response that is an alarm.
const staleAfter = 5 * time.Minute

// StaleAfter is the time without a successful response that is an alarm, by how often one is expected.
func StaleAfter(interval time.Duration) time.Duration { return max(3*interval, staleAfter) }

// Silent says whether there was no successful response for too long. Where nothing has failed since the watch began, a last success that
// is old only tells how long we were away.
func (l Liveness) Silent(began time.Time, after time.Duration, now time.Time) bool {
	since := min(now.Sub(l.Good), now.Sub(l.Calm))
	if l.Failed.IsZero() {
		since = min(since, now.Sub(began))
	}
	return since >= after
}

// Late takes a check of how many insertions are late, and says whether too many of them have been at every check for too long. Time
// away is: in the first cap after a start, or after a halt, everything may be late because nobody asked.
func (l *Liveness) Late(behind bool, began time.Time, limit, after time.Duration, now time.Time) bool {
	l.Behind = behind
	if away := now.Sub(began) < limit || now.Sub(l.Calm) < limit; !behind || away || l.Timely.IsZero() {
		l.Timely = now
	}
	return now.Sub(l.Timely) >= after
}

// GapEnds tells that the gap of one insertion has ended.
func GapEnds(agencyID string, t store.Failure, at time.Time) events.Payload {
	return &events.WatchRecovered{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(listings.OperationContactRequests),
		PropertyReferenceID: t.Name, Ends: Gap, Since: t.Since,
	}
}
