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
		Version: a.o.Version, Instance: a.o.Instance, Started: a.started.UTC(),
		StoreID: a.store.ID(), DataDir: a.o.DataDir, Page: a.httpURL(), Ready: &ready,
		Watch: a.watch(), Store: a.housekeeping.Space(),
		DeadLetters: a.deadLetters.Load(),
		NATS: ops.NATSStatus{
			Embedded: a.server != nil, Connected: a.conn.IsConnected(), Stream: a.o.Stream(),
			URL: a.natsURL(), Problem: r.Problem, Restarts: a.serverStatus().Restarts,
		},
		PublishFailures: r.Failures,
	}
	for _, id := range slices.Sorted(maps.Keys(r.Rivals)) {
		if time.Since(r.Rivals[id]) < time.Hour {
			s.NATS.Rivals = append(s.NATS.Rivals, id)
		}
	}
	for n := range s.Watch.Agencies {
		w := &s.Watch.Agencies[n]
		p := progress[w.AgencyID]
		w.LastSequence, progress[w.AgencyID] = p.Acknowledged, p
	}
	for _, id := range slices.Sorted(maps.Keys(progress)) {
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: id, Progress: progress[id]})
	}
	for _, t := range slices.Sorted(maps.Keys(r.Published)) {
		s.Events = append(s.Events,
			ops.EventCount{Type: cmp.Or(string(t), "other"), Published: r.Published[t]})
	}
	a.forwarderStatus(&s)
	if h := a.serverStatus(); h.Problem != "" {
		s.NATS.Problem = fmt.Sprintf("%s, since %s", h.Problem, h.Since.UTC().Format(time.RFC3339))
	}
	if a.o.Turn != nil {
		pair, h := a.o.Turn.Holder()
		s.Standby = &ops.StandbyStatus{Pair: pair, Works: true, Holder: h.Name, Since: h.Since}
	}
	return s, nil
}

// serverStatus is how the embedded server is.
func (a *Daemon) serverStatus() (s natsd.Status) {
	if a.server != nil {
		s = a.server.Status()
	}
	return s
}

func (a *Daemon) natsURL() string {
	if a.server != nil {
		return a.server.ClientURL()
	}
	return natsd.Redact(a.o.NATS.URL)
}
