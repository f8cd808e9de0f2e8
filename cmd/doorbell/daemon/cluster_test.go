package daemon

import (
	"fmt"
	"slices"
	"testing"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/relay"
	"doorbell/poller"
)

// seen is the status of a daemon.
func seen(t *testing.T, d *Daemon) ops.Status {
	t.Helper()
	s, err := d.status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// half says whether there are two members who share evenly.
func half(members []ops.ClusterMember) bool {
	return len(members) == 2 && members[0].Permits == 6 && members[1].Permits == 6
}

// settled waits until two members agree who owns what, which is as it stays, and returns the owner of an agency, and the other one.
func settled(t *testing.T, id string, one, two *Daemon) (owner, other *Daemon) {
	t.Helper()
	eventually(t, "both agree who owns what", func() bool {
		x, y := seen(t, one), seen(t, two)
		member := one.sharing.member.Load()
		for n, a := range x.Cluster.Agencies {
			b := y.Cluster.Agencies[n]
			if a.Owner == "" || member == nil || member.Wanted(a.AgencyID) != a.Owner || a.Owner != b.Owner || a.Epoch != b.Epoch || slices.Contains(owned(one), a.AgencyID) != (a.Owner == x.Cluster.Member) ||
				slices.Contains(owned(two), a.AgencyID) != (a.Owner == y.Cluster.Member) {
				return false
			}
			if a.AgencyID == id && a.Owner == x.Cluster.Member {
				owner, other = one, two
			} else if a.AgencyID == id {
				owner, other = two, one
			}
		}
		return half(x.Cluster.Members) && half(y.Cluster.Members)
	})
	return owner, other
}

func TestEachMemberSaysWhoOwnsWhatAndIsReadyWhateverItOwns(t *testing.T) {
	s := newShared(t)
	one, stop := s.join(s.dir())
	eventually(t, "one watches all", func() bool { return len(owned(one)) == len(sharedAgencies) })
	s.write()
	s.told()
	two, _ := s.join(s.dir())
	settled(t, "A100", one, two)
	for _, d := range []*Daemon{one, two} {
		c := seen(t, d).Cluster
		agencies := 0
		for _, m := range c.Members {
			agencies += m.Agencies
			if !m.InForce || m.OtherList || m.Permits != 6 || m.Since.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if c.Name != "three" || c.Problem != "" || len(c.Agencies) != 3 || agencies != 3 || len(c.Others()) != 3-len(owned(d)) {
			t.Errorf("%+v", c)
		}
		eventually(t, "it is ready", func() bool { return d.Health().Ready })
		if list := slices.DeleteFunc(seen(t, d).Problems(), func(p ops.Problem) bool { return p.Passing }); len(list) > 0 {
			t.Errorf("%+v", list)
		}
	}
	id := two.store.ID()
	stop()
	eventually(t, "the one who stays owns all", func() bool {
		c := seen(t, two).Cluster
		unknown := func(a poller.AgencyStatus) bool { return a.LastSequence == 0 } // though what is loaded leaves the log empty
		return len(c.Members) == 1 && !slices.ContainsFunc(seen(t, two).Watch.Agencies, unknown) && !slices.ContainsFunc(c.Agencies, func(a ops.ClusterAgency) bool { return a.Owner != id || !a.FreeSince.IsZero() })
	})
}

// TestAnAgencyThatOnlyAMemberWatchesThatIsNotWantedHasNoOwner lets one member watch an agency that should be the other's, who does not.
func TestAnAgencyThatOnlyAMemberWatchesThatIsNotWantedHasNoOwner(t *testing.T) {
	s := newShared(t)
	one, _ := s.join(s.dir())
	two, _ := s.join(s.dir())
	settled(t, "A100", one, two)
	id := ""
	for n := 0; id == ""; n++ {
		if name := fmt.Sprint("Z", n); one.sharing.member.Load().Wanted(name) == two.store.ID() {
			id = name
		}
	}
	s.model.AddKey(testKey, append(slices.Clone(sharedAgencies), id)...)
	set := func(d *Daemon) {
		t.Helper()
		if err := d.setAgencies(listed(append(slices.Clone(sharedAgencies), id)...)); err != nil {
			t.Fatal(err)
		}
	}
	set(one)
	last := func() ops.ClusterAgency {
		c := seen(t, one).Cluster
		return c.Agencies[len(c.Agencies)-1]
	}
	first := last()
	if first.AgencyID != id || first.FreeSince.IsZero() || first.Owner != "" {
		t.Fatalf("%+v", first)
	}
	eventually(t, "both lists are seen to differ", func() bool {
		return !seen(t, one).Cluster.DifferSince.IsZero() && !seen(t, two).Cluster.DifferSince.IsZero()
	})
	if again := last(); !again.FreeSince.Equal(first.FreeSince) {
		t.Errorf("without an owner since %s, then since %s", first.FreeSince, again.FreeSince)
	}
	set(two)
	eventually(t, "it has an owner", func() bool { return last().FreeSince.IsZero() && last().Owner == two.store.ID() && last().Epoch == 1 })
	eventually(t, "the lists are alike", func() bool {
		return seen(t, one).Cluster.DifferSince.IsZero() && seen(t, two).Cluster.DifferSince.IsZero()
	})
}

func TestAMemberThatHasNotJoinedSaysSoAndIsNotReady(t *testing.T) {
	a, _ := open(t, "B200")
	a.sharing.on = true
	first := a.clusterStatus()
	if first.Problem == "" || first.ProblemSince.IsZero() || len(first.Agencies) != 1 || !first.Agencies[0].FreeSince.IsZero() {
		t.Errorf("%+v", first)
	}
	if again := a.clusterStatus(); !again.ProblemSince.Equal(first.ProblemSince) {
		t.Errorf("since %s, then since %s", first.ProblemSince, again.ProblemSince)
	}
	if c := a.acting(); c.OK || c.Text != first.Problem {
		t.Errorf("%+v", c)
	}
}

func TestNewEpochsAreCountedFromTheSecondHeadOn(t *testing.T) {
	s := &sharing{heads: map[string]relay.Head{}}
	for _, epoch := range []uint64{4, 4, 5, 5, 7} {
		s.see("A100", relay.Head{Epoch: epoch})
	}
	s.see("B200", relay.Head{Epoch: 9})
	if s.newEpochs != 2 {
		t.Errorf("%d", s.newEpochs)
	}
}

// TestADoorbellThatKnowsNoClusterOnItsSubjectsLosesAndDoublesNothing lets a doorbell with a store of its own watch the agencies of a
// cluster. One of the two stops publishing an agency, whichever the fence has refused more often, and says so.
func TestADoorbellThatKnowsNoClusterOnItsSubjectsLosesAndDoublesNothing(t *testing.T) {
	s := newShared(t)
	said := map[*Daemon]*logged{}
	start := func(cluster string) (d *Daemon, stop func()) {
		own := &logged{}
		s.log = own
		d, stop = s.start(s.dir(), cluster)
		said[d] = own
		return d, stop
	}
	one, _ := start("three")
	two, _ := start("three")
	settled(t, "A100", one, two)
	s.write()
	s.told()
	plain, stop := start("")
	left := func(id string) (by []*Daemon) { // those that have stopped publishing it
		for d := range said {
			if slices.ContainsFunc(seen(t, d).Relay, func(a ops.RelayStatus) bool { return a.AgencyID == id && a.Contested }) {
				by = append(by, d)
			}
		}
		return by
	}
	eventually(t, "it watches all as well", func() bool { return len(owned(plain)) == len(sharedAgencies) && plain.Health().Ready })
	undecided := func(id string) bool { return len(left(id)) == 0 }
	for n := 0; slices.ContainsFunc(sharedAgencies, undecided); n++ {
		if n == 60 {
			t.Fatal("nobody stops publishing")
		}
		s.write()
		s.told()
	}
	for _, id := range sharedAgencies {
		by := left(id)
		if len(by) != 1 {
			t.Fatalf("%d have stopped publishing %s", len(by), id)
		}
		if by[0].Health().Ready {
			t.Errorf("it is ready though it does not publish %s", id)
		}
		if words := `"another doorbell publishes this agency: nothing more is published here" part=relay agency=` + id; !said[by[0]].holds(words) {
			t.Errorf("it does not say: %s", words)
		}
	}
	ids := []string{one.store.ID(), two.store.ID()}
	for _, a := range seen(t, one).Cluster.Agencies {
		if !slices.Contains(ids, a.Owner) {
			t.Errorf("%s has claimed %s", a.Owner, a.AgencyID)
		}
	}
	stop()
	for _, id := range sharedAgencies {
		one.currentRelay().TakeOver(id)
		two.currentRelay().TakeOver(id)
	}
	s.write()
	s.told()
	settled(t, "A100", one, two)
}
