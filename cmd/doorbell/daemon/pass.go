package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
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
	connected(ctx, a.dialService, func(ctx context.Context, conn *nats.Conn) error {
		return ops.ServeMember(ctx, ops.MemberOptions{
			Conn: conn, Prefix: a.o.SubjectPrefix, Member: a.store.ID(), Verbs: v, Log: a.o.Log.With("part", "cluster"),
		})
	}, func(err error) { a.o.Log.Warn("other members cannot ask; retrying", "err", err.Error()) })
	return nil
}
