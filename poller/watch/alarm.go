package watch

import (
	"errors"
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Kinds of alarms: what keeps us from seeing. An event raises each; the end of Stale is a
// watch.recovered, and that of another is seen in the status alone.
//
//	Stale       of an operation   it has failed in a row for too long                  until a response is good
//	Drifted     of an operation   a response is not what it should be                  until one is, also of the insertion that showed it
//	Incomplete  of the list       walks come to no end, three times in a row           until a walk is complete
//	Unreadable  of an insertion   its responses fail while others do not               until one is good
//	OnlyNone    of an operation   for an hour there were no contact requests anywhere  until there are
const (
	Stale      = "stale"
	Drifted    = "schema_drifted"
	Incomplete = "walk_incomplete"
	Unreadable = "unreadable"
	OnlyNone   = "only_none"
)

// Raised is what the event that raises a kind of alarm is called, without "watch.". A gap's reason
// is the kind.
func Raised(kind string) string {
	switch kind {
	case Incomplete, Unreadable, OnlyNone:
		return "gap_detected"
	}
	return kind
}

// AlarmOf names the alarm of a kind, of an operation or of one insertion's contact requests.
func AlarmOf(kind string, op listings.Operation, reference string) store.AlarmID {
	return store.AlarmID{Kind: kind, Operation: string(op), Reference: reference}
}

// Alarms are those of an agency that are on. It is a value and never changed.
type Alarms map[store.AlarmID]store.Alarm

// After are the alarms after a decision.
func (on Alarms) After(e Effects) Alarms {
	if len(e.Raised)+len(e.Cleared) == 0 {
		return on
	}
	after := maps.Clone(on)
	if after == nil {
		after = Alarms{}
	}
	for _, a := range e.Raised {
		after[a.AlarmID] = a
	}
	for _, id := range e.Cleared {
		delete(after, id)
	}
	return after
}

// Raise turns an alarm on, with the event that says so, unless it is on.
func (e *Effects) Raise(on Alarms, a store.Alarm, event events.Payload) {
	if _, is := on[a.AlarmID]; !is {
		a.Since = a.Since.UTC()
		e.Raised = append(e.Raised, a)
		e.announce(event)
	}
}

// Clear turns an alarm off if it is on, and announces the end of one that an operation is stale.
func (e *Effects) Clear(on Alarms, id store.AlarmID, agencyID string, at time.Time) {
	a, is := on[id]
	if !is {
		return
	}
	e.Cleared = append(e.Cleared, id)
	if a.Kind == Stale {
		e.announce(&events.WatchRecovered{
			Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: a.Operation,
			Ends: Stale, Since: a.Since,
		})
	}
}

// Liveness is how well an operation of an agency has gone, as far as this process has seen. The
// store remembers Good beyond it.
type Liveness struct {
	Good   time.Time           // last complete walk, or last good response of contact requests
	Since  time.Time           // what has failed since then, it has failed in a row
	Errors []events.StaleError // the last ten of these failures
}

// Succeed notes a success, also of an earlier process.
func (l *Liveness) Succeed(at time.Time) { *l = Liveness{Good: at, Since: at} }

// Excuse lets what has failed so far mean nothing: nothing is asked, or there was a response.
func (l *Liveness) Excuse(at time.Time) { *l = Liveness{Good: l.Good, Since: at} }

// maxErrors is how many errors are kept.
const maxErrors = 10

// Fail notes a failure.
func (l *Liveness) Fail(op listings.Operation, c Class, err error, at time.Time) {
	one := events.StaleError{At: at, Operation: string(op), Class: string(c), Text: err.Error()}
	if status, is := errors.AsType[*listings.StatusError](err); is {
		one.Status = status.Status
	}
	l.Errors = append(slices.Clone(l.Errors[max(0, len(l.Errors)-maxErrors+1):]), one)
}

// failingFor is the minimum time for which failures in a row are an alarm.
const failingFor = 5 * time.Minute

// Failing reports whether an operation that is asked at an interval has failed in a row for too
// long. What is not asked does not fail, and what takes long does not either, up to its timeout.
func (l Liveness) Failing(interval time.Duration, now time.Time) bool {
	return len(l.Errors) > 0 && now.Sub(l.Since) >= max(3*interval, failingFor)
}

// LastGood is the last success as the store remembers it; zero: there was none since the watch
// began.
func (l Liveness) LastGood(watchStart time.Time) time.Time {
	if good := l.Good.UTC().Round(0); good.After(watchStart) {
		return good
	}
	return time.Time{}
}

// unreadableAfter is how many polls of an insertion must fail in a row before it is unreadable.
const unreadableAfter = 3

// CannotRead reports whether an insertion of which polls fail is unreadable.
func (b Backoff) CannotRead(interval time.Duration, now time.Time) bool {
	return b.Failures >= unreadableAfter && now.Sub(b.Since) >= max(3*interval, failingFor)
}
