package ops

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"doorbell/poller"
)

// member is one of three that polls one of three agencies.
func member() Status {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	return Status{
		Version: "1", Running: true, Started: now.Add(-time.Hour), StoreID: "one", NATS: NATSStatus{Connected: true, Stream: "LISTINGS"},
		Watch: poller.Status{At: now, Agencies: []poller.AgencyStatus{{AgencyID: "A100", State: "watching", Insertions: 4, LastGoodAnswer: now}}},
		Cluster: &ClusterStatus{
			Name: "east", Member: "one", Permits: 12, Held: 12,
			Members: []ClusterMember{
				{Name: "one", Host: "h1", Since: now.Add(-time.Hour), Permits: 6, Agencies: 1, Generation: 2, Digest: "d2", InForce: true},
				{Name: "two", Host: "h2", Since: now.Add(-time.Minute), Permits: 6, Agencies: 2, Generation: 2, Digest: "d2", InForce: true},
			},
			Agencies: []ClusterAgency{
				{AgencyID: "A100", Owner: "one", Epoch: 3, Since: now.Add(-time.Hour)},
				{AgencyID: "B200", Owner: "two", Epoch: 1, Since: now.Add(-time.Minute)},
				{AgencyID: "C300", Owner: "two", Epoch: 7, Since: now.Add(-time.Minute)},
			},
		},
	}
}

func TestAnAgencyOfAnotherMemberIsShownWithItsOwnerAndIsNoProblem(t *testing.T) {
	s := member()
	if list := s.Problems(); len(list) > 0 {
		t.Errorf("problems: %+v", list)
	}
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"Cluster east: 2 members, 12 of 12 permits held; this member, one, polls 1 of 3 agencies", "\nB200    polled by two on h2", "\nC300    polled by two on h2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAMemberThatOwnsNothingBecauseOthersDoIsWell(t *testing.T) {
	s := member()
	s.Watch.Agencies, s.Cluster.Agencies = nil, s.Cluster.Agencies[1:]
	if h := NewHeadline(s); h.Text != "All is well" || h.Busy || h.Sub != "Other members of the cluster poll 2 agencies." {
		t.Errorf("%+v", h)
	}
	if err := Well(Health{}, s, time.Minute); err != nil {
		t.Error(err)
	}
	s.Cluster = nil
	if err := Well(Health{}, s, time.Minute); err == nil {
		t.Error("alone, it is well without an agency")
	}
}

func TestWhatNeedsAttentionOfAClusterIsAProblemWhenItLasts(t *testing.T) {
	at := member().Watch.At
	short, long := at.Add(-30*time.Second), at.Add(-2*time.Minute)
	for name, c := range map[string]struct {
		change func(*ClusterStatus)
		want   string // of the summary; empty: nothing to mind
		listed string // a title; empty: nothing is shown
	}{
		"an agency that has just lost its owner":    {func(c *ClusterStatus) { c.Agencies[1].Owner, c.Agencies[1].FreeSince = "", short }, "", ""},
		"an agency without an owner":                {func(c *ClusterStatus) { c.Agencies[1].Owner, c.Agencies[1].FreeSince = "", long }, "No member owns B200", "No member owns B200"},
		"permits of one that has just gone":         {func(c *ClusterStatus) { c.Held, c.FreeSince = 6, short }, "", ""},
		"permits that nobody takes":                 {func(c *ClusterStatus) { c.Held, c.FreeSince = 6, long }, "6 of 12 permits are held by no member", "6 of 12 permits are held by no member"},
		"a member that joins":                       {func(c *ClusterStatus) { c.Problem, c.ProblemSince = "it is no member yet", short }, "", "This member of the cluster does not act"},
		"a member of another configuration":         {func(c *ClusterStatus) { c.Problem, c.ProblemSince = "ours is generation 1", long }, "This member of the cluster does not act", "This member of the cluster does not act"},
		"a rolling change":                          {func(c *ClusterStatus) { c.Members[1].InForce, c.DifferSince = false, long }, "", "Members of the cluster have different configurations"},
		"a configuration that stays different":      {func(c *ClusterStatus) { c.Members[1].OtherList, c.DifferSince = true, at.Add(-time.Hour) }, "Members of the cluster have different configurations", "Members of the cluster have different configurations"},
		"agencies without an owner, of which a few": {func(c *ClusterStatus) { c.Agencies[1].FreeSince, c.Agencies[2].FreeSince = long, long }, "No member owns 2 agencies", "No member owns 2 agencies"},
	} {
		s := member()
		c.change(s.Cluster)
		if got := s.Summary(); got != c.want {
			t.Errorf("%s: summary %q, want %q", name, got, c.want)
		}
		list := s.Problems()
		if c.listed == "" && len(list) > 0 || c.listed != "" && (len(list) != 1 || list[0].Title != c.listed) {
			t.Errorf("%s: %+v", name, list)
		}
		if text := strings.Join(s.ClusterLines(TextOptions{}), "\n"); !strings.Contains(text, c.listed) {
			t.Errorf("%s: no %q in\n%s", name, c.listed, text)
		}
		s.NATS.Connected = false
		if got := s.Summary(); got != "NATS is not connected" {
			t.Errorf("%s, and NATS is away: %q", name, got)
		}
	}
}

func TestTheTablesOfAClusterSayWhoOwnsWhat(t *testing.T) {
	s := member()
	s.Cluster.Members[1].InForce = false
	s.Cluster.Agencies[2] = ClusterAgency{AgencyID: "C300", FreeSince: s.Watch.At}
	text := strings.Join(s.ClusterLines(TextOptions{}), "\n")
	for _, want := range []string{
		"MEMBER          HOST  UP      PERMITS  AGENCIES  CONFIGURATION\none (this one)  h1    1h0m0s  6        1         generation 2\ntwo             h2    1m0s    6        2         not in force: generation 2, d2\n",
		"AGENCY  OWNER           EPOCH  SINCE\nA100    one (this one)  3      1h0m0s ago\nB200    two on h2       1      1m0s ago\nC300    no member       0      never claimed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no\n%s\nin\n%s", want, text)
		}
	}
}

func TestTheStatusOfADoorbellAloneSaysNothingOfACluster(t *testing.T) {
	s := member()
	s.Cluster = nil
	b, err := json.Marshal(s)
	if text := string(b) + strings.Join(s.Lines(TextOptions{}), "\n"); err != nil || strings.Contains(strings.ToLower(text), "cluster") {
		t.Errorf("%v: %s", err, text)
	}
}
