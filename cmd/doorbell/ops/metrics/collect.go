package metrics

import (
	"cmp"
	"slices"
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
	out.value(budgetEffective, w.Effective)
	out.value(budgetSpent, float64(w.Requests))
}

// scopes and alarmKinds are told also where they are 0, so that their end is seen.
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
	for _, kind := range alarmKinds {
		out.value(alarms, count(a.Alarms, func(l poller.Alarm) bool { return l.Kind == kind }), id, kind)
	}
	out.truth(changeHeld, a.Held != nil, id)
	out.value(insertions, float64(a.Insertions), id)
	out.moment(lastGood, a.LastGoodAnswer, id)
	out.moment(lastWalk, a.LastCompleteWalk, id)
	out.value(walks, float64(a.Walks.Complete), id, "complete")
	out.value(walks, float64(a.Walks.Partial), id, "partial")
	out.value(walkSeconds, a.LastWalk.Took.Seconds(), id)
	out.value(last, float64(a.LastSequence), id)
	if f := a.Freshness; f != nil {
		for reason, n := range f.Turns {
			out.value(turns, float64(n), id, reason)
		}
		out.value(oldestPoll, f.OldestSeconds, id)
		out.value(pollLimit, f.CapSeconds, id)
		out.value(pastLimit, float64(f.PastCap), id)
		out.value(neverPolled, float64(f.NeverPolled), id)
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
	for _, a := range s.Hours {
		leads := 0
		for _, h := range a.Hours {
			leads += h.Leads
		}
		out.value(leadsLastDay, float64(leads), a.AgencyID)
	}
	for _, e := range s.Events {
		out.value(appended, float64(e.Appended), e.Type)
		out.value(published, float64(e.Published), e.Type)
	}
	for _, r := range s.Relay {
		out.value(acked, float64(r.Acknowledged), r.AgencyID)
		out.value(pending, float64(r.Pending), r.AgencyID)
		out.value(oldest, since(r.OldestWaiting, s.Watch.At), r.AgencyID)
		out.truth(failing, r.Problem != "", r.AgencyID)
		out.truth(rival, r.Rival, r.AgencyID)
	}
	for reason, n := range s.PublishFailures {
		out.value(failures, float64(n), reason)
	}
}

// mostStreams bounds a label.
const mostStreams = 20

func (out sink) nats(n ops.NATSStatus) {
	out.truth(natsConnected, n.Connected)
	out.truth(streamUsable, n.Connected && n.Problem == "")
	out.truth(natsEmbedded, n.Embedded)
	s := n.Server
	if s == nil {
		return
	}
	out.value(serverConnections, float64(s.Connections))
	out.value(serverSubs, float64(s.Subscriptions))
	out.value(serverMessages, float64(s.InMessages), "in")
	out.value(serverMessages, float64(s.OutMessages), "out")
	out.value(serverBytes, float64(s.InBytes), "in")
	out.value(serverBytes, float64(s.OutBytes), "out")
	out.value(serverSlow, float64(s.SlowConsumers))
	out.value(serverRestarts, float64(s.Restarts))
	out.value(streamLimit, float64(n.StreamMax))
	for _, one := range s.Streams[:min(mostStreams, len(s.Streams))] {
		out.value(streamMessages, float64(one.Messages), one.Name)
		out.value(streamBytes, float64(one.Bytes), one.Name)
		out.value(streamConsumers, float64(one.Consumers), one.Name)
	}
}

// lane is what a forwarder does with one kind of events, all destinations together.
type lane struct{ name, kind string }

// forwarders adds up destinations: their addresses are no labels.
func (out sink) forwarders(s ops.Status) {
	ill := map[string]bool{}
	lanes := map[lane]ops.ForwarderStatus{}
	for _, f := range s.Forwarders {
		ill[f.Name] = ill[f.Name] || f.Problem != ""
		if f.Destination == "" {
			continue
		}
		l := lane{f.Name, f.Kind}
		all := lanes[l]
		all.Waiting += f.Waiting
		all.Sent += f.Sent
		all.Events += f.Events
		all.DeadLetters += f.DeadLetters
		all.LastSent = slices.MaxFunc([]time.Time{all.LastSent, f.LastSent}, time.Time.Compare)
		all.WaitingSince = earlier(all.WaitingSince, f.WaitingSince)
		all.FailingSince = earlier(all.FailingSince, f.FailingSince)
		lanes[l] = all
	}
	for name, is := range ill {
		out.truth(forwarderWorking, !is, name)
	}
	for l, all := range lanes {
		out.value(forwarderWaiting, float64(all.Waiting), l.name, l.kind)
		out.value(forwarderMessages, float64(all.Sent), l.name, l.kind)
		out.value(forwarderEvents, float64(all.Events), l.name, l.kind)
		out.value(forwarderDead, float64(all.DeadLetters), l.name, l.kind)
		out.value(forwarderWaits, since(all.WaitingSince, s.Watch.At), l.name, l.kind)
		out.value(forwarderFailing, since(all.FailingSince, s.Watch.At), l.name, l.kind)
		out.moment(forwarderLast, all.LastSent, l.name, l.kind)
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
	out.value(storeFile, float64(s.Store.File))
	out.value(storeCommits, float64(s.Store.Commits))
	out.truth(storeAlarm, s.Store.Alarm)
	out.truth(storeFull, s.Store.Full)
}
