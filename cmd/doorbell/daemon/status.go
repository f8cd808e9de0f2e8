package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

const heartbeatEvery = time.Minute

// beat publishes the state of each agency on core NATS every minute.
func (a *Daemon) beat(ctx context.Context) error {
	every(ctx, heartbeatEvery, a.beatOnce)
	return nil
}

// beatOnce publishes for each agency the state that the status has.
func (a *Daemon) beatOnce() {
	a.beaten.Renew(time.Now())
	for _, agency := range a.watch().Agencies {
		a.beaten.Renew(time.Now())
		if err := a.publisher.Load().Heartbeat(agency.AgencyID, agency.State); err != nil {
			a.o.Log.Debug("heartbeat", "agency", agency.AgencyID, "err", err)
		}
	}
}

// status is the state of the daemon at this moment.
func (a *Daemon) status() (ops.Status, error) {
	w := a.watch()
	for n := range w.Agencies {
		var err error
		if w.Agencies[n].LastSequence, err = a.store.Last(w.Agencies[n].AgencyID); err != nil {
			return ops.Status{}, err
		}
	}
	publisher := a.publisher.Load()
	r := publisher.Status()
	s := ops.Status{
		Standby: a.standby(), Version: a.o.Version, Instance: a.o.Instance, Started: a.started.UTC(), StoreID: a.store.ID(), DataDir: a.o.DataDir, Page: a.httpURL(), Watch: w,
		Store: ops.NewStoreStatus(a.housekeeping.Space()), DeadLetters: a.deadLetters.Load(),
		Hours: hoursOf(a.follower.Hours(), w.Agencies),
		NATS:  ops.NATSStatus{Embedded: a.server != nil, Connected: publisher.conn.IsConnected(), Stream: a.o.Stream, Problem: r.Problem, URL: a.natsURL()},
	}
	a.forwarderStatus(&s)
	if a.server != nil {
		h := a.server.Status()
		s.NATS.Restarts = h.Restarts
		if h.Problem != "" {
			s.NATS.Problem = fmt.Sprintf("%s, since %s", h.Problem, h.Since.UTC().Format(time.RFC3339))
		}
	}
	s.Events, s.PublishFailures = eventCounts(r.Published), r.Failures
	ready := a.Health().Ready
	s.Ready = &ready
	var err error
	s.Relay, err = a.relayed(w.Agencies, r)
	return s, err
}

// relayed is how far the events of the agencies are published.
func (a *Daemon) relayed(watched []poller.AgencyStatus, r relay.Status) (list []ops.RelayStatus, err error) {
	progress, err := a.store.Progress()
	if err != nil {
		return nil, err
	}
	for _, w := range watched {
		if _, logged := progress[w.AgencyID]; !logged {
			progress[w.AgencyID] = store.Progress{}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(progress)) {
		p := progress[id]
		one := ops.RelayStatus{AgencyID: id, Acknowledged: p.Acknowledged, Pending: uint64(p.Unsent), OldestWaiting: p.Oldest}
		if p.Unsent > 0 {
			one.Problem = r.Problem
		}
		list = append(list, one)
	}
	return list, nil
}

// eventCounts lists the types of which the stream took events, in the order of the contract.
func eventCounts(published map[events.Type]uint64) (list []ops.EventCount) {
	for _, t := range append(slices.Clone(events.Types), "") {
		if n := published[t]; n > 0 {
			list = append(list, ops.EventCount{Type: cmp.Or(string(t), "other"), Published: n})
		}
	}
	return list
}

// hoursOf leaves out agencies that are not watched any more and had no event in the last 24 hours.
func hoursOf(all []ops.AgencyHours, watched []poller.AgencyStatus) []ops.AgencyHours {
	return slices.DeleteFunc(all, func(h ops.AgencyHours) bool {
		return !slices.ContainsFunc(watched, func(w poller.AgencyStatus) bool { return w.AgencyID == h.AgencyID }) &&
			!slices.ContainsFunc(h.Hours, func(one ops.Hour) bool { return one.Events > 0 })
	})
}

func (a *Daemon) natsURL() string {
	if a.server != nil {
		return a.server.ClientURL()
	}
	return natsd.Redact(a.o.NATS.URL)
}

// standby is that this one of several doorbells works; nil where it is alone.
func (a *Daemon) standby() *ops.StandbyStatus {
	if a.o.Turn == nil {
		return nil
	}
	pair, h := a.o.Turn.Holder()
	return &ops.StandbyStatus{Pair: pair, Works: true, Holder: h.Name, Since: h.Since}
}
