package watch

import (
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

// GapEnds tells that the gap of one insertion has ended.
func GapEnds(agencyID string, t store.Trouble, at time.Time) events.Payload {
	return &events.WatchRecovered{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(listings.OperationContactRequests),
		PropertyReferenceID: t.Name, Ends: Gap, Since: t.Since,
	}
}
