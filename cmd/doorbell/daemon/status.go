package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
)

const heartbeatEvery = time.Minute

// beat publishes the state of each agency on core NATS every minute.
func (a *Daemon) beat(ctx context.Context) error {
	every(ctx, heartbeatEvery, a.beatOnce)
	return nil
}

// beatOnce publishes for each agency the state that the status has.
func (a *Daemon) beatOnce() {
	for _, agency := range a.watch().Agencies {
		if err := a.relay.Heartbeat(agency.AgencyID, agency.State); err != nil {
			a.o.Log.Debug("heartbeat", "agency", agency.AgencyID, "err", err)
		}
	}
}

// status is the state of the daemon at this moment.
func (a *Daemon) status() (ops.Status, error) {
	progress, err := a.store.Progress()
	if err != nil {
		return ops.Status{}, err
	}
	ready, r := a.Health().Ready, a.relay.Status()
	s := ops.Status{
		Version: a.o.Version, Instance: a.o.Instance, Started: a.started.UTC(), StoreID: a.store.ID(), DataDir: a.o.DataDir, Page: a.httpURL(),
		Watch: a.watch(), Store: ops.StoreStatus(a.housekeeping.Space()), DeadLetters: a.deadLetters.Load(),
		NATS:            ops.NATSStatus{Embedded: a.server != nil, Connected: a.conn.IsConnected(), Stream: a.o.Stream, Problem: r.Problem, URL: a.natsURL()},
		PublishFailures: r.Failures, Ready: &ready,
	}
	for n := range s.Watch.Agencies {
		w := &s.Watch.Agencies[n]
		p := progress[w.AgencyID]
		w.LastSequence, progress[w.AgencyID] = p.Acknowledged, p
	}
	for _, id := range slices.Sorted(maps.Keys(progress)) {
		p := progress[id]
		s.Relay = append(s.Relay, ops.RelayStatus{
			AgencyID: id, Acknowledged: p.Acknowledged, Pending: uint64(p.Unsent), OldestWaiting: p.Oldest,
		})
	}
	for _, t := range slices.Sorted(maps.Keys(r.Published)) {
		s.Events = append(s.Events, ops.EventCount{Type: cmp.Or(string(t), "other"), Published: r.Published[t]})
	}
	a.forwarderStatus(&s)
	if a.server != nil {
		h := a.server.Status()
		s.NATS.Restarts = h.Restarts
		if h.Problem != "" {
			s.NATS.Problem = fmt.Sprintf("%s, since %s", h.Problem, h.Since.UTC().Format(time.RFC3339))
		}
	}
	if a.o.Turn != nil {
		pair, h := a.o.Turn.Holder()
		s.Standby = &ops.StandbyStatus{Pair: pair, Works: true, Holder: h.Name, Since: h.Since}
	}
	return s, nil
}

func (a *Daemon) natsURL() string {
	if a.server != nil {
		return a.server.ClientURL()
	}
	return natsd.Redact(a.o.NATS.URL)
}
