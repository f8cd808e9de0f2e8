package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/poller"
)

// heartbeatEvery is how often each agency says on core NATS that it is watched.
const heartbeatEvery = time.Minute

// beat says every minute on core NATS that each agency is watched, and how it stands.
func (a *app) beat(ctx context.Context) error {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		s, err := a.poller.Status()
		if err != nil {
			return err
		}
		for _, agency := range s.Agencies {
			if err := a.currentRelay().Heartbeat(agency.AgencyID, agency.State); err != nil {
				a.o.Log.Debug("heartbeat", "agency", agency.AgencyID, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// status is what the socket tells of the daemon.
func (a *app) status() (ops.Status, error) {
	w, err := a.poller.Status()
	if err != nil {
		return ops.Status{}, err
	}
	a.mu.Lock()
	publisher, conn := a.relay, a.conn
	a.mu.Unlock()
	r := publisher.Status()
	s := ops.Status{
		Version: version(), Running: true, Started: a.started.UTC(), StoreID: a.store.ID(), DataDir: a.o.Base.DataDir, Watch: w,
		Store:      ops.NewStoreStatus(a.housekeeping.Space()),
		Forwarders: a.forwarderStatus(),
		Hours:      hoursOf(a.follower.Hours(), w.Agencies),
		NATS:       ops.NATSStatus{Embedded: a.server != nil, Connected: conn.IsConnected(), Stream: a.o.Base.Stream, Problem: r.Problem, URL: a.natsURL()},
	}
	if a.server != nil {
		if h := a.server.Status(); h.Problem != "" {
			s.NATS.Problem = fmt.Sprintf("%s, since %s", h.Problem, h.Since.UTC().Format(time.RFC3339))
		}
	}
	for _, l := range r.Agencies {
		last, err := a.store.Last(l.AgencyID)
		if err != nil {
			return ops.Status{}, err
		}
		cursor, err := a.store.Cursor(l.AgencyID) // the relay has not read it yet if NATS is away since the start
		if err != nil {
			return ops.Status{}, err
		}
		s.Relay = append(s.Relay, ops.RelayStatus{
			AgencyID: l.AgencyID, Acknowledged: cursor.Sequence, Pending: last - min(last, cursor.Sequence), Foreign: l.Foreign, Problem: l.Problem,
		})
	}
	return s, nil
}

// hoursOf leaves those out who are not watched any more and have said nothing since yesterday.
func hoursOf(all []ops.AgencyHours, watched []poller.AgencyStatus) []ops.AgencyHours {
	return slices.DeleteFunc(all, func(h ops.AgencyHours) bool {
		return !slices.ContainsFunc(watched, func(w poller.AgencyStatus) bool { return w.AgencyID == h.AgencyID }) &&
			!slices.ContainsFunc(h.Hours, func(one ops.Hour) bool { return one.Events > 0 })
	})
}

func (a *app) natsURL() string {
	if a.server != nil {
		return a.server.ClientURL()
	}
	return natsd.Redact(string(a.o.NATS.URL))
}
