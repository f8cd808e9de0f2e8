package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/cluster"
	"doorbell/poller"
)

// owner is the member who owns an agency; nil: this one, or nobody of the configuration knows the agency.
func (a *Daemon) owner(id string) (*ops.Client, error) {
	c := a.clusterStatus()
	n := slices.IndexFunc(c.Agencies, func(one ops.ClusterAgency) bool { return one.AgencyID == id })
	owned, _ := a.sharing.has(id)
	switch {
	case n < 0 || owned:
		return nil, nil
	case c.Agencies[n].Owner == "" || c.Agencies[n].Owner == c.Member:
		return nil, fmt.Errorf("%w: %s has none now", ops.ErrElsewhere, id)
	}
	return a.member(c.Agencies[n].Owner), nil
}

func (a *Daemon) others() (list []*ops.Client) {
	for _, m := range a.clusterStatus().Members {
		if m.Name != a.store.ID() {
			list = append(list, a.member(m.Name))
		}
	}
	return list
}

// member is a way to ask another one.
func (a *Daemon) member(name string) *ops.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return ops.NewMemberClient(a.conn, a.o.SubjectPrefix, name)
}

// serveMembers does what other members ask for, beside everything else: nothing of it ends the daemon or holds it up.
func (a *Daemon) serveMembers(ctx context.Context) error {
	v := a.verbs()
	v.Owner = func(id string) (*ops.Client, error) {
		if owned, _ := a.sharing.has(id); !owned {
			return nil, fmt.Errorf("%w: member %s does not own %s", ops.ErrElsewhere, a.store.ID(), id)
		}
		return nil, nil
	}
	connected(ctx, a.dial, func(ctx context.Context, conn *nats.Conn) error {
		return ops.ServeMember(ctx, ops.MemberOptions{
			Conn: conn, Prefix: a.o.SubjectPrefix, Member: a.store.ID(), Verbs: v, Log: a.o.Log.With("part", "cluster"),
		})
	}, func(err error) { a.o.Log.Warn("other members cannot ask; retrying", "err", err.Error()) })
	return nil
}

const (
	// declineFor is how long an agency that was released is left to others.
	declineFor = time.Hour
	// claimedWithin is how long the answer waits for another one to claim it.
	claimedWithin = 4 * time.Second
)

// release lets another member own an agency. What stops, publishes the rest and ends the claim is settle.
func (a *Daemon) release(ctx context.Context, id string) (answer ops.ReleaseAnswer, err error) {
	member := a.sharing.member.Load()
	owned, _ := a.sharing.has(id)
	switch {
	case !a.sharing.on:
		return answer, ops.ErrAlone
	case member == nil || !owned:
		return answer, fmt.Errorf("%w: %s", poller.ErrUnknownAgency, id)
	case !slices.ContainsFunc(member.View().Members, func(m cluster.Member) bool { return m.Name != a.store.ID() && m.Equal && m.Permits > 0 }):
		return answer, ops.ErrNoOther
	}
	member.Decline(id, declineFor)
	ctx, cancel := context.WithTimeout(ctx, claimedWithin)
	defer cancel()
	every(ctx, settleEvery/20, func() {
		for _, one := range a.clusterStatus().Agencies {
			if one.AgencyID == id && one.Owner != a.store.ID() && one.Owner != "" {
				answer.Owner = one.Owner
				cancel()
			}
		}
	})
	owned, _ = a.sharing.has(id)
	answer.Released = !owned
	return answer, nil
}
