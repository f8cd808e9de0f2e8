package daemon

import (
	"context"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/cluster"
	"doorbell/events/relay"
)

// watchHeads keeps what the stream says of who owns which agency, for those who ask: nothing waits for NATS to answer.
func (a *Daemon) watchHeads(ctx context.Context) error {
	every(ctx, settleEvery, func() {
		err := a.currentRelay().Heads(ctx, a.sharing.see)
		if ctx.Err() == nil {
			a.o.Log.Debug("reading who owns agencies; retrying", "err", err.Error())
		}
	})
	return nil
}

// see notes the head of an agency.
func (s *sharing) see(token string, h relay.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.heads[token]; known && h.Epoch > before.Epoch {
		s.newEpochs++
	}
	s.heads[token] = h
}

// watchCluster looks at the cluster all the time, so that it is known since when something needs attention.
func (a *Daemon) watchCluster(ctx context.Context) error {
	every(ctx, settleEvery, func() { a.clusterStatus() })
	return nil
}

// problem says why this member does not act; empty: it does.
func (s *sharing) problem() string {
	switch m := s.member.Load(); {
	case m == nil:
		return "it is no member yet; the log says why"
	case m.View().Problem != "":
		return m.View().Problem
	case !m.Alive():
		return "NATS does not confirm its membership"
	}
	return ""
}

// clusterStatus is the cluster as this member sees it; nil where the agencies are shared with nobody.
func (a *Daemon) clusterStatus() *ops.ClusterStatus {
	s := &a.sharing
	if !s.on {
		return nil
	}
	a.admission.mu.Lock()
	wanted := slices.Clone(a.admission.wanted)
	a.admission.mu.Unlock()
	c := &ops.ClusterStatus{
		Name: a.o.Cluster.Name, Member: a.store.ID(), Problem: s.problem(), Permits: cluster.Permits, Members: []ops.ClusterMember{}, Agencies: []ops.ClusterAgency{},
	}
	member, view, own := s.member.Load(), new(cluster.View), watches(wanted)
	if member != nil {
		view, c.Rate = member.View(), member.Rate()
	}
	differ := false
	for _, m := range view.Members {
		c.Held += m.Permits
		c.Members = append(c.Members, ops.ClusterMember{
			Name: m.Name, Host: m.Host, Since: m.Since.UTC(), Permits: m.Permits, Generation: m.Generation, Digest: m.Digest, InForce: m.Equal,
			OtherList: m.Watches != "" && m.Watches != own,
		})
		differ = differ || !m.Equal || c.Members[len(c.Members)-1].OtherList
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.since, time.Now().UTC()
	s.since = map[string]time.Time{}
	since := func(what string, is bool) (at time.Time) {
		if !is {
			return at
		}
		if at = before[what]; at.IsZero() {
			at = now
		}
		s.since[what] = at
		return at
	}
	c.NewEpochs = s.newEpochs
	c.ProblemSince, c.DifferSince, c.FreeSince = since("problem", c.Problem != ""), since("differ", differ), since("permits", member != nil && c.Held < c.Permits)
	for _, k := range wanted {
		h := s.heads[events.Token(k.ID)]
		n := slices.IndexFunc(c.Members, func(m ops.ClusterMember) bool { return m.Name == h.Owner })
		if n < 0 {
			h.Owner = ""
		} else {
			c.Members[n].Agencies++
		}
		c.Agencies = append(c.Agencies, ops.ClusterAgency{
			AgencyID: k.ID, Owner: h.Owner, Epoch: h.Epoch, Since: h.Since, FreeSince: since("agency "+k.ID, member != nil && h.Owner == ""),
		})
	}
	return c
}
