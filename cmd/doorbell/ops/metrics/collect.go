package metrics

import (
	"cmp"
	"maps"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// moment leaves out what has not happened yet.
func (out sink) moment(f *family, at time.Time, labels ...string) {
	if !at.IsZero() {
		out.value(f, float64(at.UnixMilli())/1000, labels...)
	}
}

// since is how long ago something was; 0 where it was not.
func since(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

func (out sink) api(s ops.Status) {
	w := s.Watch
	out.truth(apiUp, w.Down == "")
	out.value(budgetLimit, w.RequestsPerSecond)
	out.value(budgetSpent, float64(w.Requests))
}

// scopes and alarmKinds are sent also where they are 0, so that their end is seen.
var (
	scopes     = []string{"agency", "contact_requests", "insertion"}
	alarmKinds = []string{"stale", "schema_drifted", "gap_detected"}
)

func (out sink) agency(a poller.AgencyStatus, now time.Time) {
	id := a.AgencyID
	out.value(agencyState, 1, id, a.State)
	for _, scope := range scopes {
		out.value(halts, count(a.Halts, func(h poller.HaltStatus) bool { return string(h.Scope) == scope }), id, scope)
	}
	out.value(alarms, count([]bool{a.Held != nil}, func(held bool) bool { return held }), id, "change_held")
	for _, kind := range alarmKinds {
		out.value(alarms, count(a.Alarms, func(l poller.Alarm) bool { return l.Kind == kind }), id, kind)
	}
	out.value(insertions, float64(a.Insertions), id)
	out.moment(lastWalk, a.LastCompleteWalk, id)
	if f := a.Freshness; f != nil {
		out.value(oldestPoll, f.OldestSeconds, id)
	}
}

func count[T any](list []T, fits func(T) bool) (n float64) {
	for _, one := range list {
		if fits(one) {
			n++
		}
	}
	return n
}

func (out sink) log(s ops.Status) {
	for _, e := range s.Events {
		out.value(published, float64(e.Published), e.Type)
	}
	for _, r := range s.Relay {
		out.value(pending, float64(r.Pending), r.AgencyID)
		out.value(oldest, since(r.OldestWaiting, s.Watch.At), r.AgencyID)
	}
	for reason, n := range s.PublishFailures {
		out.value(failures, float64(n), reason)
	}
}

func (out sink) nats(n ops.NATSStatus) { out.truth(streamUsable, n.Connected && n.Problem == "") }

// lane is what a forwarder does with one kind of events, all destinations together.
type lane struct{ name, kind string }

// forwarders adds up destinations: their addresses are no labels.
func (out sink) forwarders(s ops.Status) {
	lanes := map[lane]ops.ForwarderStatus{}
	for _, f := range s.Forwarders {
		if f.Destination == "" {
			continue
		}
		l := lane{f.Name, f.Kind}
		all := lanes[l]
		all.Waiting += f.Waiting
		all.Events += f.Events
		all.DeadLetters += f.DeadLetters
		all.WaitingSince = earlier(all.WaitingSince, f.WaitingSince)
		failed := maps.Clone(all.Failed)
		if failed == nil {
			failed = map[string]uint64{}
		}
		for reason, n := range f.Failed {
			failed[reason] += n
		}
		all.Failed = failed
		lanes[l] = all
	}
	for l, all := range lanes {
		out.value(forwarderWaiting, float64(all.Waiting), l.name, l.kind)
		out.value(forwarderEvents, float64(all.Events), l.name, l.kind)
		out.value(forwarderDead, float64(all.DeadLetters), l.name, l.kind)
		out.value(forwarderWaits, since(all.WaitingSince, s.Watch.At), l.name, l.kind)
		for reason, n := range all.Failed {
			out.value(forwarderFailed, float64(n), l.name, l.kind, reason)
		}
	}
}

// earlier is the earlier of two moments of which either may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return cmp.Or(a, b)
	}
	if b.Before(a) {
		return b
	}
	return a
}

func (out sink) store(s ops.Status) {
	out.value(storeUsed, float64(s.Store.InUse))
	if s.Store.Max > 0 {
		out.value(storeLimit, float64(s.Store.Max))
	}
}
